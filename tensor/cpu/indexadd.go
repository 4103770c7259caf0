package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// indexAdd lowers index_add. Every thread has some of the columns of each indexed slice,
// and goes through all indices in their order, so that elements with equal places are
// added in the order of the source. The result may share x's memory.
func indexAdd[T number](s *compile.Step, add func(dst, a, b []T)) func(r *run) error {
	x, idx, from := &s.In[0], &s.In[1], &s.In[2]
	outer, n, inner := split(x.Shape, int(s.Ints[0]))
	m := idx.Shape.Elems()
	return func(r *run) error {
		base, src, dst := buf[T](r, x), buf[T](r, from), buf[T](r, &s.Out)
		lo, hi := r.share(inner, 16)
		if lo == hi && inner > 0 {
			return nil
		}
		if len(dst) > 0 && &dst[0] != &base[0] {
			if lo == 0 && hi == inner {
				copyLong(r, dst, base[:len(dst)])
			} else {
				for i := lo; i < len(dst) && !r.stopped(); i += inner {
					copy(dst[i:][:hi-lo], base[i:])
				}
			}
		}
		id, wide := ids(r, idx)
		for j := range m {
			k, err := indexFromEnd(id, wide, j, n)
			if err != nil {
				return err
			}
			for o := range outer {
				if r.stopped() {
					return nil
				}
				to := dst[(o*n+k)*inner+lo:][:hi-lo]
				add(to, to, src[(o*m+j)*inner+lo:])
			}
		}
		return nil
	}
}

func (lw *lowerer) indexAdd(s *compile.Step) func(r *run) error {
	switch p := lw.plain; s.Out.DType {
	case tensor.F64:
		return indexAdd(s, lw.table64.Add)
	case tensor.I32:
		return indexAdd(s, p.I32.Add)
	case tensor.I64:
		return indexAdd(s, p.I64.Add)
	case tensor.U8:
		return indexAdd(s, p.U8.Add)
	}
	return indexAdd(s, lw.table.Add)
}
