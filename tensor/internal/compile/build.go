package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// builder makes the first form of a plan: a step for each live instruction.
type builder struct {
	p    *tensor.Program
	opt  *Options
	plan *Plan
	live []bool
	at   []Operand // the result of each live instruction
	ext  []Operand
	// copies holds the views that have a dense copy, by the buffer that they view.
	copies map[int][]copied
	// era is the number of barriers before each instruction. A result of one era is
	// neither computed in another nor kept for it.
	era []int
	// anyOrder has the results that may lie in another order of dims than row-major; nil
	// if the engine can't keep such results.
	anyOrder []bool
}

// copied is a view and its dense copy.
type copied struct{ of, is Operand }

func newBuilder(p *tensor.Program, opt *Options) *builder {
	b := &builder{
		p: p, opt: opt, plan: &Plan{Program: p}, copies: map[int][]copied{},
		at: make([]Operand, len(p.Instrs)), era: make([]int, len(p.Instrs)),
	}
	b.plan.Stats.Instrs = len(p.Instrs)
	return b
}

// build adds the buffers of the inputs and the steps.
func (b *builder) build() {
	for i, e := range b.p.Externals {
		o := b.buffer(External, i, e.DType, b.p.Shapes[e.Shape])
		if st := b.opt.stridesOf(i); st != nil {
			o.Strides, o.Dense = st, dense(o.Shape, st)
		}
		b.ext = append(b.ext, o)
	}
	b.live = b.p.Live()
	if b.opt.Orders {
		b.ordered()
	}
	era := 0
	for i := range b.p.Instrs {
		if b.live[i] && b.p.Instrs[i].Op == tensor.OpBarrier {
			era++
			clear(b.copies)
		}
		if b.era[i] = era; b.live[i] {
			b.instr(i)
		} else {
			b.plan.Stats.Dead++
		}
	}
}

// buffer adds a buffer to the plan and returns it as a dense operand.
func (b *builder) buffer(place Place, index int, d tensor.DType, s tensor.Shape) Operand {
	b.plan.Buffers = append(b.plan.Buffers, Buffer{Place: place, Index: index, Size: s.Elems() * d.Size(), first: -1, last: -1})
	return Operand{Scalar: -1, Buf: len(b.plan.Buffers) - 1, DType: d, Shape: s, Strides: s.Strides(), Dense: true}
}

// result adds the buffer of instruction i: an output if its result is kept, else a
// temporary.
func (b *builder) result(i int) Operand { return b.resultOf(i, b.p.Shapes[b.p.Instrs[i].Shape]) }

// resultOf is result with the dims as they lie in memory.
func (b *builder) resultOf(i int, s tensor.Shape) Operand {
	in := &b.p.Instrs[i]
	if !in.Keep {
		return b.buffer(Temp, -1, in.DType, s)
	}
	o := b.buffer(Output, len(b.plan.Outputs), in.DType, s)
	b.plan.Outputs = append(b.plan.Outputs, OutputOf{Instr: i, Buf: o.Buf, Take: -1})
	return o
}

func (b *builder) operand(r tensor.Ref) Operand {
	if i, ok := r.Instr(); ok {
		return b.at[i]
	}
	if i, ok := r.External(); ok {
		return b.ext[i]
	}
	i, _ := r.Scalar()
	return Operand{Scalar: i}
}

func (b *builder) step(s Step) { b.plan.Steps = append(b.plan.Steps, s) }

// dense returns o as a contiguous operand. It adds a step that copies o if o is not
// contiguous and no earlier step copied it.
func (b *builder) dense(instr int, o Operand) Operand {
	if o.Scalar >= 0 || o.Dense {
		return o
	}
	for _, k := range b.copies[o.Buf] {
		if k.of.Off == o.Off && k.of.Shape.Equal(o.Shape) && slices.Equal(k.of.Strides, o.Strides) {
			return k.is
		}
	}
	d := b.buffer(Temp, -1, o.DType, o.Shape)
	b.copy(instr, o, d)
	b.copies[o.Buf] = append(b.copies[o.Buf], copied{o, d})
	return d
}

// copy adds a cast to the same dtype.
func (b *builder) copy(instr int, from, to Operand) {
	b.step(Step{Instr: instr, Op: tensor.OpCast, In: []Operand{from}, Out: to, Ints: []int64{int64(to.DType)}})
	b.plan.Stats.Copies++
}

func (b *builder) instr(i int) {
	in := &b.p.Instrs[i]
	info := in.Op.Info()
	args := b.p.ArgsOf(i)
	if info.Class == tensor.ClassView {
		b.plan.Stats.Views++
		v := b.view(i, b.operand(args[0]))
		if in.Keep {
			out := b.result(i)
			b.copy(i, v, out)
			v = out
		}
		b.at[i] = v
		return
	}
	if in.Op == tensor.OpCast && !in.Keep {
		if o := b.operand(args[0]); o.DType == in.DType {
			b.at[i] = o
			return
		}
	}
	s := Step{Instr: i, Op: in.Op, Ints: b.p.IntsOf(i), In: make([]Operand, len(args))}
	for k, r := range args {
		s.In[k] = b.operand(r)
		if !readable(in.Op, k, s.In[k], s.Ints) {
			s.In[k] = b.dense(i, s.In[k])
		}
		if in.Op == tensor.OpMatmul {
			s.In[k] = forward(s.In[k])
		}
	}
	if b.anyOrder != nil && b.anyOrder[i] && keepsOrder(in.Op) && !b.sameType(i) {
		if order := orderOf(&s, b.p.Shapes[in.Shape]); order != nil {
			b.at[i] = b.inOrder(i, &s, order)
			b.step(s)
			return
		}
	}
	s.Out = b.result(i)
	b.step(s)
	b.at[i] = s.Out
}
