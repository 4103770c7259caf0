package enginetest

import (
	"encoding/binary"
	"math"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
)

// array is a value of the reference: every element as the widest type of its kind, in
// row-major order. Floats are in f, integers and bools (0 or 1) in i; the other one is
// nil.
type array struct {
	dt tensor.DType
	sh tensor.Shape
	f  []float64
	i  []int64
}

func newArray(dt tensor.DType, sh tensor.Shape) *array {
	a := &array{dt: dt, sh: sh}
	if dt.IsFloat() {
		a.f = make([]float64, sh.Elems())
	} else {
		a.i = make([]int64, sh.Elems())
	}
	return a
}

func (a *array) len() int { return a.sh.Elems() }

// at returns element k as a float64; i64 beyond 2^53 lose their last bits.
func (a *array) at(k int) float64 {
	if a.dt.IsFloat() {
		return a.f[k]
	}
	return float64(a.i[k])
}

// set sets element k to f or, in an array of integers, to i.
func (a *array) set(k int, f float64, i int64) {
	if a.dt.IsFloat() {
		a.f[k] = f
	} else {
		a.i[k] = i
	}
}

// copyFrom sets element k to element j of b, which has the same dtype.
func (a *array) copyFrom(k int, b *array, j int) {
	if a.dt.IsFloat() {
		a.f[k] = b.f[j]
	} else {
		a.i[k] = b.i[j]
	}
}

// settle rounds every element to its dtype: floats to nearest even, integers wrap.
func (a *array) settle() {
	for k, x := range a.f {
		a.f[k] = rounded(a.dt, x)
	}
	for k, x := range a.i {
		a.i[k] = wrap(a.dt, x)
	}
}

// rounded returns x rounded to d; a 16-bit float by way of f32.
func rounded(d tensor.DType, x float64) float64 {
	switch d {
	case tensor.F32:
		return float64(float32(x))
	case tensor.F16:
		return float64(element.ToFloat16(float32(x)).Float32())
	case tensor.BF16:
		return float64(element.ToBFloat16(float32(x)).Float32())
	}
	return x
}

// wrap keeps the low bits of x that the integer type d has.
func wrap(d tensor.DType, x int64) int64 {
	switch d {
	case tensor.I32:
		return int64(int32(x))
	case tensor.U8:
		return int64(uint8(x))
	case tensor.Bool:
		return x & 1
	}
	return x
}

// limits returns the smallest and the largest value of an integer type.
func limits(d tensor.DType) (lo, hi int64) {
	switch d {
	case tensor.I32:
		return math.MinInt32, math.MaxInt32
	case tensor.U8:
		return 0, math.MaxUint8
	}
	return math.MinInt64, math.MaxInt64
}

// toInt converts a float to an integer type: cut toward zero, clamped, NaN is 0.
func toInt(d tensor.DType, x float64) int64 {
	lo, hi := limits(d)
	switch {
	case x != x:
		return 0
	case x <= float64(lo):
		return lo
	case x >= float64(hi):
		return hi
	}
	return int64(x)
}

// cast returns a in another dtype.
func (a *array) cast(d tensor.DType) *array {
	out := newArray(d, a.sh)
	for k := range a.len() {
		switch {
		case d == tensor.Bool:
			if a.at(k) != 0 {
				out.i[k] = 1
			}
		case d.IsFloat() && d != tensor.F64 && !a.dt.IsFloat():
			// at once: by way of f64 an i64 would be rounded twice
			out.f[k] = float64(float32(a.i[k]))
		case d.IsFloat():
			out.f[k] = a.at(k)
		case a.dt.IsFloat():
			out.i[k] = toInt(d, a.f[k])
		default:
			out.i[k] = a.i[k]
		}
	}
	out.settle()
	return out
}

// scalarArray returns a number that stands for a tensor: in the dtype of the other
// tensors, converted as by cast.
func scalarArray(d tensor.DType, x float64) *array {
	a := newArray(tensor.F64, tensor.Shape{})
	a.f[0] = x
	return a.cast(d)
}

// expand returns a, broadcast to sh.
func (a *array) expand(sh tensor.Shape) *array {
	if a.sh.Equal(sh) {
		return a
	}
	out := newArray(a.dt, sh)
	st := a.sh.Strides()
	each(sh, func(k int, idx []int) {
		j := 0
		for d := range a.sh {
			if a.sh[d] != 1 {
				j += idx[d+len(sh)-len(a.sh)] * st[d]
			}
		}
		out.copyFrom(k, a, j)
	})
	return out
}

// each calls f for every position of sh in row-major order. idx is only valid during the
// call.
func each(sh tensor.Shape, f func(k int, idx []int)) {
	idx := make([]int, len(sh))
	for k := range sh.Elems() {
		f(k, idx)
		for d := len(sh) - 1; d >= 0; d-- {
			if idx[d]++; idx[d] < sh[d] {
				break
			}
			idx[d] = 0
		}
	}
}

// flat returns the row-major number of a position.
func flat(sh tensor.Shape, idx ...int) int {
	k := 0
	for d, n := range sh {
		k = k*n + idx[d]
	}
	return k
}

// groups returns the positions that fold into each element of a reduction over the dims
// of mask, each group in row-major order, the groups in the order of the result.
func groups(sh tensor.Shape, mask uint) [][]int {
	kept := make(tensor.Shape, len(sh))
	for d, n := range sh {
		kept[d] = n
		if mask&(1<<d) != 0 {
			kept[d] = 1
		}
	}
	out := make([][]int, kept.Elems())
	at := make([]int, len(sh))
	each(sh, func(k int, idx []int) {
		for d := range sh {
			at[d] = idx[d]
			if kept[d] == 1 {
				at[d] = 0
			}
		}
		g := flat(kept, at...)
		out[g] = append(out[g], k)
	})
	return out
}

// lastDims returns the mask of the last n dims of sh.
func lastDims(sh tensor.Shape, n int) uint { return (1<<n - 1) << (len(sh) - n) }

// decode reads row-major bytes.
func decode(dt tensor.DType, sh tensor.Shape, b []byte) *array {
	a := newArray(dt, sh)
	le := binary.LittleEndian
	for k := range a.len() {
		switch dt {
		case tensor.F32:
			a.f[k] = float64(math.Float32frombits(le.Uint32(b[4*k:])))
		case tensor.F64:
			a.f[k] = math.Float64frombits(le.Uint64(b[8*k:]))
		case tensor.F16:
			a.f[k] = float64(element.Float16(le.Uint16(b[2*k:])).Float32())
		case tensor.BF16:
			a.f[k] = float64(element.BFloat16(le.Uint16(b[2*k:])).Float32())
		case tensor.I32:
			a.i[k] = int64(int32(le.Uint32(b[4*k:])))
		case tensor.I64:
			a.i[k] = int64(le.Uint64(b[8*k:]))
		case tensor.U8:
			a.i[k] = int64(b[k])
		case tensor.Bool:
			if b[k] != 0 {
				a.i[k] = 1
			}
		}
	}
	return a
}

// encode is the inverse of decode.
func (a *array) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, a.len()*a.dt.Size())
	for k := range a.len() {
		switch a.dt {
		case tensor.F32:
			b = le.AppendUint32(b, math.Float32bits(float32(a.f[k])))
		case tensor.F64:
			b = le.AppendUint64(b, math.Float64bits(a.f[k]))
		case tensor.F16:
			b = le.AppendUint16(b, uint16(element.ToFloat16(float32(a.f[k]))))
		case tensor.BF16:
			b = le.AppendUint16(b, uint16(element.ToBFloat16(float32(a.f[k]))))
		case tensor.I32:
			b = le.AppendUint32(b, uint32(a.i[k]))
		case tensor.I64:
			b = le.AppendUint64(b, uint64(a.i[k]))
		default:
			b = append(b, byte(a.i[k]))
		}
	}
	return b
}
