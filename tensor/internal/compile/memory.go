package compile

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// lifetimes finds the first and the last step that touch each buffer, and the last step
// that can fail.
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

// covers reports whether o is its entire buffer in order and like's buffer has the same
// size, so that element i of o and of like lie at the same place.
func (c *compiler) covers(o Operand, like *Operand) bool {
	return o.Scalar < 0 && o.Dense && o.Off == 0 && o.Shape.Elems() == like.Shape.Elems() && o.DType.Size() == like.DType.Size() &&
		c.plan.Buffers[o.Buf].Size == c.plan.Buffers[like.Buf].Size
}

// overwritable returns an operand of step k that output j can overwrite: an entire buffer
// that ok accepts, read element by element, and read nowhere else by this step or a later
// one.
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
		other := false // whether another operand or output uses the buffer
		for l, x := range s.In {
			other = other || x.Scalar < 0 && x.Buf == o.Buf && (!s.mayOverwrite(l, j) || !c.covers(x, out))
		}
		for _, x := range s.Outs() {
			other = other || x.Buf == o.Buf // an earlier output took it
		}
		if !other {
			return o.Buf, true
		}
	}
	return 0, false
}

// mayOverwrite reports whether output j may lie where operand i is: the step reads no
// element of the operand after it wrote that element of the output.
func (s *Step) mayOverwrite(i, j int) bool {
	switch s.Fused {
	case Single:
		switch s.Op {
		// They add to the first operand in several passes.
		case tensor.OpIndexAdd, tensor.OpScatterAdd, tensor.OpSGD, tensor.OpSGDM:
			return i == 0
		}
		return s.Op.Info().Class == tensor.ClassElementwise
	case AdamW:
		return i == j/3*AdamWIn+j%3
	case AdamWProduct:
		return i == j
	case Epilogue:
		if i < 2 || j == s.Body[0].Out {
			// The matrices' rows are read again, and the product is written before any
			// operand is read.
			return false
		}
		return s.tilesMayOverwrite(i, j)
	case Tiles:
		return s.tilesMayOverwrite(i, j)
	}
	return false
}

// tilesMayOverwrite is mayOverwrite for a step with a body.
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

// writeInPlace merges temporary outputs with operands that no later step reads.
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
				c.plan.Buffers[out].first = -1 // not in use any more
				o.Buf = buf
				c.plan.Stats.InPlace++
			}
		}
	}
}

// place assigns the offsets of temporaries, largest first. Each gets the lowest offset
// that is free during its lifetime (Pisarchyk and Lee 2020, greedy by size).
func (c *compiler) place() {
	var temps []int
	for i := range c.plan.Buffers {
		switch b := &c.plan.Buffers[i]; {
		case b.Place != Temp:
		case b.first < 0:
			b.Size = 0 // merged with another
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
			if c.end(off, b.Size) <= o.Off {
				break
			}
			off = max(off, c.end(o.Off, o.Size))
		}
		b.Off = off
		at, _ := slices.BinarySearchFunc(placed, off, func(j, off int) int { return c.plan.Buffers[j].Off - off })
		placed = slices.Insert(placed, at, i)
		c.plan.Temp = max(c.plan.Temp, c.end(off, b.Size))
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

// end returns off+n rounded up to a multiple of Options.Align. If that overflows it
// returns the largest multiple, which no engine can allocate.
func (c *compiler) end(off, n int) int {
	align := c.opt.Align
	if n > math.MaxInt-align-off {
		return math.MaxInt &^ (align - 1)
	}
	return (off + n + align - 1) &^ (align - 1)
}
