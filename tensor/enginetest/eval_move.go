package enginetest

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// view copies the elements that a view names.
func (c *call) view(out *array) {
	x := c.tensor(0)
	at := make([]int, len(x.sh))
	switch c.op {
	case tensor.OpReshape, tensor.OpBarrier:
		for k := range out.len() {
			out.copyFrom(k, x, k)
		}
	case tensor.OpExpand:
		*out = *x.expand(c.sh)
	case tensor.OpPermute:
		each(c.sh, func(k int, idx []int) {
			for i, d := range c.ints {
				at[d] = idx[i]
			}
			out.copyFrom(k, x, flat(x.sh, at...))
		})
	case tensor.OpSlice:
		each(c.sh, func(k int, idx []int) {
			for d := range at {
				at[d] = int(c.ints[3*d]) + idx[d]*int(c.ints[3*d+1])
			}
			out.copyFrom(k, x, flat(x.sh, at...))
		})
	}
}

func outOfRange(value int64, at, n int) error {
	return fmt.Errorf("%w: %d at position %d; expected 0 to %d", tensor.ErrIndex, value, at, n-1)
}

// inRange checks every index against n.
func inRange(idx *array, n int) error {
	for k, v := range idx.i {
		if v < 0 || v >= int64(n) {
			return outOfRange(v, k, n)
		}
	}
	return nil
}

// addTo adds element j of src to element k.
func (a *array) addTo(k int, src *array, j int) {
	if a.dt.IsFloat() {
		a.f[k] += src.f[j]
	} else {
		a.i[k] += src.i[j]
	}
}

func (c *call) move(out *array) error {
	x := c.tensor(0)
	at := make([]int, 0, tensor.MaxRank)
	switch c.op {
	case tensor.OpConcat:
		dim, start := int(c.ints[0]), 0
		for _, o := range c.args {
			each(o.a.sh, func(k int, idx []int) {
				at = append(at[:0], idx...)
				at[dim] += start
				out.copyFrom(flat(c.sh, at...), o.a, k)
			})
			start += o.a.sh[dim]
		}
	case tensor.OpPad:
		fill := scalarArray(c.dt, c.scalar(0))
		for k := range out.len() {
			out.copyFrom(k, fill, 0)
		}
		each(x.sh, func(k int, idx []int) {
			at = append(at[:0], idx...)
			for d := range at {
				at[d] += int(c.ints[2*d])
			}
			out.copyFrom(flat(c.sh, at...), x, k)
		})
	case tensor.OpTril, tensor.OpTriu:
		n := len(x.sh)
		each(x.sh, func(k int, idx []int) {
			above := int64(idx[n-1]) - int64(idx[n-2]) - c.ints[0] // of the k-th diagonal
			if above == 0 || c.op == tensor.OpTril && above < 0 || c.op == tensor.OpTriu && above > 0 {
				out.copyFrom(k, x, k)
			}
		})
	case tensor.OpIndexSelect, tensor.OpIndexAdd:
		return c.index(out)
	case tensor.OpGather, tensor.OpScatterAdd:
		idx, dim := c.tensor(1), int(c.ints[0])
		if err := inRange(idx, x.sh[dim]); err != nil {
			return err
		}
		if c.op == tensor.OpScatterAdd {
			*out = *x.clone()
		}
		each(idx.sh, func(k int, pos []int) {
			at = append(at[:0], pos...)
			at[dim] = int(idx.i[k])
			if c.op == tensor.OpGather {
				out.copyFrom(k, x, flat(x.sh, at...))
			} else {
				out.addTo(flat(x.sh, at...), c.tensor(2), k)
			}
		})
	case tensor.OpOneHot:
		classes := int(c.ints[1])
		if err := inRange(x, classes); err != nil {
			return err
		}
		one := scalarArray(c.dt, 1)
		for k, v := range x.i {
			out.copyFrom(k*classes+int(v), one, 0)
		}
	}
	return nil
}

func (a *array) clone() *array {
	b := *a
	b.f, b.i = slices.Clone(a.f), slices.Clone(a.i)
	return &b
}

// index computes index_select and index_add: positions [before.., idx.., after..] of one
// tensor correspond to [before.., value of idx, after..] of the other.
func (c *call) index(out *array) error {
	x, idx, dim := c.tensor(0), c.tensor(1), int(c.ints[0])
	n := int64(x.sh[dim])
	for k, v := range idx.i {
		if v < -n || v >= n {
			return fmt.Errorf("%w: %d at position %d; expected %d to %d", tensor.ErrIndex, v, k, -n, n-1)
		}
	}
	long := c.sh // the shape with idx's dims
	if c.op == tensor.OpIndexAdd {
		*out = *x.clone()
		long = c.tensor(2).sh
	}
	at := make([]int, 0, tensor.MaxRank)
	each(long, func(k int, pos []int) {
		v := idx.i[flat(idx.sh, pos[dim:dim+len(idx.sh)]...)]
		if v < 0 { // from the end
			v += n
		}
		at = append(append(append(at[:0], pos[:dim]...), int(v)), pos[dim+len(idx.sh):]...)
		if c.op == tensor.OpIndexSelect {
			out.copyFrom(k, x, flat(x.sh, at...))
		} else {
			out.addTo(flat(x.sh, at...), c.tensor(2), k)
		}
	})
	return nil
}
