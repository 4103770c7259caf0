package compile

import (
	"cmp"
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Options configure Compile; nil and the zero value are the defaults.
type Options struct {
	// NoFuse keeps a step for every operation, as Program.Unfused does. The package
	// comment lists the passes that can change bits of results.
	NoFuse bool

	// Align is the alignment of temporaries in bytes, a power of two. Default, and at
	// least, the constant Align.
	Align int

	// Leave reports whether the engine lacks a kind of steps, whose operations then stay
	// steps of other kinds; nil means that it lacks none. Attention whose gradient is
	// needed is also left if AttentionGrad is, and AttentionGrad if Attention is.
	Leave func(Fused) bool

	// Orders lets results lie in another order of dims than row-major, see OutputOf: the
	// engine keeps the strides with such a value, and hands them over in Strides when a
	// program reads it.
	Orders bool
	// Strides are those of each input of the program, in elements; nil, of all or of one,
	// is row-major.
	Strides [][]int
}

// stridesOf returns those of input i, nil if it is row-major.
func (o *Options) stridesOf(i int) []int {
	if o.Strides == nil {
		return nil
	}
	return o.Strides[i]
}

// leaves reports whether the engine lacks steps of kind f.
func (o *Options) leaves(f Fused) bool { return o.Leave != nil && o.Leave(f) }

// Compile compiles p, which must be well formed: recorded by a session, or returned by
// tensor.ParseProgram. The plan keeps p.
func Compile(p *tensor.Program, opts *Options) *Plan {
	o := *cmp.Or(opts, &Options{})
	o.Align = max(o.Align, Align)
	if o.Align&(o.Align-1) != 0 {
		panic(fmt.Sprintf("compile: Align %d, expected a power of two", o.Align))
	}
	b := newBuilder(p, &o)
	b.build()
	if !o.NoFuse && !p.Unfused {
		rw := &rewriter{opt: o, plan: b.plan, era: b.era}
		rw.rewrite()
	}
	a := &allocator{plan: b.plan, align: o.Align, fallible: -1}
	a.run()
	b.plan.Stats.Steps = len(b.plan.Steps)
	return b.plan
}
