package cpu

import "github.com/ringside-go/ringside/tensor"

// nest is a loop nest over several operands at once: dims, outermost first, and the
// strides of each operand in elements. Dims that every operand walks as one are joined,
// so that most nests have one dim or two.
type nest struct {
	dims    []int
	strides [][]int // of each operand
}

// newNest returns the nest over shape; strides has each operand's strides.
func newNest(shape tensor.Shape, strides ...[]int) nest {
	n := nest{strides: make([][]int, len(strides))}
	for i, d := range shape {
		if d == 1 {
			continue
		}
		last := len(n.dims) - 1
		joins := last >= 0
		for k := range strides {
			joins = joins && n.strides[k][last] == strides[k][i]*d
		}
		if joins {
			n.dims[last] *= d
			for k := range strides {
				n.strides[k][last] = strides[k][i]
			}
			continue
		}
		n.dims = append(n.dims, d)
		for k := range strides {
			n.strides[k] = append(n.strides[k], strides[k][i])
		}
	}
	if len(n.dims) == 0 {
		n.dims = []int{1}
		for k := range strides {
			n.strides[k] = []int{0}
		}
	}
	return n
}

// odometer walks the outer dims of a nest and keeps each operand's offset. The caller
// walks the inner dims itself: the innermost one and inside of those before it.
type odometer struct {
	n      *nest
	inside int // dims that the caller walks besides the innermost
	end    int // the walk ends before this position of the outermost dim; 0: at its end
	at     [tensor.MaxRank]int
	off    [8]int // of each operand, in elements
}

// next goes to the next row and returns false after the last.
func (o *odometer) next() bool {
	for i := len(o.n.dims) - 2 - o.inside; i >= 0; i-- {
		o.at[i]++
		for k := range o.n.strides {
			o.off[k] += o.n.strides[k][i]
		}
		if o.at[i] < o.n.dims[i] && (i > 0 || o.end == 0 || o.at[0] < o.end) {
			return true
		}
		for k := range o.n.strides {
			o.off[k] -= o.n.strides[k][i] * o.n.dims[i]
		}
		o.at[i] = 0
	}
	return false
}

// inner returns the innermost dim's size, and innerStride operand k's stride along it.
func (n *nest) inner() int            { return n.dims[len(n.dims)-1] }
func (n *nest) innerStride(k int) int { return n.strides[k][len(n.dims)-1] }

// share starts a walk of this thread's part of the outermost dim, which is not the
// innermost. It returns false if the thread has no part.
func (n *nest) share(r *run) (odometer, bool) {
	lo, hi := r.share(n.dims[0], 1)
	o := odometer{n: n, end: hi}
	o.at[0] = lo
	for k := range n.strides {
		o.off[k] = lo * n.strides[k][0]
	}
	return o, lo < hi
}

// part starts a walk of this thread's part of a nest. In each row the part is positions
// lo to hi of the innermost dim, which are equal if the thread has no part.
func (n *nest) part(r *run) (odo odometer, lo, hi int) {
	if len(n.dims) == 1 {
		lo, hi = r.share(n.inner(), 1)
		return odometer{n: n}, lo, hi
	}
	odo, any := n.share(r)
	if !any {
		return odo, 0, 0
	}
	return odo, 0, n.inner()
}

// rows calls f for every position in this thread's part of a nest of up to four operands,
// with its number and each operand's offset. No dim may be 0.
func (n *nest) rows(r *run, f func(i, a, b, c, d int)) {
	var st [4]int
	for k := range n.strides {
		st[k] = n.innerStride(k)
	}
	odo, lo, hi := n.part(r)
	i := odo.at[0]*tensor.Shape(n.dims[1:]).Elems() + lo
	for lo < hi {
		a, b, c, d := odo.off[0]+lo*st[0], odo.off[1]+lo*st[1], odo.off[2]+lo*st[2], odo.off[3]+lo*st[3]
		for range hi - lo {
			if r.stopped() {
				return
			}
			f(i, a, b, c, d)
			i, a, b, c, d = i+1, a+st[0], b+st[1], c+st[2], d+st[3]
		}
		if !odo.next() {
			return
		}
	}
}

// rowAlone gives a nest of one dim a second one, of size 1, outside of it.
func (n *nest) rowAlone() {
	if len(n.dims) == 1 {
		n.dims = append([]int{1}, n.dims...)
		for k := range n.strides {
			n.strides[k] = append([]int{0}, n.strides[k]...)
		}
	}
}

// longestInner exchanges two dims so that the longest is innermost: kernels take all
// positions along it in one call. It is for loops whose order of dims does not matter.
func (n *nest) longestInner() {
	last := len(n.dims) - 1
	best := last
	for i, d := range n.dims {
		if d > n.dims[best] {
			best = i
		}
	}
	n.dims[best], n.dims[last] = n.dims[last], n.dims[best]
	for _, st := range n.strides {
		st[best], st[last] = st[last], st[best]
	}
}

// runs goes through this thread's part of a nest of up to four operands. It calls f for
// each run, which is neighbouring positions along the innermost dim, with their number
// and each operand's offset at the first. A position stands for size elements; runs of
// more than breath elements are divided into pieces. No dim may be 0.
func (n *nest) runs(r *run, size int, f func(count, a, b, c, d int)) {
	odo, lo, hi := n.part(r)
	var st, at [4]int
	for k := range n.strides {
		st[k] = n.innerStride(k)
	}
	most := max(breath/max(size, 1)/runUnit, 1) * runUnit
	for lo < hi {
		for i := lo; i < hi; i += most {
			if r.stopped() {
				return
			}
			for k := range at {
				at[k] = odo.off[k] + i*st[k]
			}
			f(min(most, hi-i), at[0], at[1], at[2], at[3])
		}
		if !odo.next() {
			return
		}
	}
}

// runUnit divides the positions of every piece of a run but the last: kernels that add up
// rows take a few of them at a time.
const runUnit = 64
