package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// compiler holds the state of one compilation.
type compiler struct {
	p    *tensor.Program
	plan *Plan
	live []bool
	at   []Operand // where the result of each live instruction is
	ext  []Operand
	// copies are the views that were made dense, by the buffer they are of.
	copies map[int][]copied
	// fallible is the last step that can fail on values, -1 if none: memory of inputs is only written after it.
	fallible int
}

// copied is a view and its dense copy.
type copied struct{ of, is Operand }

// Compile compiles p, which must be well formed (tensor.ParseProgram, or recorded by a session). The plan keeps p.
func Compile(p *tensor.Program) *Plan {
	c := &compiler{p: p, plan: &Plan{Program: p}, at: make([]Operand, len(p.Instrs)), copies: map[int][]copied{}, fallible: -1}
	c.plan.Stats.Instrs = len(p.Instrs)
	for i, e := range p.Externals {
		c.ext = append(c.ext, c.buffer(External, i, e.DType, p.Shapes[e.Shape]))
	}
	c.findLive()
	for i := range p.Instrs {
		if c.live[i] {
			c.instr(i)
		} else {
			c.plan.Stats.Dead++
		}
	}
	c.lifetimes()
	c.takeDonated()
	c.writeInPlace()
	c.place()
	c.plan.Stats.Steps = len(c.plan.Steps)
	return c.plan
}

// findLive marks what a kept result depends on, and what can fail: an index out of range is an error whether or not
// its result is used.
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

// buffer makes a buffer and returns it as a dense operand.
func (c *compiler) buffer(place Place, index int, d tensor.DType, s tensor.Shape) Operand {
	c.plan.Buffers = append(c.plan.Buffers, Buffer{Place: place, Index: index, Size: s.Elems() * d.Size(), first: -1, last: -1})
	return Operand{Scalar: -1, Buf: len(c.plan.Buffers) - 1, DType: d, Shape: s, Strides: s.Strides(), Dense: true}
}

// result makes the buffer of instruction i: an output if it is kept, else a temporary.
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

// dense returns o as a contiguous operand, by a copy if need be and if nobody needed it before.
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

// copy is a cast to the same dtype.
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
	}
	s.Out = c.result(i)
	if info.Fallible {
		c.fallible = len(c.plan.Steps)
	}
	c.step(s)
	c.at[i] = s.Out
}

// lifetimes finds the first and last step that touches each buffer.
func (c *compiler) lifetimes() {
	for k := range c.plan.Steps {
		s := &c.plan.Steps[k]
		for _, o := range s.In {
			if o.Scalar < 0 {
				c.plan.Buffers[o.Buf].last = k
			}
		}
		b := &c.plan.Buffers[s.Out.Buf]
		if b.first < 0 {
			b.first = k
		}
		b.last = max(b.last, k)
	}
}

// covers reports whether o is the whole of its buffer in order, so that element i of the step is element i of it.
func (c *compiler) covers(o Operand, like Operand) bool {
	return o.Scalar < 0 && o.Dense && o.Off == 0 && o.Shape.Equal(like.Shape) && o.DType.Size() == like.DType.Size() &&
		c.plan.Buffers[o.Buf].Size == c.plan.Buffers[like.Buf].Size
}

// overwritable finds an operand of step k that its output may be written over: elementwise, the whole buffer, used
// here for the last time and read in no other order by the same step.
func (c *compiler) overwritable(k int, ok func(*Buffer) bool) (buf int, found bool) {
	s := &c.plan.Steps[k]
	if s.Op.Info().Class != tensor.ClassElementwise {
		return 0, false
	}
	for _, o := range s.In {
		if !c.covers(o, s.Out) {
			continue
		}
		b := &c.plan.Buffers[o.Buf]
		if b.last != k || !ok(b) {
			continue
		}
		if !slices.ContainsFunc(s.In, func(x Operand) bool { return x.Scalar < 0 && x.Buf == o.Buf && !c.covers(x, s.Out) }) {
			return o.Buf, true
		}
	}
	return 0, false
}

// takeDonated lets outputs take the memory of donated inputs.
func (c *compiler) takeDonated() {
	taken := make([]bool, len(c.p.Externals))
	for i := range c.plan.Outputs {
		o := &c.plan.Outputs[i]
		k := c.plan.Buffers[o.Buf].first
		if k <= c.fallible {
			continue
		}
		buf, ok := c.overwritable(k, func(b *Buffer) bool {
			return b.Place == External && c.p.Externals[b.Index].Donated && !taken[b.Index]
		})
		if ok {
			o.Take = c.plan.Buffers[buf].Index
			taken[o.Take] = true
			c.plan.Stats.Taken++
		}
	}
}

// writeInPlace merges a step's temporary output with an operand that dies there.
func (c *compiler) writeInPlace() {
	into := make([]int, len(c.plan.Buffers))
	for i := range into {
		into[i] = i
	}
	for k := range c.plan.Steps {
		s := &c.plan.Steps[k]
		for j := range s.In {
			if s.In[j].Scalar < 0 {
				s.In[j].Buf = into[s.In[j].Buf]
			}
		}
		out := s.Out.Buf
		if c.plan.Buffers[out].Place != Temp {
			continue
		}
		if buf, ok := c.overwritable(k, func(b *Buffer) bool { return b.Place == Temp }); ok {
			into[out] = buf
			c.plan.Buffers[buf].last = c.plan.Buffers[out].last
			c.plan.Buffers[out].first = -1 // gone
			s.Out.Buf = buf
			c.plan.Stats.InPlace++
		}
	}
}

// place gives temporaries their offsets: largest first, each at the lowest place that is free for its lifetime
// (Pisarchyk and Lee 2020, greedy by size).
func (c *compiler) place() {
	var temps []int
	for i, b := range c.plan.Buffers {
		if b.Place == Temp && b.first >= 0 && b.Size > 0 {
			temps = append(temps, i)
		}
	}
	c.plan.Stats.LowerBound = c.lowerBound(temps)
	slices.SortStableFunc(temps, func(a, b int) int { return c.plan.Buffers[b].Size - c.plan.Buffers[a].Size })
	var placed []int // by offset
	for _, i := range temps {
		b := &c.plan.Buffers[i]
		off := 0
		for _, j := range placed {
			o := &c.plan.Buffers[j]
			if o.last < b.first || b.last < o.first {
				continue
			}
			if off+aligned(b.Size) <= o.Off {
				break
			}
			off = max(off, o.Off+aligned(o.Size))
		}
		b.Off = off
		at, _ := slices.BinarySearchFunc(placed, off, func(j, off int) int { return c.plan.Buffers[j].Off - off })
		placed = slices.Insert(placed, at, i)
		c.plan.Temp = max(c.plan.Temp, off+aligned(b.Size))
	}
	c.plan.Stats.TempBytes = c.plan.Temp
}

func (c *compiler) lowerBound(temps []int) int {
	delta := make([]int, len(c.plan.Steps)+1)
	for _, i := range temps {
		b := c.plan.Buffers[i]
		delta[b.first] += b.Size
		delta[b.last+1] -= b.Size
	}
	most, now := 0, 0
	for _, d := range delta {
		now += d
		most = max(most, now)
	}
	return most
}

func aligned(n int) int { return (n + Align - 1) &^ (Align - 1) }
