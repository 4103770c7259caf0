package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ringside-go/ringside/tensor/shard"
)

// MaxBytes bounds the size of a file.
const MaxBytes = 64 << 10

// keys are the keys of a config that are no signals.
var keys = [...]string{"workers", "mesh", "zero1", "auto_shard", "micro_batches", "exact"}

// Parse reads a config from the text of a YAML file. file is its name for errors, which
// are *Error.
func Parse(file string, text []byte) (*Config, error) {
	c := &Config{file: file, at: map[string]place{}}
	if len(text) > MaxBytes {
		return nil, c.bad("", "", "%d bytes, expected at most %d", len(text), MaxBytes)
	}
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); err != nil && err != io.EOF {
		return nil, c.syntax(err, text)
	}
	var second yaml.Node
	if err := d.Decode(&second); err == nil {
		return nil, c.wrong("", &second, "one document")
	} else if err != io.EOF {
		return nil, c.syntax(err, text)
	}
	if doc.Kind == 0 || len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil, c.bad("", "", "the file is empty, expected signals; a program without a config needs no file")
	}
	if err := c.top(doc.Content[0]); err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	return c, nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax returns the error for a message of the YAML parser, which has a line and no
// column.
func (c *Config) syntax(err error, text []byte) error {
	e := &Error{File: c.file, Problem: err.Error()}
	if m := yamlLine.FindStringSubmatch(e.Problem); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Problem = e.Problem[len(m[0]):]
	}
	if e.Line > 0 {
		e.Col = 1
	}
	e.Problem = "not YAML: " + e.Problem
	// The parser's message for this is less clear, or names another line.
	for i, line := range bytes.Split(text, []byte("\n")) {
		if blank := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]; bytes.IndexByte(blank, '\t') >= 0 && len(blank) < len(line) {
			e.Line, e.Col = i+1, bytes.IndexByte(blank, '\t')+1
			e.Problem = "a tab before the key, expected spaces: YAML has no tabs there"
			break
		}
	}
	return e
}

// pairs calls f for every key of a mapping, and rejects duplicate keys.
func (c *Config) pairs(path string, n *yaml.Node, f func(key string, v *yaml.Node) error) error {
	n, err := c.resolve(path, n)
	if err != nil {
		return err
	}
	if n.Kind != yaml.MappingNode {
		return c.wrong(path, n, "a mapping of keys to values")
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			return c.wrong(path, k, "a name as the key")
		}
		full := k.Value
		if path != "" {
			full = path + "." + k.Value
		}
		if line, twice := seen[k.Value]; twice {
			return &Error{File: c.file, Line: k.Line, Col: k.Column, Key: full, Problem: fmt.Sprintf("is a duplicate, first in line %d", line)}
		}
		seen[k.Value] = k.Line
		v := n.Content[i+1]
		at := place{k.Line, k.Column}
		if v.Line > 0 && v.Kind == yaml.ScalarNode {
			at = place{v.Line, v.Column}
		}
		c.at[full] = at
		v, err := c.resolve(full, v)
		if err != nil {
			return err
		}
		if err := f(k.Value, v); err != nil {
			return err
		}
	}
	return nil
}

// resolve returns the node that an alias stands for. YAML has no alias of an alias.
func (c *Config) resolve(path string, n *yaml.Node) (*yaml.Node, error) {
	if n.Kind == yaml.AliasNode {
		if n.Alias == nil || n.Alias.Kind == yaml.AliasNode {
			return nil, c.wrong(path, n, "an anchor that is defined before")
		}
		return n.Alias, nil
	}
	return n, nil
}

// wrong returns the error for a node of an unexpected kind.
func (c *Config) wrong(path string, n *yaml.Node, expected string) error {
	e := &Error{File: c.file, Line: n.Line, Col: n.Column, Key: path, Problem: "expected " + expected}
	switch n.Kind {
	case yaml.ScalarNode:
		e.Value = fmt.Sprintf("%.80s", n.Value)
	case yaml.MappingNode:
		e.Value = "a mapping"
	case yaml.SequenceNode:
		e.Value = "a list"
	}
	return e
}

func (c *Config) top(n *yaml.Node) error {
	return c.pairs("", n, func(key string, v *yaml.Node) (err error) {
		switch key {
		case "workers":
			if c.NumWorkers, err = c.integer(key, v); err == nil && c.NumWorkers < 1 {
				return c.wrong(key, v, fmt.Sprintf("1 to %d", shard.MaxRanks))
			}
		case "micro_batches":
			if c.MicroBatches, err = c.integer(key, v); err == nil && c.MicroBatches < 1 {
				return c.wrong(key, v, fmt.Sprintf("1 to %d", MaxMicroBatches))
			}
		case "exact":
			if c.Exact, err = c.integer(key, v); err == nil && c.Exact < 1 {
				return c.wrong(key, v, fmt.Sprintf("1 to %d", shard.MaxRanks))
			}
		case "zero1":
			c.ZeRO1, err = c.boolean(key, v)
		case "auto_shard":
			c.AutoShard, err = c.boolean(key, v)
		case "mesh":
			err = c.parseMesh(v)
		default:
			err = c.signal(key, v)
		}
		return err
	})
}

// parseMesh reads {data: 2, model: 2}, or 2x2 for short.
func (c *Config) parseMesh(v *yaml.Node) error {
	if v.Kind == yaml.ScalarNode {
		m, err := shard.ParseMesh(v.Value)
		if err != nil {
			return c.wrong("mesh", v, "a number such as 4, two such as 2x2, or names with numbers such as {data: 2, model: 2}")
		}
		c.Mesh = m
		return nil
	}
	at := c.at["mesh"]
	err := c.pairs("mesh", v, func(key string, v *yaml.Node) error {
		n, err := c.integer("mesh."+key, v)
		c.Mesh = append(c.Mesh, shard.Dim{Name: key, Size: n})
		return err
	})
	c.at["mesh"] = at
	if err == nil && c.Mesh == nil {
		return c.wrong("mesh", v, fmt.Sprintf("1 to %d dims", shard.MaxDims))
	}
	return err
}

func (c *Config) signal(name string, v *yaml.Node) error {
	g := Signal{Name: name}
	if v.Tag == "!!null" { // a signal without entries
		c.Signals = append(c.Signals, g)
		return nil
	}
	if v.Kind != yaml.MappingNode {
		return c.wrong(name, v, fmt.Sprintf("a mapping with shard, workers, backward and compile, as every key but %s is a signal", strings.Join(keys[:], ", ")))
	}
	var inner []int
	err := c.pairs(name, v, func(key string, v *yaml.Node) (err error) {
		path := name + "." + key
		switch key {
		case "shard":
			if v.Tag == "!!null" {
				return nil
			}
			g.Shard, inner, err = c.shard(path, v)
		case "workers":
			g.Workers, err = c.integers(path, v)
		case "backward":
			if v.Tag == "!!null" {
				return nil
			}
			if v.Kind != yaml.ScalarNode || v.Value == "" {
				return c.wrong(path, v, "the name of a signal")
			}
			g.Backward = v.Value
		case "compile":
			var b bool
			if b, err = c.boolean(path, v); err == nil {
				g.Compile = &b
			}
		default:
			return c.bad(path, "", "unknown key, expected shard, workers, backward or compile")
		}
		return err
	})
	if err != nil {
		return err
	}
	if inner != nil {
		if g.Workers != nil && list(g.Workers) != list(inner) {
			return c.bad(name+".shard.workers", list(inner), "%s.workers is %s; expected the same, or one of the two", name, list(g.Workers))
		}
		if g.Workers == nil {
			g.Workers = inner
			c.at[name+".workers"] = c.at[name+".shard.workers"]
		}
	}
	c.Signals = append(c.Signals, g)
	return nil
}

func (c *Config) shard(path string, v *yaml.Node) (s *Shard, workers []int, err error) {
	s = &Shard{}
	axis := false
	err = c.pairs(path, v, func(key string, v *yaml.Node) (err error) {
		full := path + "." + key
		switch key {
		case "axis":
			axis = true
			s.Axis, err = c.integer(full, v)
		case "along":
			s.Along, err = c.names(full, v)
		case "workers":
			workers, err = c.integers(full, v)
		case "even":
			s.Even, err = c.boolean(full, v)
		default:
			return c.bad(full, "", "unknown key, expected axis, along, workers or even")
		}
		return err
	})
	if err == nil && !axis {
		err = c.bad(path, "", "has no axis, expected the dim to cut, such as axis: 0")
	}
	return s, workers, err
}

func (c *Config) integer(path string, v *yaml.Node) (int, error) {
	n, err := strconv.Atoi(v.Value)
	if v.Kind != yaml.ScalarNode || v.Tag != "!!int" || err != nil {
		if errors.Is(err, strconv.ErrRange) {
			return 0, c.wrong(path, v, "a smaller number")
		}
		return 0, c.wrong(path, v, "a whole number")
	}
	return n, nil
}

func (c *Config) boolean(path string, v *yaml.Node) (b bool, err error) {
	if v.Kind != yaml.ScalarNode || v.Tag != "!!bool" || v.Decode(&b) != nil {
		return false, c.wrong(path, v, "true or false")
	}
	return b, nil
}

// integers reads a list of numbers; null is none.
func (c *Config) integers(path string, v *yaml.Node) (out []int, err error) {
	if v.Tag != "!!null" && (v.Kind != yaml.SequenceNode || len(v.Content) == 0) {
		return nil, c.wrong(path, v, "a list of workers such as [0, 1], or null for all")
	}
	return items(c, path, v, c.integer)
}

// names reads a name or a list of names; null is none.
func (c *Config) names(path string, v *yaml.Node) (out []string, err error) {
	return items(c, path, v, func(path string, v *yaml.Node) (string, error) {
		if v.Kind != yaml.ScalarNode || v.Value == "" {
			return "", c.wrong(path, v, "a dim of the mesh, or a list of them")
		}
		return v.Value, nil
	})
}

// items reads a list, or one item; null is none.
func items[T any](c *Config, path string, v *yaml.Node, item func(path string, v *yaml.Node) (T, error)) (out []T, err error) {
	if v.Tag == "!!null" {
		return nil, nil
	}
	of := []*yaml.Node{v}
	if v.Kind == yaml.SequenceNode {
		of = v.Content
	}
	for _, x := range of {
		if x, err = c.resolve(path, x); err != nil {
			return nil, err
		}
		n, err := item(path, x)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}
