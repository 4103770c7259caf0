package cpu

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
)

// Value is one tensor of a space: dense, in row-major order.
type Value struct {
	DType tensor.DType
	Shape tensor.Shape
	Block *shm.Block // nil for a value of no bytes; the space holds one reference

	run   uint64 // number of the run that it was last an input of
	twice bool   // and more than one of them
}

// Bytes is the value's content.
func (v *Value) Bytes() []byte {
	if v.Block == nil {
		return nil
	}
	return v.Block.Bytes()[:v.Shape.Elems()*v.DType.Size()]
}

// Space is the values of one session. It is used by one goroutine at a time; spaces of one device are independent.
type Space struct {
	dev    *Device
	values map[uint64]*Value
	free   []*Value // to be used again
	got    []*Value // the inputs of the run that is being prepared
	runs   uint64   // number of that run
}

// Open makes an empty space.
func (d *Device) Open() *Space { return &Space{dev: d, values: map[uint64]*Value{}} }

// Len is the number of values.
func (s *Space) Len() int { return len(s.values) }

// Close frees every value.
func (s *Space) Close() {
	for id := range s.values {
		s.Free(id)
	}
}

// Lookup finds a value; nil if there is none of that id.
func (s *Space) Lookup(id uint64) *Value { return s.values[id] }

// Free forgets a value. Its memory goes back with its last reference. An unknown id is ignored: it belonged to a
// program that failed.
func (s *Space) Free(id uint64) {
	v := s.values[id]
	if v == nil {
		return
	}
	delete(s.values, id)
	if v.Block != nil {
		v.Block.Release()
	}
	*v = Value{}
	s.free = append(s.free, v)
}

// largeFree is how large a value is that makes room before the next program runs rather than after it.
const largeFree = 64 << 10

// FreeUnread frees the large ones of ids that are none of inputs: what a program of these inputs makes then finds room in
// memory that is still in the caches. The others are left to Free.
func (s *Space) FreeUnread(ids, inputs []uint64) {
	marked := false
	for _, id := range ids {
		v := s.values[id]
		if v == nil || v.Block == nil || v.Block.Len() < largeFree {
			continue
		}
		if !marked {
			marked = true
			s.runs++
			for _, in := range inputs {
				if v := s.values[in]; v != nil {
					v.run = s.runs
				}
			}
		}
		if v.run != s.runs {
			s.Free(id)
		}
	}
}

// Import makes a value of a block that somebody else filled, in place: the space takes over one reference, also if it
// fails. The block may be a peer's, who may write to it at any time: a kernel may compute nonsense from it, no more.
// Bools must be 0 or 1 when they come; what a peer makes of them later is read as true.
func (s *Space) Import(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block) error {
	err := shape.Check(d)
	n := shape.Elems() * d.Size()
	switch {
	case err != nil:
	case s.values[id] != nil:
		err = fmt.Errorf("%w: id %d exists", tensor.ErrUnknown, id)
	case n > 0 && (b == nil || b.Len() < n):
		have := 0
		if b != nil {
			have = b.Len()
		}
		err = fmt.Errorf("%w: %d bytes for %v%v, expected %d", tensor.ErrShape, have, d, shape, n)
	}
	if err != nil {
		if b != nil {
			b.Release()
		}
		return err
	}
	if n == 0 && b != nil {
		b.Release()
		b = nil
	}
	if d == tensor.Bool && n > 0 {
		bytes := b.Bytes()[:n]
		if i := slices.IndexFunc(bytes, func(x byte) bool { return x > 1 }); i >= 0 {
			err := fmt.Errorf("%w: byte %d of a bool is %d; expected 0 or 1", tensor.ErrDType, i, bytes[i])
			b.Release()
			return err
		}
	}
	s.put(id, d, shape, b)
	return nil
}

func (s *Space) put(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block) {
	var v *Value
	if n := len(s.free); n > 0 {
		v, s.free = s.free[n-1], s.free[:n-1]
	} else {
		v = new(Value)
	}
	*v = Value{DType: d, Shape: shape, Block: b}
	s.values[id] = v
}

// exclusive reports whether v's memory may be written: it is ours, nobody else holds it, and the program that runs has
// no second input there, in which case two of its results would come to lie in one place.
func (v *Value) exclusive() bool {
	return v.Block != nil && !v.twice && v.Block.Refs() == 1 && !v.Block.ReadOnly()
}

// Run runs a compiled program: inputs are the ids of its external inputs, base the id of instruction 0's result. If it
// fails, no result exists and no input was changed; inputs that the program meant to free are freed either way.
//
// The error is tensor.ErrUnknown for an input that isn't there, ErrProgram for one that is another than the program's,
// ErrNoSpace, or a *tensor.RunError of the instruction that failed.
func (s *Space) Run(c *Compiled, base uint64, inputs []uint64, scalars []float64) error {
	err := s.prepare(c, base, inputs, scalars)
	if err == nil {
		err = s.dev.execute(s, c, base, scalars)
	}
	for i, e := range c.plan.Program.Externals {
		if e.Donated && i < len(inputs) {
			s.Free(inputs[i])
		}
	}
	return err
}

// prepare checks a run's arguments and finds its inputs.
func (s *Space) prepare(c *Compiled, base uint64, inputs []uint64, scalars []float64) error {
	p := c.plan.Program
	if len(inputs) != len(p.Externals) || len(scalars) != p.NumScalars {
		return fmt.Errorf("%w: %d inputs and %d scalars, expected %d and %d", tensor.ErrProgram, len(inputs), len(scalars), len(p.Externals), p.NumScalars)
	}
	s.got = s.got[:0]
	s.runs++
	for i, id := range inputs {
		v := s.values[id]
		if v == nil {
			return fmt.Errorf("%w: %d, input %d of the program", tensor.ErrUnknown, id, i)
		}
		e := &p.Externals[i]
		if v.DType != e.DType || !v.Shape.Equal(p.Shapes[e.Shape]) {
			return fmt.Errorf("%w: input %d is %v%v, id %d is %v%v", tensor.ErrProgram, i, e.DType, p.Shapes[e.Shape], id, v.DType, v.Shape)
		}
		v.twice, v.run = v.run == s.runs, s.runs
		s.got = append(s.got, v)
	}
	for _, o := range c.plan.Outputs {
		if id := base + uint64(o.Instr); s.values[id] != nil {
			return fmt.Errorf("%w: result %d would be id %d, which exists", tensor.ErrProgram, o.Instr, id)
		}
	}
	return nil
}
