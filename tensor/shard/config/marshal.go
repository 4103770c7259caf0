package config

import (
	"fmt"
	"strings"
)

// Marshal returns the text of a file from which Parse reads an equal config.
func (c *Config) Marshal() []byte {
	var b strings.Builder
	if c.NumWorkers > 0 {
		fmt.Fprintf(&b, "workers: %d\n", c.NumWorkers)
	}
	if c.Mesh != nil {
		var dims []string
		for _, d := range c.Mesh {
			dims = append(dims, fmt.Sprintf("%q: %d", d.Name, d.Size))
		}
		fmt.Fprintf(&b, "mesh: {%s}\n", strings.Join(dims, ", "))
	}
	fmt.Fprintf(&b, "zero1: %v\nauto_shard: %v\n", c.ZeRO1, c.AutoShard)
	if c.MicroBatches > 0 {
		fmt.Fprintf(&b, "micro_batches: %d\n", c.MicroBatches)
	}
	if c.Exact > 0 {
		fmt.Fprintf(&b, "exact: %d\n", c.Exact)
	}
	for _, g := range c.Signals {
		fmt.Fprintf(&b, "%q:\n", g.Name)
		if s := g.Shard; s != nil {
			fmt.Fprintf(&b, "  shard: {axis: %d", s.Axis)
			if len(s.Along) > 0 {
				fmt.Fprintf(&b, ", along: [%s]", quoted(s.Along))
			}
			if s.Even {
				b.WriteString(", even: true")
			}
			b.WriteString("}\n")
		}
		if len(g.Workers) > 0 {
			fmt.Fprintf(&b, "  workers: [%s]\n", strings.Trim(strings.ReplaceAll(fmt.Sprint(g.Workers), " ", ", "), "[]"))
		}
		if g.Backward != "" {
			fmt.Fprintf(&b, "  backward: %q\n", g.Backward)
		}
		if g.Compile != nil {
			fmt.Fprintf(&b, "  compile: %v\n", *g.Compile)
		}
	}
	return []byte(b.String())
}

func quoted(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, fmt.Sprintf("%q", n))
	}
	return strings.Join(out, ", ")
}
