package compile

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// allocator assigns memory to the buffers of a plan.
type allocator struct {
	plan  *Plan
	align int // of temporaries, a power of two
	// fallible is the last step that can fail because of its operands' values, such
	// as an index out of range; -1 for none. Only later steps write to the memory of
	// inputs, so that a program that fails leaves its inputs as they were.
	fallible int
}

func (a *allocator) run() {
	a.lifetimes()
	a.takeDonated()
	a.writeInPlace()
	a.place()
}

// lifetimes finds the first and the last step that touch each buffer, and the last step
// that can fail.
func (a *allocator) lifetimes() {
	for k := range a.plan.Steps {
		s := &a.plan.Steps[k]
		if s.Op.Info().Fallible {
			a.fallible = k
		}
		for _, o := range s.In {
			if o.Scalar < 0 {
				a.plan.Buffers[o.Buf].last = k
			}
		}
		for _, o := range s.Outs() {
			b := &a.plan.Buffers[o.Buf]
			if b.first < 0 {
				b.first = k
			}
			b.last = max(b.last, k)
		}
	}
}

// covers reports whether o is its entire buffer in order and like's buffer has the same
// size, so that element i of o and of like lie at the same place.
func (a *allocator) covers(o Operand, like *Operand) bool {
	return o.Scalar < 0 && o.Dense && o.Off == 0 && o.Shape.Elems() == like.Shape.Elems() && o.DType.Size() == like.DType.Size() &&
		a.plan.Buffers[o.Buf].Size == a.plan.Buffers[like.Buf].Size
}

// overwritable returns the buffer of an operand of step k that output j can overwrite.
// The operand is the entire buffer, which ok accepts. The step reads each element of it
// before it writes that element of the output. No other operand or output of the step
// uses the buffer in another way, and no later step reads it.
func (a *allocator) overwritable(k, j int, ok func(*Buffer) bool) (buf int, found bool) {
	s := &a.plan.Steps[k]
	out := s.Outs()[j]
	for i, o := range s.In {
		if !s.mayOverwrite(i, j) || !a.covers(o, out) {
			continue
		}
		b := &a.plan.Buffers[o.Buf]
		if b.last != k || !ok(b) {
			continue
		}
		other := false // whether another operand or output uses the buffer
		for l, x := range s.In {
			other = other || x.Scalar < 0 && x.Buf == o.Buf && (!s.mayOverwrite(l, j) || !a.covers(x, out))
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
		case tensor.OpIndexAdd, tensor.OpScatterAdd:
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
func (a *allocator) takeDonated() {
	taken := make([]bool, len(a.plan.Program.Externals))
	number := map[int]int{} // of the output, by buffer
	for i, o := range a.plan.Outputs {
		number[o.Buf] = i
	}
	for k := a.fallible + 1; k < len(a.plan.Steps); k++ {
		s := &a.plan.Steps[k]
		mine := map[int]bool{} // inputs that outputs of this step have taken
		for j, o := range s.Outs() {
			if a.plan.Buffers[o.Buf].Place != Output {
				continue
			}
			buf, ok := a.overwritable(k, j, func(b *Buffer) bool {
				return b.Place == External && a.plan.Program.Externals[b.Index].Donated && !taken[b.Index]
			})
			if !ok || mine[buf] {
				continue
			}
			mine[buf] = true
			out := &a.plan.Outputs[number[o.Buf]]
			out.Take = a.plan.Buffers[buf].Index
			taken[out.Take] = true
			a.plan.Stats.Taken++
		}
	}
}

// writeInPlace gives temporary outputs the buffers of temporary operands that no later
// step reads.
func (a *allocator) writeInPlace() {
	into := make([]int, len(a.plan.Buffers))
	for i := range into {
		into[i] = i
	}
	for k := range a.plan.Steps {
		s := &a.plan.Steps[k]
		for j := range s.In {
			if s.In[j].Scalar < 0 {
				s.In[j].Buf = into[s.In[j].Buf]
			}
		}
		for j, o := range s.Outs() {
			out := o.Buf
			if a.plan.Buffers[out].Place != Temp {
				continue
			}
			if buf, ok := a.overwritable(k, j, func(b *Buffer) bool { return b.Place == Temp }); ok {
				into[out] = buf
				a.plan.Buffers[buf].last = a.plan.Buffers[out].last
				a.plan.Buffers[out].first = -1 // not in use any more
				o.Buf = buf
				a.plan.Stats.InPlace++
			}
		}
	}
}

// place assigns the offsets of temporaries, largest first. Each gets the lowest offset
// that is free from its first to its last step (Pisarchyk and Lee 2020, greedy by size).
func (a *allocator) place() {
	var temps []int
	for i := range a.plan.Buffers {
		switch b := &a.plan.Buffers[i]; {
		case b.Place != Temp:
		case b.first < 0:
			b.Size = 0 // merged with another
		case b.Size > 0:
			temps = append(temps, i)
		}
	}
	a.plan.Stats.LowerBound = a.lowerBound(temps)
	slices.SortStableFunc(temps, func(x, y int) int { return a.plan.Buffers[y].Size - a.plan.Buffers[x].Size })
	var placed []int // by offset
	for _, i := range temps {
		b := &a.plan.Buffers[i]
		off := 0
		for _, j := range placed {
			o := &a.plan.Buffers[j]
			if o.last < b.first || b.last < o.first {
				continue
			}
			if a.end(off, b.Size) <= o.Off {
				break
			}
			off = max(off, a.end(o.Off, o.Size))
		}
		b.Off = off
		at, _ := slices.BinarySearchFunc(placed, off, func(j, off int) int { return a.plan.Buffers[j].Off - off })
		placed = slices.Insert(placed, at, i)
		a.plan.Temp = max(a.plan.Temp, a.end(off, b.Size))
	}
	a.plan.Stats.TempBytes = a.plan.Temp
}

func (a *allocator) lowerBound(temps []int) int {
	delta := make([]int, len(a.plan.Steps)+1)
	for _, i := range temps {
		b := a.plan.Buffers[i]
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

// end returns off+n rounded up to a multiple of a.align. If that overflows it returns the
// largest multiple, which no engine can allocate.
func (a *allocator) end(off, n int) int {
	if n > math.MaxInt-a.align-off {
		return math.MaxInt &^ (a.align - 1)
	}
	return (off + n + a.align - 1) &^ (a.align - 1)
}
