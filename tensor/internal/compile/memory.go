package compile

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// lifetimes finds the first and last step that touches each buffer, and the last step that can fail.
func (c *compiler) lifetimes() {
	for k := range c.plan.Steps {
		s := &c.plan.Steps[k]
		if s.Op.Info().Fallible {
			c.fallible = k
		}
		for _, o := range s.In {
			if o.Scalar < 0 {
				c.plan.Buffers[o.Buf].last = k
			}
		}
		for _, o := range s.Outs() {
			b := &c.plan.Buffers[o.Buf]
			if b.first < 0 {
				b.first = k
			}
			b.last = max(b.last, k)
		}
	}
}

// covers reports whether o is the whole of its buffer in order, so that element i of the step is element i of it.
func (c *compiler) covers(o Operand, like *Operand) bool {
	return o.Scalar < 0 && o.Dense && o.Off == 0 && o.Shape.Elems() == like.Shape.Elems() && o.DType.Size() == like.DType.Size() &&
		c.plan.Buffers[o.Buf].Size == c.plan.Buffers[like.Buf].Size
}

// overwritable finds an operand of step k that output j may be written over: the whole buffer, read element by element,
// here for the last time, and in no other order or later by the same step.
func (c *compiler) overwritable(k, j int, ok func(*Buffer) bool) (buf int, found bool) {
	s := &c.plan.Steps[k]
	out := s.Outs()[j]
	for i, o := range s.In {
		if !s.mayOverwrite(i, j) || !c.covers(o, out) {
			continue
		}
		b := &c.plan.Buffers[o.Buf]
		if b.last != k || !ok(b) {
			continue
		}
		other := false // who reads it otherwise
		for l, x := range s.In {
			other = other || x.Scalar < 0 && x.Buf == o.Buf && (!s.mayOverwrite(l, j) || !c.covers(x, out))
		}
		for _, x := range s.Outs() {
			other = other || x.Buf == o.Buf // taken already
		}
		if !other {
			return o.Buf, true
		}
	}
	return 0, false
}

// mayOverwrite reports whether output j may lie where operand i is: no element of the operand is read after that of the
// output is written.
func (s *Step) mayOverwrite(i, j int) bool {
	switch s.Fused {
	case Single:
		switch s.Op {
		case tensor.OpIndexAdd, tensor.OpScatterAdd, tensor.OpSGD, tensor.OpSGDM: // they add to the first, in several passes
			return i == 0
		}
		return s.Op.Info().Class == tensor.ClassElementwise
	case AdamW:
		return i == j/3*AdamWIn+j%3
	case AdamWProduct:
		return i == j
	case Epilogue:
		if i < 2 || j == s.Body[0].Out {
			return false // rows of the matrices are read again, and the product is there before any operand is read
		}
		return s.tilesMayOverwrite(i, j)
	case Tiles:
		return s.tilesMayOverwrite(i, j)
	}
	return false
}

// tilesMayOverwrite is mayOverwrite for a step that has a body.
func (s *Step) tilesMayOverwrite(i, j int) bool {
	written := false
	for _, in := range s.Body {
		if written && slices.Contains(in.In, i) {
			return false
		}
		written = written || in.Out == j
	}
	return true
}

// takeDonated lets outputs take the memory of donated inputs.
func (c *compiler) takeDonated() {
	taken := make([]bool, len(c.p.Externals))
	number := map[int]int{} // of the output, by buffer
	for i, o := range c.plan.Outputs {
		number[o.Buf] = i
	}
	for k := c.fallible + 1; k < len(c.plan.Steps); k++ {
		s := &c.plan.Steps[k]
		mine := map[int]bool{} // inputs that outputs of this step have taken
		for j, o := range s.Outs() {
			if c.plan.Buffers[o.Buf].Place != Output {
				continue
			}
			buf, ok := c.overwritable(k, j, func(b *Buffer) bool {
				return b.Place == External && c.p.Externals[b.Index].Donated && !taken[b.Index]
			})
			if !ok || mine[buf] {
				continue
			}
			mine[buf] = true
			out := &c.plan.Outputs[number[o.Buf]]
			out.Take = c.plan.Buffers[buf].Index
			taken[out.Take] = true
			c.plan.Stats.Taken++
		}
	}
}

// writeInPlace merges a step's temporary outputs with operands that die there.
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
		for j, o := range s.Outs() {
			out := o.Buf
			if c.plan.Buffers[out].Place != Temp {
				continue
			}
			if buf, ok := c.overwritable(k, j, func(b *Buffer) bool { return b.Place == Temp }); ok {
				into[out] = buf
				c.plan.Buffers[buf].last = c.plan.Buffers[out].last
				c.plan.Buffers[out].first = -1 // gone
				o.Buf = buf
				c.plan.Stats.InPlace++
			}
		}
	}
}

// place gives temporaries their offsets: largest first, each at the lowest place that is free for its lifetime
// (Pisarchyk and Lee 2020, greedy by size).
func (c *compiler) place() {
	var temps []int
	for i := range c.plan.Buffers {
		switch b := &c.plan.Buffers[i]; {
		case b.Place != Temp:
		case b.first < 0:
			b.Size = 0 // nobody has it any more
		case b.Size > 0:
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
			if end(off, b.Size) <= o.Off {
				break
			}
			off = max(off, end(o.Off, o.Size))
		}
		b.Off = off
		at, _ := slices.BinarySearchFunc(placed, off, func(j, off int) int { return c.plan.Buffers[j].Off - off })
		placed = slices.Insert(placed, at, i)
		c.plan.Temp = max(c.plan.Temp, end(off, b.Size))
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

// end is the first multiple of Align that is not within the n bytes from off on. Where that is no int it is the largest that
// is one, and no engine has so much memory.
func end(off, n int) int {
	if n > math.MaxInt-Align-off {
		return math.MaxInt &^ (Align - 1)
	}
	return (off + n + Align - 1) &^ (Align - 1)
}
