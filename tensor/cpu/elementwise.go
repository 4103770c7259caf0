package cpu

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// loop computes n elements of dst from contiguous operands, of the dtypes that it was
// made for. dst may be an operand. s are the operation's own scalars.
type loop func(dst pointer, in *[4]pointer, s []float64, n int)

// elementwiseStep runs a loop over a nest: rows of the nest, piece by piece.
type elementwiseStep struct {
	f       loop
	tensors []compile.Operand // or scalars in their place
	own     []compile.Operand // the operation's own scalars
	t       tensor.DType      // of the operands
	n       nest
	width   []int // bytes of an element, of each tensor
	out     int   // the buffer of the result
	size    int   // bytes of an element of the result
	step    int   // elements of a piece
}

// elementwise lowers a step. Operands that aren't contiguous in a row are copied into a
// tile first, and scalars in the place of tensors fill one. Where all operands are
// contiguous, pieces are longer than a tile.
func (lw *lowerer) elementwise(s *compile.Step) func(r *run) error {
	info := s.Op.Info()
	tensors := s.In[:len(s.In)-len(info.Scalars)]
	t := s.Out.DType
	for _, o := range tensors {
		if o.Scalar < 0 {
			t = o.DType
		}
	}
	if f := lw.withScalar(s, t); f != nil {
		return f
	}
	f := lw.loopFor(s, t)
	if f == nil { // the op table and inference exclude it
		panic(fmt.Sprintf("cpu: no loop for %v of %v", s.Op, t))
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
	if s.Out.Shape.Elems() == 0 {
		return nothing
	}
	e := &elementwiseStep{f: f, tensors: tensors, own: s.In[len(tensors):], t: t,
		n: newNest(s.Out.Shape, strides...), width: make([]int, len(tensors)),
		out: s.Out.Buf, size: s.Out.DType.Size(), step: stretch}
	for k, o := range tensors {
		e.width[k] = t.Size()
		if o.Scalar < 0 {
			e.width[k] = o.DType.Size()
		}
		if o.Scalar >= 0 || e.n.innerStride(k+1) != 1 {
			e.step = tile
		}
	}
	return e.run
}

func (e *elementwiseStep) run(r *run) error {
	n := &e.n
	for k := range e.own {
		r.own[k] = r.scalars[e.own[k].Scalar]
	}
	var from [4]pointer
	for k, o := range e.tensors {
		if o.Scalar >= 0 {
			from[k] = r.tile(k, e.width[k])
			spread(from[k], e.t, r.scalars[o.Scalar], min(tile, n.inner()))
		} else {
			from[k] = at(r.bufs[o.Buf], o.Off*e.width[k])
		}
	}
	dst := at(r.bufs[e.out], 0)
	odo, lo, hi := odometer{n: n}, 0, n.inner()
	if len(n.dims) == 1 {
		lo, hi = r.share(hi, tile)
	} else {
		var any bool
		if odo, any = n.share(r); !any {
			return nil
		}
	}
	for {
		for i := lo; i < hi; i += e.step {
			m := min(e.step, hi-i)
			for k := range e.tensors {
				r.in[k] = e.operand(r, k, from[k], odo.off[k+1]+i*n.innerStride(k+1), m)
			}
			e.f(shift(dst, (odo.off[0]+i)*e.size), &r.in, r.own[:len(e.own)], m)
		}
		if !odo.next() {
			return nil
		}
	}
}

// operand returns the address of m contiguous elements of operand k: those of a tensor
// that lies at p, from element i on.
func (e *elementwiseStep) operand(r *run, k int, p pointer, i, m int) pointer {
	if e.tensors[k].Scalar >= 0 {
		return p
	}
	p = shift(p, i*e.width[k])
	st := e.n.innerStride(k + 1)
	if st == 1 || m == 1 {
		return p
	}
	q := r.tile(k, e.width[k])
	gather(q, p, e.width[k], st, m)
	return q
}

// tile returns operand k's scratch.
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

// withScalar lowers an f32 operation between a contiguous tensor and a scalar, which
// needs no tiles.
func (lw *lowerer) withScalar(s *compile.Step, t tensor.DType) func(r *run) error {
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
	f := lw.scalarLoop(s.Op, left)
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

// scalarLoop returns the kernel of op between a tensor and a scalar, the left operand if
// left; nil if there is none.
func (lw *lowerer) scalarLoop(op tensor.Op, left bool) func(dst, x []float32, s float32) {
	k := lw.table
	switch op {
	case tensor.OpAdd:
		return k.AddS
	case tensor.OpMul:
		return k.MulS
	case tensor.OpMax:
		if !left { // of two zeros the second is the result
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
