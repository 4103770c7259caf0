package shard

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// leaf adds a leaf in a layout without partials. A full is made in its local size. Other
// leaves are made whole and sliced: a random number is a function of its position in the
// whole tensor, so all layouts give the same numbers.
func (w *rewriter) leaf(i int, l Layout) Var {
	in := &w.p.Instrs[i]
	shape := w.p.Shapes[in.Shape]
	return w.each(i, func(r int) local {
		sh := w.mesh.shape(l, shape, r)
		ints := w.p.IntsOf(i)
		if in.Op == tensor.OpFull {
			ints = append([]int64{int64(in.DType)}, shapeInts(sh)...)
		}
		return local{in.Op, in.DType, sh, ints, w.args(i, nil)}
	})
}

// args returns the given vars and the scalars of instruction i in its order.
func (w *rewriter) args(i int, values []Var) []arg {
	var out []arg
	for k, r := range w.p.ArgsOf(i) {
		if s, ok := r.Scalar(); ok {
			out = append(out, arg{scalar: true, s: Scalar{From: s}})
		} else {
			out = append(out, of(values[k]))
		}
	}
	return out
}

// lower adds the operations of the ranks for instruction i on their parts of the
// operands.
func (w *rewriter) lower(i int, x []*tensorState, ins []Layout, args []Var, l Layout) Var {
	in := &w.p.Instrs[i]
	switch in.Op {
	case tensor.OpMean:
		if c := (&call{ints: w.p.IntsOf(i)}); c.foldsShards(ins[0]) {
			return w.lowerMean(i, x[0], ins[0], args[0], l)
		}
	case tensor.OpSlice:
		if l != ins[0] {
			return w.lowerSlice(i, x[0], ins[0], args[0])
		}
	case tensor.OpDropout:
		if hasShards(l) {
			return w.lowerDropout(i, l, args[0])
		}
	case tensor.OpCrossEntropy:
		if l != (Layout{}) {
			return w.lowerLoss(i, x, ins, args)
		}
	case tensor.OpCrossEntropyGrad:
		if l != (Layout{}) {
			return w.lowerLossGrad(i, x, ins, args, l)
		}
	}
	out := w.p.Shapes[in.Shape]
	ints := w.p.IntsOf(i)
	return w.each(i, func(r int) local {
		start, sh := w.mesh.Local(l, out, r)
		return local{in.Op, in.DType, sh, localInts(in.Op, ints, start, sh), w.args(i, args)}
	})
}

func hasShards(l Layout) bool {
	return slices.ContainsFunc(l[:], func(p Placement) bool { return p.kind == sharded })
}

// localInts returns the attributes of an operation whose result is the part that begins
// at start and has the shape sh.
func localInts(op tensor.Op, ints []int64, start []int, sh tensor.Shape) []int64 {
	switch op {
	case tensor.OpReshape, tensor.OpExpand:
		return shapeInts(sh)
	case tensor.OpSlice: // sharded dims are taken whole
		out := append([]int64(nil), ints...)
		for d, n := range sh {
			out[3*d+2] = int64(n)
		}
		return out
	case tensor.OpTril, tensor.OpTriu: // the diagonal in the coordinates of the part
		n := len(sh)
		return []int64{ints[0] + int64(start[n-2]) - int64(start[n-1])}
	}
	return ints
}

// op adds an operation whose form differs between ranks only in shapes.
func (w *rewriter) op(i int, op tensor.Op, d tensor.DType, shape func(r int) tensor.Shape, ints []int64, args ...arg) Var {
	return w.each(i, func(r int) local { return local{op, d, shape(r), ints, args} })
}

// lowerMean adds the sum of a rank's elements divided by the number of elements of the
// whole. in is the layout of the operand v.
func (w *rewriter) lowerMean(i int, x *tensorState, in Layout, v Var, l Layout) Var {
	out := w.results[i]
	n := 1
	c := call{ints: w.p.IntsOf(i)}
	for d, size := range x.shape {
		if c.folded(d) {
			n *= size
		}
	}
	shape := func(r int) tensor.Shape { return w.mesh.shape(l, out.shape, r) }
	d := x.dt
	switch {
	case d == tensor.I64: // a sum of these may wrap
		d = tensor.F64
		v = w.op(i, tensor.OpCast, d, func(r int) tensor.Shape { return w.mesh.shape(in, x.shape, r) }, []int64{int64(d)}, of(v))
	case !d.IsFloat():
		d = tensor.I64
	}
	v = w.op(i, tensor.OpSum, d, shape, w.p.IntsOf(i), of(v))
	if d != out.dt {
		v = w.op(i, tensor.OpCast, out.dt, shape, []int64{int64(out.dt)}, of(v))
	}
	return w.op(i, tensor.OpDiv, out.dt, shape, nil, of(v), number(float64(n)))
}

// lowerSlice adds the part of a slice that each rank has, padded with zeros to the whole
// slice.
func (w *rewriter) lowerSlice(i int, x *tensorState, in Layout, v Var) Var {
	dt, ints := x.dt, w.p.IntsOf(i)
	type piece struct{ slice, pad []int64 }
	pieces := make([]piece, w.ranks)
	shapes, wholes := make([]tensor.Shape, w.ranks), make([]tensor.Shape, w.ranks)
	out := w.layoutOfSlice(in, ints, x.shape)
	for r := range pieces {
		start, has := w.mesh.Local(in, x.shape, r)
		whole := w.mesh.shape(out, w.results[i].shape, r)
		for d := range has {
			s, step, count := int(ints[3*d]), int(ints[3*d+1]), int(ints[3*d+2])
			from, n, before := s, whole[d], 0
			if wholeSlice(ints, d, x.shape[d]) {
				from, step = 0, 1
			} else {
				first, end := within(s-start[d], step, count, has[d])
				if n = end - first; n == 0 {
					from, first = 0, 0
				} else {
					from = s + first*step - start[d]
				}
				before = first
			}
			pieces[r].slice = append(pieces[r].slice, int64(from), int64(step), int64(n))
			pieces[r].pad = append(pieces[r].pad, int64(before), int64(whole[d]-n-before))
			shapes[r] = append(shapes[r], n)
		}
		wholes[r] = whole
	}
	v = w.each(i, func(r int) local { return local{tensor.OpSlice, dt, shapes[r], pieces[r].slice, []arg{of(v)}} })
	return w.each(i, func(r int) local {
		return local{tensor.OpPad, dt, wholes[r], pieces[r].pad, []arg{of(v), number(0)}}
	})
}

// within returns the range [first, end) of the j in [0, count) for which at+j*step lies
// in [0, size). step is not 0.
func within(at, step, count, size int) (first, end int) {
	if step < 0 { // mirrored, the same places are walked upward
		at, step = size-1-at, -step
	}
	// from the first j with at+j*step >= 0 to the first one with at+j*step >= size
	first, end = ceilDiv(-at, step), ceilDiv(size-at, step)
	first, end = min(max(first, 0), count), min(max(end, 0), count)
	return first, max(first, end)
}

// ceilDiv returns a/b rounded up, for b > 0.
func ceilDiv(a, b int) int {
	q := a / b
	if a > q*b {
		q++
	}
	return q
}

func wholeSlice(ints []int64, d, n int) bool {
	return int(ints[3*d+2]) == n && (n == 0 || ints[3*d] == 0 && (ints[3*d+1] == 1 || n == 1))
}

// layoutOfSlice returns in with Replicate for the dims that the slice cuts, which
// lowerSlice pads.
func (w *rewriter) layoutOfSlice(in Layout, ints []int64, s tensor.Shape) Layout {
	for k, p := range in {
		if p.kind == sharded && !wholeSlice(ints, p.dim, s[p.dim]) {
			in[k] = Replicate
		}
	}
	return in
}

// lowerDropout adds a dropout of a part. The mask is a function of the position in the
// whole tensor, so the part is padded to the whole and sliced out again.
func (w *rewriter) lowerDropout(i int, l Layout, v Var) Var {
	in := &w.p.Instrs[i]
	out := w.p.Shapes[in.Shape]
	v = w.each(i, func(r int) local {
		start, sh := w.mesh.Local(l, out, r)
		var pad []int64
		for d := range sh {
			pad = append(pad, int64(start[d]), int64(out[d]-start[d]-sh[d]))
		}
		return local{tensor.OpPad, in.DType, out, pad, []arg{of(v), number(0)}}
	})
	v = w.each(i, func(int) local { return local{in.Op, in.DType, out, w.p.IntsOf(i), w.args(i, []Var{v})} })
	return w.each(i, func(r int) local {
		start, sh := w.mesh.Local(l, out, r)
		return local{tensor.OpSlice, in.DType, sh, sliceInts(start, sh), []arg{of(v)}}
	})
}
