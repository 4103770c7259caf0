package cpu

import "github.com/ringside-go/ringside/tensor/internal/compile"

// indexAdd32 lowers index_add of f32. Every thread has some of the columns of each
// indexed slice, and goes through all indices in their order. The result may share x's
// memory.
func indexAdd32(s *compile.Step) func(r *run) error {
	x, idx, from := &s.In[0], &s.In[1], &s.In[2]
	outer, n, inner := split(x.Shape, int(s.Ints[0]))
	m := idx.Shape.Elems()
	return func(r *run) error {
		base, src, dst := buf[float32](r, x), buf[float32](r, from), buf[float32](r, &s.Out)
		lo, hi := r.share(inner, 16)
		if lo == hi && inner > 0 {
			return nil
		}
		if len(dst) > 0 && &dst[0] != &base[0] {
			if lo == 0 && hi == inner {
				copy(dst, base[:len(dst)])
			} else {
				for i := lo; i < len(dst); i += inner {
					copy(dst[i:][:hi-lo], base[i:])
				}
			}
		}
		id, wide := ids(r, idx)
		for j := range m {
			k, err := index(id, wide, j, n)
			if err != nil {
				return err
			}
			for o := range outer {
				to := dst[(o*n+k)*inner+lo:][:hi-lo]
				r.table.Add(to, to, src[(o*m+j)*inner+lo:])
			}
		}
		return nil
	}
}
