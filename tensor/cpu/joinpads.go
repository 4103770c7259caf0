package cpu

import "github.com/ringside-go/ringside/tensor/internal/compile"

// joinPads lowers the sum of padded pieces that together are all of the result. A piece
// that already lies in its place stays there. Where the others are padded with numbers
// other than 0, these are added.
func (lw *lowerer) joinPads(s *compile.Step) func(r *run) error {
	type piece struct {
		from compile.Operand
		to   int
		copy copier
		row  nest // of the place
		here bool
	}
	dim := int(s.Ints[0])
	var all []piece
	off := 0
	for _, x := range s.In[:len(s.In)/2] {
		p := piece{from: x, to: off, here: x.Buf == s.Out.Buf, copy: newCopier(x.Shape, s.Out.Strides, x.Strides), row: newNest(x.Shape, s.Out.Strides)}
		off += x.Shape[dim] * s.Out.Strides[dim]
		if x.Shape.Elems() > 0 {
			all = append(all, p)
		}
	}
	values := s.In[len(s.In)/2:]
	return func(r *run) error {
		out := slice[float32](r.bufs[s.Out.Buf])
		for i := range all {
			p := &all[i]
			if !p.here {
				copyAll(r, &p.copy, out, p.to, slice[float32](r.bufs[p.from.Buf]), p.from.Off)
			}
			sum := float32(0)
			for j, v := range values {
				if j != i {
					sum += float32(r.scalars[v.Scalar])
				}
			}
			if sum != 0 {
				p.row.each(r, p.to, func(o, n, stride int) {
					if stride == 1 {
						r.table.AddS(out[o:o+n], out[o:o+n], sum)
						return
					}
					for j := range n {
						out[o+j*stride] += sum
					}
				})
			}
		}
		return nil
	}
}
