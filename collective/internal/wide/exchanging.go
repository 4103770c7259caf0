package wide

import "github.com/ringside-go/ringside/collective/plan"

// slots is how many chunks of each peer can have arrived and wait to be folded.
const slots = 2

// exchanging is the all-reduce in one step: every rank sends its whole buffer to all
// others, and folds. It takes one message's time, and n-1 buffers of traffic to and from
// every rank. For two ranks that is no more than any other way.
//
// All ranks fold the same values in the same order, with kernels that agree bit for bit.
// So they have the same bits without exchanging the result.
type exchanging struct {
	c        *Comm
	dst, src []byte
	inPlace  bool
	chunks   int
	folded   int
	// chunks of peer p are received into slot[p*slots] to slot[p*slots+slots-1]
	slot [][]byte
	srcs [][]byte
}

// exchange prepares the comm's job of that type.
func (c *Comm) exchange(r *plan.Request) job {
	dst, src := r.Dst, r.Src
	piece := min(len(src), c.chunk)
	c.memory.reset(room(c.n*slots, piece) + c.folder.room(r.Call.DType, c.fold, piece))
	c.folder.prepare(&r.Call, c.fold, piece, &c.memory)
	x := &c.jobs.exchanging
	x.c, x.dst, x.src, x.inPlace = c, dst, src, same(dst, src)
	x.chunks, x.folded = chunks(len(src), c.chunk), 0
	x.srcs = fit(x.srcs, c.n)
	x.slot = fit(x.slot, c.n*slots)
	k, size := min(slots, x.chunks), min(len(src), c.chunk)
	for p := range c.n {
		for i := range k {
			if p != c.rank {
				x.slot[p*slots+i] = c.memory.take(size)
			}
		}
	}
	return x
}

// chunks returns in how many pieces n bytes travel: one at least.
func chunks(n, chunk int) int { return max(1, (n+chunk-1)/chunk) }

// cut returns the k-th chunk of b.
func cut(b []byte, k, chunk int) []byte {
	end := min((k+1)*chunk, len(b))
	return b[k*chunk : end : end]
}

// fit returns a list of n, list itself if it has that length, cleared.
func fit(list [][]byte, n int) [][]byte {
	if len(list) != n {
		return make([][]byte, n)
	}
	clear(list)
	return list
}

func (x *exchanging) sends(p int) int              { return x.chunks }
func (x *exchanging) recvs(p int) int              { return x.chunks }
func (x *exchanging) send(p, i int) ([]byte, bool) { return cut(x.src, i, x.c.chunk), true }

func (x *exchanging) recv(p, i int) ([]byte, bool) {
	n := len(cut(x.src, i, x.c.chunk))
	if i >= x.folded+slots {
		return nil, false
	}
	return x.slot[p*slots+i%slots][:n], true
}

func (x *exchanging) work() bool {
	k := x.folded
	if k == x.chunks {
		return false
	}
	dst := cut(x.dst, k, x.c.chunk)
	for p := range x.srcs {
		l := &x.c.peers[p]
		if p == x.c.rank {
			x.srcs[p] = cut(x.src, k, x.c.chunk)
			continue
		}
		// the bytes that it overwrites must have gone
		if l.rcvd <= k || x.inPlace && l.sent <= k {
			return false
		}
		x.srcs[p] = x.slot[p*slots+k%slots][:len(dst)]
	}
	x.c.folder.fold(dst, x.srcs)
	x.folded++
	return true
}
