package compile

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// compiler holds the state of one compilation.
type compiler struct {
	opt  Options
	p    *tensor.Program
	plan *Plan
	live []bool
	at   []Operand // the result of each live instruction
	ext  []Operand
	// copies holds the views that have a dense copy, by the buffer that they view.
	copies map[int][]copied
	// era is the number of barriers before each instruction. A result of one era is
	// neither computed in another nor kept for it.
	era []int
	// fallible is the last step that can fail on the values of its operands, or -1. The
	// memory of inputs is written only after it.
	fallible int
}

// copied is a view and its dense copy.
type copied struct{ of, is Operand }

// Options configure Compile; nil and the zero value are the defaults.
type Options struct {
	// NoFuse keeps a step for every operation. The package comment lists the passes that
	// can change bits of results.
	NoFuse bool

	// Align is the alignment of temporaries in bytes, a power of two. Default, and at
	// least, the constant Align.
	Align int

	// Leave reports that the engine has no steps of a kind: the operations stay steps of
	// other kinds. nil leaves none. Attention is left as well where AttentionGrad is
	// needed and left, and AttentionGrad where Attention is left.
	Leave func(Fused) bool
}

// leaves reports whether the engine has no steps of kind f.
func (o *Options) leaves(f Fused) bool { return o.Leave != nil && o.Leave(f) }

// Compile compiles p, which must be well formed: recorded by a session, or returned by
// tensor.ParseProgram. The plan keeps p.
func Compile(p *tensor.Program, opts *Options) *Plan {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Align = max(o.Align, Align)
	if o.Align&(o.Align-1) != 0 {
		panic(fmt.Sprintf("compile: Align %d, expected a power of two", o.Align))
	}
	c := &compiler{opt: o, p: p, plan: &Plan{Program: p}, at: make([]Operand, len(p.Instrs)), era: make([]int, len(p.Instrs)), copies: map[int][]copied{}, fallible: -1}
	c.plan.Stats.Instrs = len(p.Instrs)
	for i, e := range p.Externals {
		c.ext = append(c.ext, c.buffer(External, i, e.DType, p.Shapes[e.Shape]))
	}
	c.findLive()
	era := 0
	for i := range p.Instrs {
		if c.live[i] && p.Instrs[i].Op == tensor.OpBarrier {
			era++
			clear(c.copies)
		}
		if c.era[i] = era; c.live[i] {
			c.instr(i)
		} else {
			c.plan.Stats.Dead++
		}
	}
	if !o.NoFuse {
		c.rewrite()
	}
	c.lifetimes()
	c.takeDonated()
	c.writeInPlace()
	c.place()
	c.plan.Stats.Steps = len(c.plan.Steps)
	return c.plan
}

// findLive marks the instructions that kept results depend on, and those that can fail:
// an index out of range is an error even if no instruction uses the result.
func (c *compiler) findLive() {
	p := c.p
	c.live = make([]bool, len(p.Instrs))
	for i := len(p.Instrs) - 1; i >= 0; i-- {
		in := &p.Instrs[i]
		if !c.live[i] && !in.Keep && !in.Op.Info().Fallible {
			continue
		}
		c.live[i] = true
		for _, r := range p.ArgsOf(i) {
			if j, ok := r.Instr(); ok {
				c.live[j] = true
			}
		}
	}
}

// buffer adds a buffer to the plan and returns it as a dense operand.
func (c *compiler) buffer(place Place, index int, d tensor.DType, s tensor.Shape) Operand {
	c.plan.Buffers = append(c.plan.Buffers, Buffer{Place: place, Index: index, Size: s.Elems() * d.Size(), first: -1, last: -1})
	return Operand{Scalar: -1, Buf: len(c.plan.Buffers) - 1, DType: d, Shape: s, Strides: s.Strides(), Dense: true}
}

// result adds the buffer of instruction i: an output if its result is kept, else a
// temporary.
func (c *compiler) result(i int) Operand {
	in := &c.p.Instrs[i]
	s := c.p.Shapes[in.Shape]
	if !in.Keep {
		return c.buffer(Temp, -1, in.DType, s)
	}
	o := c.buffer(Output, len(c.plan.Outputs), in.DType, s)
	c.plan.Outputs = append(c.plan.Outputs, OutputOf{Instr: i, Buf: o.Buf, Take: -1})
	return o
}

func (c *compiler) operand(r tensor.Ref) Operand {
	if i, ok := r.Instr(); ok {
		return c.at[i]
	}
	if i, ok := r.External(); ok {
		return c.ext[i]
	}
	i, _ := r.Scalar()
	return Operand{Scalar: i}
}

func (c *compiler) step(s Step) { c.plan.Steps = append(c.plan.Steps, s) }

// dense returns o as a contiguous operand. It adds a step that copies o if o is not
// contiguous and no earlier step copied it.
func (c *compiler) dense(instr int, o Operand) Operand {
	if o.Scalar >= 0 || o.Dense {
		return o
	}
	for _, k := range c.copies[o.Buf] {
		if k.of.Off == o.Off && k.of.Shape.Equal(o.Shape) && slices.Equal(k.of.Strides, o.Strides) {
			return k.is
		}
	}
	d := c.buffer(Temp, -1, o.DType, o.Shape)
	c.copy(instr, o, d)
	c.copies[o.Buf] = append(c.copies[o.Buf], copied{o, d})
	return d
}

// copy adds a cast to the same dtype.
func (c *compiler) copy(instr int, from, to Operand) {
	c.step(Step{Instr: instr, Op: tensor.OpCast, In: []Operand{from}, Out: to, Ints: []int64{int64(to.DType)}})
	c.plan.Stats.Copies++
}

func (c *compiler) instr(i int) {
	in := &c.p.Instrs[i]
	info := in.Op.Info()
	args := c.p.ArgsOf(i)
	if info.Class == tensor.ClassView {
		c.plan.Stats.Views++
		v := c.view(i, c.operand(args[0]))
		if in.Keep {
			out := c.result(i)
			c.copy(i, v, out)
			v = out
		}
		c.at[i] = v
		return
	}
	if in.Op == tensor.OpCast && !in.Keep {
		if o := c.operand(args[0]); o.DType == in.DType {
			c.at[i] = o
			return
		}
	}
	s := Step{Instr: i, Op: in.Op, Ints: c.p.IntsOf(i), In: make([]Operand, len(args))}
	for k, r := range args {
		s.In[k] = c.operand(r)
		if !readable(in.Op, k, s.In[k], s.Ints) {
			s.In[k] = c.dense(i, s.In[k])
		}
		if in.Op == tensor.OpMatmul {
			s.In[k] = forward(s.In[k])
		}
	}
	s.Out = c.result(i)
	c.step(s)
	c.at[i] = s.Out
}
