package cpu

import (
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// attention computes blocks of queries against the keys that they see: keys ahead of a
// whole block are never multiplied, and only the scores of a block exist, not the square
// of the sequence.
//
//	for each head and each block of rows i
//		P = softmax(scale q[i] k[0:seen]ᵀ), row by row over what the row sees
//		y[i] = P v[0:seen]
type attention struct {
	s, t, n, e int // queries, keys, sizes of a query and a value
	rows       int // of a block
	q, k, v    heads
	scale      int
	causal     bool // or every query sees all keys
}

// heads is one matrix for each head, all of the same shape and strides.
type heads struct {
	buf    int
	at     []int // element (0, 0) of each
	rs, cs int
}

// queryRows is the tallest block of queries: a little more than two of the product's
// tiles.
const queryRows = 32

func newHeads(o *compile.Operand) heads {
	n := len(o.Shape) - 2
	h := heads{buf: o.Buf, rs: o.Strides[n], cs: o.Strides[n+1]}
	h.at = offsets(o.Off, o.Shape[:n], o.Strides[:n])
	return h
}

// offsets returns the offsets of the matrices of a batch.
func offsets(off int, shape, strides []int) []int {
	at := []int{off}
	for i, n := range shape {
		next := make([]int, 0, len(at)*n)
		for _, a := range at {
			for j := range n {
				next = append(next, a+j*strides[i])
			}
		}
		at = next
	}
	return at
}

// matrix returns rows i and on of head h.
func (x *heads) matrix(r *run, h, i int) kernel.Matrix[float32] {
	return kernel.Matrix[float32]{Data: slice[float32](r.bufs[x.buf])[x.at[h]+i*x.rs:], RS: x.rs, CS: x.cs}
}

func newAttention(s *compile.Step) *attention {
	q, v := s.In[0].Shape, s.In[2].Shape
	r := len(q)
	a := &attention{s: q[r-2], t: v[r-2], n: q[r-1], e: v[r-1], scale: s.In[3].Scalar, causal: s.Ints[0] == 1,
		q: newHeads(&s.In[0]), k: newHeads(&s.In[1]), v: newHeads(&s.In[2])}
	blocks := (a.s + queryRows - 1) / queryRows
	a.rows = (a.s + blocks - 1) / blocks
	return a
}

// blocks returns the number of blocks of a head.
func (a *attention) blocks() int { return (a.s + a.rows - 1) / a.rows }

// block returns the first row of block b, the number of its rows, and the number of keys
// that the last of them sees.
func (a *attention) block(b int) (i, rows, seen int) {
	i = b * a.rows
	rows = min(a.rows, a.s-i)
	if !a.causal {
		return i, rows, a.t
	}
	return i, rows, i + rows + a.t - a.s
}

// sees returns the number of keys that row i sees, and the number by which that grows
// from row to row.
func (a *attention) sees(i int) (first, grow int) {
	if !a.causal {
		return a.t, 0
	}
	return i + a.t - a.s + 1, 1
}

// stride returns the distance of rows of scores: whole vectors.
func stride(seen int) int { return (seen + 15) &^ 15 }

// fewRows returns how many rows of n scores are done between two looks at the stop flag.
func fewRows(n int) int { return max(breath/max(n, 1), 1) }

// weights computes P for rows i of head h into p.
func (a *attention) weights(r *run, h, i, rows, seen int, p []float32) {
	ld := stride(seen)
	k := a.k.matrix(r, h, 0)
	gemm32(r, rows, seen, a.n, a.q.matrix(r, h, i), k.T(), false, p, ld)
	scale := float32(r.scalars[a.scale])
	// the kernel finds the largest score, which is then the smallest scaled one
	if !(scale > 0) {
		for j := range rows {
			row := p[j*ld:][:seen]
			r.table.MulS(row, row, scale)
		}
		scale = 1
	}
	first, grow := a.sees(i)
	most := fewRows(seen)
	for j := 0; j < rows && !r.stopped(); j += most {
		x := kernel.Rows[float32]{Data: p[j*ld:], Stride: ld}
		r.table.SoftmaxRows(x, x, min(most, rows-j), seen, first+j*grow, grow, scale)
	}
}

func (lw *lowerer) attention(s *compile.Step) func(r *run) error {
	a := newAttention(s)
	y := newHeads(&s.Out)
	blocks := a.blocks()
	return func(r *run) error {
		out := slice[float32](r.bufs[y.buf])
		lo, hi := r.share(len(y.at)*blocks, 1)
		for u := lo; u < hi && !r.stopped(); u++ {
			h := u / blocks
			i, rows, seen := a.block(u % blocks)
			p := scratchRow[float32](r, 0, rows*stride(seen))
			a.weights(r, h, i, rows, seen, p)
			gemm32(r, rows, a.e, seen, kernel.Matrix[float32]{Data: p, RS: stride(seen), CS: 1}, a.v.matrix(r, h, 0), false, out[y.at[h]+i*y.rs:], y.rs)
		}
		return nil
	}
}

// attentionGrad goes over the same blocks and computes P again. One thread does all heads
// that share keys and values, in their order, last rows first: the first block sees all
// keys and stores, those that follow add.
//
//	dP = dy[i] v[0:seen]ᵀ
//	dS = scale P (dP - sum(P dP))
//	dq[i] = dS k[0:seen]; dk[0:seen] += dSᵀ q[i]; dv[0:seen] += Pᵀ dy[i]
func (lw *lowerer) attentionGrad(s *compile.Step) func(r *run) error {
	a := newAttention(s)
	dy := newHeads(&s.In[4])
	back := s.In[5].Scalar
	dq, dk, dv := newHeads(&s.Out), newHeads(&s.Also[0]), newHeads(&s.Also[1])
	group := len(dq.at) / len(dk.at) // heads that share
	blocks := a.blocks()
	return func(r *run) error {
		scale := float32(r.scalars[back])
		to := func(x *heads, h, i int) []float32 { return slice[float32](r.bufs[x.buf])[x.at[h]+i*x.rs:] }
		lo, hi := r.share(len(dk.at), 1)
		for u := lo; u < hi; u++ {
			add := false
			for h := u * group; h < (u+1)*group; h++ {
				for b := blocks - 1; b >= 0 && !r.stopped(); b-- {
					i, rows, seen := a.block(b)
					if h > u*group && b == blocks-1 {
						add = true
					}
					ld := stride(seen)
					p, dp := scratchRow[float32](r, 0, rows*ld), scratchRow[float32](r, 1, rows*ld)
					a.weights(r, h, i, rows, seen, p)
					dyi, qi, v := dy.matrix(r, h, i), a.q.matrix(r, h, i), a.v.matrix(r, h, 0)
					gemm32(r, rows, seen, a.e, dyi, v.T(), false, dp, ld)
					pm, ds := kernel.Matrix[float32]{Data: p, RS: ld, CS: 1}, kernel.Matrix[float32]{Data: dp, RS: ld, CS: 1}
					gemm32(r, seen, a.e, rows, pm.T(), dyi, add, to(&dv, u, 0), dv.rs)
					first, grow := a.sees(i)
					most := fewRows(seen)
					for j := 0; j < rows && !r.stopped(); j += most {
						x := kernel.Rows[float32]{Data: dp[j*ld:], Stride: ld}
						r.table.SoftmaxGradRows(x, kernel.Rows[float32]{Data: p[j*ld:], Stride: ld}, x, min(most, rows-j), seen, first+j*grow, grow, scale)
					}
					gemm32(r, rows, a.n, seen, ds, a.k.matrix(r, h, 0), false, to(&dq, h, i), dq.rs)
					gemm32(r, seen, a.n, rows, ds.T(), qi, add, to(&dk, u, 0), dk.rs)
					add = true
				}
			}
		}
		return nil
	}
}
