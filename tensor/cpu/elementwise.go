package cpu

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// loop computes n elements of dst from contiguous operands, of the dtypes that it was made for. dst may be an operand.
// s are the operation's own scalars.
type loop func(dst pointer, in *[4]pointer, s []float64, n int)

// elementwise lowers a step: rows of the nest, tile by tile, with operands that aren't contiguous there copied into a
// tile first, and scalars in the place of tensors spread over one. Where all operands are contiguous it goes further at a
// time.
func (d *Device) elementwise(s *compile.Step) func(r *run) error {
	info := s.Op.Info()
	tensors := s.In[:len(s.In)-len(info.Scalars)]
	own := s.In[len(tensors):]
	t := s.Out.DType // of the operands
	for _, o := range tensors {
		if o.Scalar < 0 {
			t = o.DType
		}
	}
	if f := d.withScalar(s, t); f != nil {
		return f
	}
	f := d.loopFor(s, t)
	if f == nil {
		panic(fmt.Sprintf("cpu: no loop for %v of %v", s.Op, t)) // the op table and inference don't let it come to this
	}
	strides := make([][]int, 0, 5)
	strides = append(strides, s.Out.Strides)
	for _, o := range tensors {
		if o.Scalar >= 0 {
			strides = append(strides, make([]int, len(s.Out.Shape)))
		} else {
			strides = append(strides, broadcast(o, s.Out.Shape))
		}
	}
	n := newNest(s.Out.Shape, strides...)
	size := s.Out.DType.Size()
	empty := s.Out.Shape.Elems() == 0
	width := make([]int, len(tensors)) // bytes of an element
	for k, o := range tensors {
		width[k] = t.Size()
		if o.Scalar < 0 {
			width[k] = o.DType.Size()
		}
	}
	step := stretch
	for k, o := range tensors {
		if o.Scalar >= 0 || n.innerStride(k+1) != 1 {
			step = tile
		}
	}
	nown := len(own)
	return func(r *run) error {
		if empty {
			return nil
		}
		for k := range nown {
			r.own[k] = r.scalars[own[k].Scalar]
		}
		var from [4]pointer
		for k, o := range tensors {
			if o.Scalar >= 0 {
				from[k] = r.tile(k, width[k])
				spread(from[k], t, r.scalars[o.Scalar], min(tile, n.inner()))
			} else {
				from[k] = at(r.bufs[o.Buf], o.Off*width[k])
			}
		}
		dst := at(r.bufs[s.Out.Buf], 0)
		odo, lo, hi := odometer{n: &n}, 0, n.inner()
		if len(n.dims) == 1 {
			lo, hi = r.share(hi, tile)
		} else {
			var any bool
			if odo, any = n.share(r); !any {
				return nil
			}
		}
		for {
			for i := lo; i < hi; i += step {
				m := min(step, hi-i)
				for k, o := range tensors {
					st := n.innerStride(k + 1)
					p := from[k]
					if o.Scalar < 0 {
						p = shift(p, (odo.off[k+1]+i*st)*width[k])
						if st != 1 && m > 1 {
							q := r.tile(k, width[k])
							gather(q, p, width[k], st, m)
							p = q
						}
					}
					r.in[k] = p
				}
				f(shift(dst, (odo.off[0]+i)*size), &r.in, r.own[:nown], m)
			}
			if !odo.next() {
				return nil
			}
		}
	}
}

// tile is operand k's scratch.
func (r *run) tile(k, width int) pointer {
	if r.tiles[k] == nil {
		r.tiles[k] = make([]uint64, tile)
	}
	return pointer(&r.tiles[k][0])
}

// gather copies n elements that lie stride apart.
func gather(dst, src pointer, width, stride, n int) {
	switch width {
	case 2:
		gatherAs[uint16](dst, src, stride, n)
	case 4:
		gatherAs[uint32](dst, src, stride, n)
	case 8:
		gatherAs[uint64](dst, src, stride, n)
	default:
		gatherAs[uint8](dst, src, stride, n)
	}
}

func gatherAs[T any](dst, src pointer, stride, n int) {
	d := elems[T](dst, n)
	if stride == 0 {
		x := *(*T)(src)
		for i := range d {
			d[i] = x
		}
		return
	}
	step := stride * sizeOf[T]()
	for i := range d {
		d[i] = *(*T)(shift(src, i*step))
	}
}

// spread fills n elements with a scalar, converted to t.
func spread(dst pointer, t tensor.DType, x float64, n int) {
	switch t {
	case tensor.F32:
		fill(elems[float32](dst, n), float32(x))
	case tensor.F64:
		fill(elems[float64](dst, n), x)
	case tensor.I32:
		fill(elems[int32](dst, n), toI32(x))
	case tensor.I64:
		fill(elems[int64](dst, n), toI64(x))
	case tensor.U8:
		fill(elems[uint8](dst, n), toU8(x))
	case tensor.Bool:
		fill(elems[uint8](dst, n), truth(x != 0))
	case tensor.F16:
		fill(elems[element.Float16](dst, n), element.ToFloat16(float32(x)))
	case tensor.BF16:
		fill(elems[element.BFloat16](dst, n), element.ToBFloat16(float32(x)))
	}
}

func fill[T any](d []T, x T) {
	for i := range d {
		d[i] = x
	}
}

// withScalar is the fast way of an f32 operation between a contiguous tensor and a scalar.
func (d *Device) withScalar(s *compile.Step, t tensor.DType) func(r *run) error {
	if t != tensor.F32 || s.Out.DType != tensor.F32 || len(s.In) != 2 || !s.Op.Info().Weak {
		return nil
	}
	x, c, left := s.In[0], s.In[1], false // left: the scalar is
	if x.Scalar >= 0 {
		x, c, left = c, x, true
	}
	n := s.Out.Shape.Elems()
	if c.Scalar < 0 || !x.Dense || x.Shape.Elems() != n {
		return nil
	}
	f := d.scalarLoop(s.Op, left)
	if f == nil {
		return nil
	}
	return func(r *run) error {
		if lo, hi := r.share(n, tile); lo < hi {
			f(elems[float32](at(r.bufs[s.Out.Buf], 4*lo), hi-lo), elems[float32](at(r.bufs[x.Buf], 4*(x.Off+lo)), hi-lo), float32(r.scalars[c.Scalar]))
		}
		return nil
	}
}

// scalarLoop is the kernel of op between a tensor and a scalar, the left operand if left; nil if there is none.
func (d *Device) scalarLoop(op tensor.Op, left bool) func(dst, x []float32, s float32) {
	k := d.table
	switch op {
	case tensor.OpAdd:
		return k.AddS
	case tensor.OpMul:
		return k.MulS
	case tensor.OpMax:
		if !left { // of two zeros the second is taken
			return k.MaxS
		}
	case tensor.OpMin:
		if !left {
			return k.MinS
		}
	case tensor.OpSub:
		if left {
			return k.RSubS
		}
		return func(dst, x []float32, s float32) { k.AddS(dst, x, -s) }
	case tensor.OpDiv:
		if left {
			return k.RDivS
		}
	case tensor.OpPow:
		if !left {
			return k.PowS
		}
	}
	return nil
}
