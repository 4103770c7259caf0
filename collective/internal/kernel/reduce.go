package kernel

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// Supported returns an error that wraps [ErrUnsupported] unless op folds elements of dt.
func Supported(op element.Reduction, dt element.DType) error {
	if !supported(op, dt) {
		return fmt.Errorf("%w: %v of %v", ErrUnsupported, op, dt)
	}
	return nil
}

// CheckRequest returns the error of a request of this rank among n that no comm can carry
// out, and completes the scale of a fold.
func CheckRequest(r *protocol.Request, rank, n int) error {
	if err := r.Check(rank, n); err != nil || !r.Kind().Folds() {
		return err
	}
	r.Call.Scale = r.Call.Factor()
	return CheckFold(r.Call.Op, r.Call.DType, r.Call.Scale, len(r.Src))
}

// CheckFold returns protocol.ErrBadCall unless n bytes can be folded with the given
// operation, type and scale.
func CheckFold(op element.Reduction, dt element.DType, scale float64, n int) error {
	if err := Supported(op, dt); err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrBadCall, err)
	}
	if n%dt.Size() != 0 {
		return fmt.Errorf("%w: %d bytes are no whole elements of %v", protocol.ErrBadCall, n, dt)
	}
	if scale != 1 && !dt.IsFloat() {
		return fmt.Errorf("%w: %v is not scaled by %v", protocol.ErrBadCall, dt, scale)
	}
	return nil
}

func supported(op element.Reduction, dt element.DType) bool {
	return op.Valid() && op != element.None && dt.Valid() && dt != element.Bool && !(op.Bitwise() && dt.IsFloat())
}

// conversion is the type that a fold reads and the type that it writes.
type conversion struct{ from, to element.DType }

// Reduce folds the sources and stores the result into every destination; see
// [Set.Reduce].
func Reduce(op element.Reduction, dt element.DType, scale float64, dsts, srcs [][]byte) {
	Best().Reduce(op, dt, scale, dsts, srcs)
}

// Reduce is
//
//	for i := range elements {
//		x := srcs[0][i]
//		for _, s := range srcs[1:] {
//			x = x op s[i]
//		}
//		for _, d := range dsts {
//			d[i] = x * scale
//		}
//	}
//
// with x in f32 for 16-bit floats. All slices have one length. It reads every source
// before it writes an element, so a destination may be one of the sources. scale is 1 for
// integers. It panics if op does not support dt ([Supported]), if lengths differ or are
// no multiple of the element, if there is no source, and if integers are scaled.
func (s Set) Reduce(op element.Reduction, dt element.DType, scale float64, dsts, srcs [][]byte) {
	s.fold(op, conversion{dt, dt}, scale, dsts, srcs)
}

// ReduceWiden is [Set.Reduce] for sources of f16 or bf16 (from) and destinations of f32,
// so that a fold can go on elsewhere without rounding twice. A destination has twice the
// bytes of a source, and cannot be one.
func (s Set) ReduceWiden(op element.Reduction, from element.DType, scale float64, dsts, srcs [][]byte) {
	if !from.IsHalf() {
		panic(fmt.Sprintf("kernel: widening of %v", from))
	}
	s.fold(op, conversion{from, element.F32}, scale, dsts, srcs)
}

// ReduceNarrow is [Set.Reduce] for sources of f32 and destinations of f16 or bf16 (to),
// rounded once. A destination has half the bytes of a source, and cannot be one.
func (s Set) ReduceNarrow(op element.Reduction, to element.DType, scale float64, dsts, srcs [][]byte) {
	if !to.IsHalf() {
		panic(fmt.Sprintf("kernel: narrowing to %v", to))
	}
	s.fold(op, conversion{element.F32, to}, scale, dsts, srcs)
}

// Widen converts f16 or bf16 (dt) in src to f32 in dst, exactly.
func Widen(dst, src []byte, dt element.DType) {
	Best().ReduceWiden(element.Sum, dt, 1, [][]byte{dst}, [][]byte{src})
}

// Narrow multiplies f32 in src by scale and rounds it to f16 or bf16 (dt) in dst, to the
// nearest, ties to even.
func Narrow(dst, src []byte, dt element.DType, scale float64) {
	Best().ReduceNarrow(element.Sum, dt, scale, [][]byte{dst}, [][]byte{src})
}

// touchMax is the most bytes that one call into assembly reads and writes: a goroutine
// can't be stopped there.
const touchMax = 1 << 20

// few is the largest number of elements for which one at a time is fastest.
const few = 1

// fold does the work of the three methods above, in assembly as far as the set has it,
// otherwise in Go.
func (s Set) fold(op element.Reduction, c conversion, scale float64, dsts, srcs [][]byte) {
	if !well(op, c, scale, dsts, srcs) {
		panic(wrong(op, c, scale, dsts, srcs))
	}
	done, n := 0, len(srcs[0])>>log(c.from)
	switch {
	case n <= few:
	case s.level == Go:
		done = portable(op, c, scale, dsts, srcs, n)
	default:
		done = s.accelerated(op, c, scale, dsts, srcs)
	}
	if done < n {
		scalars(op, c, scale, dsts, srcs, done, n)
	}
}

// log returns the binary logarithm of the bytes of an element of a valid type.
func log(dt element.DType) int {
	const table = 3<<(2*element.F64) | 3<<(2*element.I64) | 2<<(2*element.F32) | 2<<(2*element.I32) | 1<<(2*element.F16) | 1<<(2*element.BF16)
	return table >> (2 * dt) & 3
}

// well reports whether the arguments are right.
func well(op element.Reduction, c conversion, scale float64, dsts, srcs [][]byte) bool {
	if !supported(op, c.from) || scale != 1 && !c.from.IsFloat() || len(srcs) == 0 {
		return false
	}
	n := len(srcs[0]) >> log(c.from)
	for _, b := range srcs {
		if len(b) != n<<log(c.from) {
			return false
		}
	}
	for _, b := range dsts {
		if len(b) != n<<log(c.to) {
			return false
		}
	}
	return true
}

// wrong returns the text of the panic for arguments that well refuses.
func wrong(op element.Reduction, c conversion, scale float64, dsts, srcs [][]byte) string {
	list := func(bs [][]byte) (lens []int) {
		for _, b := range bs {
			lens = append(lens, len(b))
		}
		return lens
	}
	return fmt.Sprintf("kernel: %v of %v to %v, scale %v, of sources of %v bytes to destinations of %v", op, c.from, c.to, scale,
		list(srcs), list(dsts))
}
