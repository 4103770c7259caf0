package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/shard"
)

// MaxMicroBatches bounds the number of parts of a batch.
const MaxMicroBatches = 4096

// OptimizerState is the signal under which optimizers make their state. ZeRO1 applies to
// it.
const OptimizerState = "optimizer.state"

// Batch is the signal under which training loops upload their examples.
const Batch = "batch"

// Config is the content of a file. The zero value is one worker without placements.
type Config struct {
	// NumWorkers is the number of workers; 0 for as many as are named, or as the mesh
	// has.
	NumWorkers int
	// Mesh is the arrangement of the workers, or of those of each stage; nil for a line.
	Mesh         shard.Mesh
	ZeRO1        bool
	AutoShard    bool
	MicroBatches int // 0 is 1
	// Exact is the number of parts of a batch, a multiple of the workers: results have
	// the same bits on any number of workers (shard.Options.Parts). 0 is none.
	Exact int
	// Signals have distinct names. Their order matters only for errors.
	Signals []Signal

	file string
	at   map[string]place // places of keys, by their paths
}

// Signal is the entry of a signal.
type Signal struct {
	Name     string
	Shard    *Shard // nil for no placement
	Workers  []int  // its stage; nil for any
	Backward string // the name of another signal, or ""
	Compile  *bool  // false: programs with it run unfused, see Unfuses; nil if not given
}

// Shard says how tensors are cut.
type Shard struct {
	Axis  int      // of the tensor; if negative, counted from the last
	Along []string // dims of the mesh; nil for all
	Even  bool     // a dim that cannot be cut evenly is an error
}

// Stage is a set of workers and the mesh that they form: rank i of the mesh is worker
// Workers[i].
type Stage struct {
	Mesh    shard.Mesh
	Workers []int
}

// place is a position in the file.
type place struct{ line, col int }

// DataParallel returns a config for n workers that each have a part of the tensors under
// the signal Batch.
func DataParallel(n int) *Config {
	return &Config{NumWorkers: n, Signals: []Signal{{Name: Batch, Shard: &Shard{Along: []string{"data"}}}}}
}

func (c *Config) bad(key, value, format string, args ...any) error {
	at, ok := c.at[key]
	for k := key; !ok && k != ""; { // or of the key above it
		k = k[:max(strings.LastIndexByte(k, '.'), 0)]
		at, ok = c.at[k]
	}
	return &Error{File: c.file, Line: at.line, Col: at.col, Key: key, Value: value, Problem: fmt.Sprintf(format, args...)}
}

// Check returns an error for the first invalid entry of c. A config from Parse is valid.
func (c *Config) Check() error {
	if c.NumWorkers < 0 || c.NumWorkers > shard.MaxRanks {
		return c.bad("workers", fmt.Sprint(c.NumWorkers), "expected 1 to %d", shard.MaxRanks)
	}
	if c.MicroBatches < 0 || c.MicroBatches > MaxMicroBatches {
		return c.bad("micro_batches", fmt.Sprint(c.MicroBatches), "expected 1 to %d", MaxMicroBatches)
	}
	if err := c.checkMesh(); err != nil {
		return err
	}
	if err := c.checkExact(); err != nil {
		return err
	}
	names := map[string]int{}
	for i := range c.Signals {
		g := &c.Signals[i]
		if err := tensor.CheckSignalName(g.Name); err != nil {
			return c.bad(g.Name, "", "%v", err)
		}
		if slices.Contains(keys[:], g.Name) {
			return c.bad(g.Name, "", "a signal can't have this name: it is a key of the config")
		}
		if _, ok := names[g.Name]; ok {
			return c.bad(g.Name, "", "is a duplicate")
		}
		names[g.Name] = i
		if err := c.checkShard(g); err != nil {
			return err
		}
	}
	if err := c.checkWorkers(); err != nil {
		return err
	}
	return c.checkBackward(names)
}

// checkExact checks that results can have the same bits on any number of workers: the
// workers divide the parts, and only batches and the optimizer's state are cut.
func (c *Config) checkExact() error {
	n, given := c.Workers(), fmt.Sprint(c.Exact)
	switch {
	case c.Exact < 0 || c.Exact > shard.MaxRanks:
		return c.bad("exact", given, "expected 1 to %d parts", shard.MaxRanks)
	case c.Exact == 0:
		return nil
	case c.Exact%n != 0:
		return c.bad("exact", given, "%d workers can't have as many parts each, expected a multiple of %d, or workers that divide %d", n, n, c.Exact)
	case len(c.Mesh) > 1:
		return c.bad("exact", given, "a mesh of two dims cuts matrices, expected a mesh of one dim, or no exact")
	case c.AutoShard:
		return c.bad("exact", given, "auto_shard chooses by the number of workers, expected one of the two")
	case c.MicroBatches > 1:
		return c.bad("exact", given, "parts take the place of micro_batches, expected one of the two")
	}
	for _, g := range c.Signals {
		switch {
		case len(g.Workers) > 0:
			return c.bad("exact", given, "%s is on workers of its own, expected no workers of signals, or no exact", g.Name)
		case g.Shard != nil && g.Name != Batch && g.Name != OptimizerState:
			return c.bad("exact", given, "%s is cut, expected a cut of %s and of %s only, or no exact", g.Name, Batch, OptimizerState)
		}
	}
	return nil
}

func (c *Config) checkMesh() error {
	if c.Mesh == nil {
		return nil
	}
	if err := c.Mesh.Check(); err != nil {
		return c.bad("mesh", c.Mesh.String(), "%v", err)
	}
	for k, d := range c.Mesh {
		if err := tensor.CheckSignalName(d.Name); err != nil || strings.ContainsAny(d.Name, "{}[],:") {
			return c.bad("mesh", fmt.Sprintf("%q", d.Name), "expected a name without spaces and without {}[],:")
		}
		if k > 0 && d.Name == c.Mesh[0].Name {
			return c.bad("mesh", d.Name, "two dims have this name")
		}
	}
	return nil
}

// dims returns the names of the mesh's dims.
func (c *Config) dims() []string {
	if c.Mesh == nil {
		return []string{shard.Line(1)[0].Name}
	}
	var out []string
	for _, d := range c.Mesh {
		out = append(out, d.Name)
	}
	return out
}

func (c *Config) checkShard(g *Signal) error {
	if g.Shard == nil {
		return nil
	}
	key := g.Name + ".shard"
	if a := g.Shard.Axis; a < -tensor.MaxRank || a >= tensor.MaxRank {
		return c.bad(key+".axis", fmt.Sprint(a), "expected %d to %d: tensors have at most %d dims", -tensor.MaxRank, tensor.MaxRank-1, tensor.MaxRank)
	}
	for i, n := range g.Shard.Along {
		if !slices.Contains(c.dims(), n) {
			return c.bad(key+".along", n, "unknown dim of the mesh, expected %s", strings.Join(c.dims(), " or "))
		}
		if slices.Contains(g.Shard.Along[:i], n) {
			return c.bad(key+".along", n, "is a duplicate")
		}
	}
	return nil
}

// checkWorkers checks the lists of workers: each number is in range and occurs once, and
// two lists are equal or disjoint.
func (c *Config) checkWorkers() error {
	owner := map[int]*Signal{}
	for i := range c.Signals {
		g := &c.Signals[i]
		key := g.Name + ".workers"
		if len(g.Workers) > shard.MaxRanks {
			return c.bad(key, "", "%d workers, expected at most %d", len(g.Workers), shard.MaxRanks)
		}
		for j, w := range g.Workers {
			limit := shard.MaxRanks
			if n := c.given(); n > 0 {
				limit = n
			}
			if w < 0 || w >= limit {
				return c.bad(key, fmt.Sprint(w), "unknown worker, expected 0 to %d", limit-1)
			}
			if slices.Contains(g.Workers[:j], w) {
				return c.bad(key, fmt.Sprint(w), "is a duplicate")
			}
		}
		if c.Mesh != nil && len(g.Workers) > 0 && len(g.Workers) != c.Mesh.Size() {
			return c.bad(key, list(g.Workers), "%d workers, expected %d: the mesh of a stage is %v", len(g.Workers), c.Mesh.Size(), c.Mesh)
		}
		for _, w := range g.Workers {
			if o := owner[w]; o == nil {
				owner[w] = g
			} else if !slices.Equal(o.Workers, g.Workers) {
				return c.bad(key, list(g.Workers), "%s has %s; expected the same workers in the same order, or others", o.Name, list(o.Workers))
			}
		}
	}
	n := c.Workers()
	if len(owner) > 0 { // with stages, every worker has one
		for w := range n {
			if owner[w] == nil {
				return c.bad("workers", fmt.Sprint(n), "worker %d is in no stage: name it in a signal's workers, or leave workers out", w)
			}
		}
	} else if c.Mesh != nil && c.Mesh.Size() != n {
		return c.bad("workers", fmt.Sprint(n), "the mesh %v has %d", c.Mesh, c.Mesh.Size())
	}
	return nil
}

// given returns the number of workers in the config, or 0 if it has none.
func (c *Config) given() int {
	if c.NumWorkers > 0 {
		return c.NumWorkers
	}
	for _, g := range c.Signals {
		if len(g.Workers) > 0 {
			return 0
		}
	}
	if c.Mesh != nil {
		return c.Mesh.Size()
	}
	return 0
}

func (c *Config) checkBackward(names map[string]int) error {
	for i := range c.Signals {
		path := []string{c.Signals[i].Name}
		for g := &c.Signals[i]; g.Backward != ""; {
			next, ok := names[g.Backward]
			if !ok {
				return c.bad(g.Name+".backward", g.Backward, "unknown signal, expected %s", known(names, g.Name))
			}
			again := slices.Contains(path, g.Backward)
			if path = append(path, g.Backward); again {
				return c.bad(path[0]+".backward", c.Signals[i].Backward, "backward signals form a cycle, %s; expected a chain that ends", strings.Join(path, " to "))
			}
			g = &c.Signals[next]
		}
	}
	return nil
}

// known returns the names except one.
func known(names map[string]int, but string) string {
	out := slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(n string) bool { return n == but })
	switch {
	case len(out) == 0:
		return "that of another signal, of which there is none"
	case len(out) > 12:
		return fmt.Sprintf("one of %d, such as %s", len(out), out[0])
	}
	return strings.Join(out, " or ")
}

func list(w []int) string {
	if len(w) > 8 {
		return fmt.Sprintf("%v and %d more", w[:8], len(w)-8)
	}
	return strings.ReplaceAll(fmt.Sprint(w), " ", ", ")
}
