package config

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/shard"
)

// Workers returns the number of workers that the config needs.
func (c *Config) Workers() int {
	if n := c.given(); n > 0 {
		return n
	}
	n := 1
	for _, g := range c.Signals {
		for _, w := range g.Workers {
			n = max(n, w+1)
		}
	}
	return n
}

// FitsAny reports whether the config gives no number of workers, and so may be used with
// any: Workers returns 1 then.
func (c *Config) FitsAny() bool {
	return c.given() == 0 && !slices.ContainsFunc(c.Signals, func(g Signal) bool { return len(g.Workers) > 0 })
}

// Cuts reports whether a signal's tensors have a part on each worker.
func (c *Config) Cuts() bool {
	return slices.ContainsFunc(c.Signals, func(g Signal) bool { return g.Shard != nil })
}

// Stages returns the sets of workers in the order in which signals name them, or one set
// of all workers if no signal names any.
func (c *Config) Stages() []Stage {
	var out []Stage
	for _, g := range c.Signals {
		if len(g.Workers) > 0 && c.stage(out, g.Workers) < 0 {
			out = append(out, Stage{c.mesh(len(g.Workers)), slices.Clone(g.Workers)})
		}
	}
	if out == nil {
		n := c.Workers()
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		out = []Stage{{c.mesh(n), all}}
	}
	return out
}

func (c *Config) mesh(n int) shard.Mesh {
	if c.Mesh != nil {
		return slices.Clone(c.Mesh)
	}
	return shard.Line(n)
}

func (c *Config) stage(stages []Stage, workers []int) int {
	return slices.IndexFunc(stages, func(s Stage) bool { return slices.Equal(s.Workers, workers) })
}

// Hints returns the placements of the signals, also for their gradients.
func (c *Config) Hints() shard.Signals {
	out := shard.Signals{}
	for i := range c.Signals {
		g := &c.Signals[i]
		if h, ok := c.hint(g); ok {
			out[tensor.Signal{Name: g.Name}] = h
		}
		if b := c.find(g.Backward); b != nil {
			if h, ok := c.hint(b); ok {
				out[tensor.Signal{Name: g.Name, Backward: true}] = h
			}
		}
	}
	state := tensor.Signal{Name: OptimizerState}
	if _, said := out[state]; c.ZeRO1 && !said {
		out[state] = shard.Hint{Layout: shard.On(shard.Shard(0))}
	}
	return out
}

func (c *Config) find(name string) *Signal {
	for i := range c.Signals {
		if c.Signals[i].Name == name {
			return &c.Signals[i]
		}
	}
	return nil
}

func (c *Config) hint(g *Signal) (h shard.Hint, ok bool) {
	if g.Shard == nil {
		return h, false
	}
	h.Even = g.Shard.Even
	for k, d := range c.dims() {
		if len(g.Shard.Along) == 0 || slices.Contains(g.Shard.Along, d) {
			h.Layout[k] = shard.Shard(g.Shard.Axis)
		}
	}
	return h, true
}

// StageFor returns the index in Stages of the stage of a signal, or false if it may run
// on any.
func (c *Config) StageFor(signal string) (stage int, ok bool) {
	return shard.For(c.StageOf(), tensor.Signal{Name: signal})
}

// Unfuses reports whether programs that have the signal run one operation after another
// (tensor.Program.Unfused): the entry for it says so by "compile: false". Of several
// entries with that key the one that names the signal best counts.
func (c *Config) Unfuses(signal string) bool {
	of := map[tensor.Signal]bool{}
	for _, g := range c.Signals {
		if g.Compile != nil {
			of[tensor.Signal{Name: g.Name}] = !*g.Compile
		}
	}
	unfused, _ := shard.For(of, tensor.Signal{Name: signal})
	return unfused
}

// StageOf returns the index in Stages of the stage of each signal. Gradients of a signal
// run on the stage of its backward signal, or else on its own. A signal that isn't listed
// runs on any stage.
func (c *Config) StageOf() map[tensor.Signal]int {
	stages, out := c.Stages(), map[tensor.Signal]int{}
	for i := range c.Signals {
		g := &c.Signals[i]
		back := g.Workers
		if b := c.find(g.Backward); b != nil && len(b.Workers) > 0 {
			back = b.Workers
		}
		if len(g.Workers) > 0 {
			out[tensor.Signal{Name: g.Name}] = c.stage(stages, g.Workers)
		}
		if len(back) > 0 {
			out[tensor.Signal{Name: g.Name, Backward: true}] = c.stage(stages, back)
		}
	}
	return out
}
