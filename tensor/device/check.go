package device

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
)

// The functions below are for a Space's methods: they find mistakes in arguments.

// CheckInputs returns the error of Space.Run for inputs and scalars that don't fit p.
func CheckInputs(p *tensor.Program, inputs []uint64, scalars []float64, lookup func(id uint64) (Value, bool)) error {
	if len(inputs) != len(p.Externals) || len(scalars) != p.NumScalars {
		return fmt.Errorf("%w: %d inputs and %d scalars, expected %d and %d", tensor.ErrProgram, len(inputs), len(scalars), len(p.Externals), p.NumScalars)
	}
	for i, id := range inputs {
		v, ok := lookup(id)
		if !ok {
			return fmt.Errorf("%w: %d, input %d of the program", tensor.ErrUnknown, id, i)
		}
		e := &p.Externals[i]
		if v.DType != e.DType || !v.Shape.Equal(p.Shapes[e.Shape]) {
			return fmt.Errorf("%w: input %d is %v%v, id %d is %v%v", tensor.ErrProgram, i, e.DType, p.Shapes[e.Shape], id, v.DType, v.Shape)
		}
	}
	return nil
}

// CheckBlock returns the error of Space.Import for a block, which may be nil, that is too
// short for a value.
func CheckBlock(d tensor.DType, s tensor.Shape, b *shm.Block) error {
	n, have := s.Elems()*d.Size(), 0
	if b != nil {
		have = b.Len()
	}
	if have < n {
		return fmt.Errorf("%w: %d bytes for %v%v, expected %d", tensor.ErrShape, have, d, s, n)
	}
	return nil
}

// CheckFill returns the error of Space.Fill for bytes that are no value of v's kind.
func CheckFill(v Value, src []byte) error {
	if n := v.Bytes(); len(src) != n {
		return fmt.Errorf("%w: %d bytes for %v%v, expected %d", tensor.ErrShape, len(src), v.DType, v.Shape, n)
	}
	return CheckBools(v.DType, src)
}

// CheckBools returns ErrDType if d is Bool and a byte is neither 0 nor 1.
func CheckBools(d tensor.DType, bytes []byte) error {
	if d != tensor.Bool {
		return nil
	}
	if i := slices.IndexFunc(bytes, func(x byte) bool { return x > 1 }); i >= 0 {
		return fmt.Errorf("%w: byte %d of a bool is %d; expected 0 or 1", tensor.ErrDType, i, bytes[i])
	}
	return nil
}

// CheckRange returns the error of Space.Read for bytes that v does not have.
func CheckRange(v Value, off, n int) error {
	if have := v.Bytes(); off < 0 || n < 0 || n > have-off {
		return fmt.Errorf("%w: %d bytes from %d on of a value of %d", tensor.ErrShape, n, off, have)
	}
	return nil
}
