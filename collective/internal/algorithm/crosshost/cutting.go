package crosshost

import "github.com/ringside-go/ringside/collective/protocol"

// slots is how many chunks of each peer can have arrived and wait to be folded.
const slots = 2

// lag is how many chunks the pieces to be folded are sent ahead of the folded ones.
const lag = 2

// cutting is a reduction in two steps. The buffer is cut into a part for every owner:
//
//  1. Every rank sends each owner that owner's part of its buffer. The owner folds all of
//     them, in order.
//  2. The owner sends the folded part to all ranks, or to one, or to none.
//
// With all ranks as owners and results for all, this is an all-reduce that moves 2(n-1)/n
// buffers to and from each rank. A ring moves as many, which is the least there can be
// (Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations,
// 2009), but in 2(n-1) steps instead of two. A ring adds in another order for each part,
// and recursive halving in the order of a tree. Here an owner has all the operands, so it
// can keep to the order of protocol.Fold, and 16-bit floats travel as they are. The price
// is n-1 streams at once instead of one, and memory for two chunks of each.
//
// A small all-reduce is one step: every rank owns the whole buffer, and results go to
// none. All ranks fold the same values in the same order, with kernels that agree bit for
// bit, so they have the same bits without exchanging the result.
//
// Both steps go chunk by chunk, interleaved (protocol.Interleave): a chunk is folded and
// sent on while it lies in the cache.
type cutting struct {
	c   *Comm
	src []byte
	// where this rank's folded part belongs; nil: in the slots of out
	dst      []byte
	all      []byte           // where the others' folded parts belong
	parts    []protocol.Slice // of the buffer, by owner
	owners   []bool
	everyone bool // the folded parts go to all ranks,
	to       int  // or to one; -1: to none
	inPlace  bool // all is src
	// dst is what this rank sends to the others
	overwrites bool
	folded     int
	// chunks of peer p are received into slot[p*slots] to slot[p*slots+slots-1]
	slot [][]byte
	out  [slots][]byte
	srcs [][]byte
	into [1][]byte
}

// prepare takes the memory that t needs. The fields from src to to are set.
func (t *cutting) prepare(c *Comm) {
	t.c, t.folded = c, 0
	t.inPlace = same(t.all, t.src)
	t.srcs = fit(t.srcs, c.n)
	t.slot = fit(t.slot, c.n*slots)
	if !t.owners[c.rank] {
		return
	}
	mine := t.parts[c.rank].Len
	k, size := min(slots, t.count(c.rank)), min(mine, c.chunk)
	for p := range c.n {
		for i := range k {
			if p != c.rank {
				t.slot[p*slots+i] = c.memory.take(size)
			} else if t.dst == nil {
				t.out[i] = c.memory.take(size)
			}
		}
	}
}

// count returns the number of chunks of rank p's part.
func (t *cutting) count(p int) int {
	if !t.owners[p] {
		return 0
	}
	return chunks(t.parts[p].Len, t.c.chunk)
}

// wanted returns the number of folded chunks that go from one rank to another.
func (t *cutting) wanted(from, to int) int {
	if t.everyone || t.to == to {
		return t.count(from)
	}
	return 0
}

// order returns the order of the pieces from one rank to another.
func (t *cutting) order(from, to int) protocol.Interleave {
	return protocol.Interleave{First: t.count(to), Second: t.wanted(from, to), Lag: lag}
}

func (t *cutting) sends(p int) int { return t.order(t.c.rank, p).Len() }
func (t *cutting) recvs(p int) int { return t.order(p, t.c.rank).Len() }

func (t *cutting) send(p, i int) ([]byte, bool) {
	second, k := t.order(t.c.rank, p).At(i)
	if !second {
		return cut(t.parts[p].Of(t.src), k, t.c.chunk), true
	}
	if k >= t.folded {
		return nil, false
	}
	return t.result(k), true
}

// result returns where this rank's k-th chunk is folded into.
func (t *cutting) result(k int) []byte {
	if t.dst != nil {
		return cut(t.dst, k, t.c.chunk)
	}
	return t.out[k%slots][:t.length(k)]
}

// length returns the bytes of this rank's k-th chunk.
func (t *cutting) length(k int) int {
	return min(t.c.chunk, t.parts[t.c.rank].Len-k*t.c.chunk)
}

func (t *cutting) recv(p, i int) ([]byte, bool) {
	second, k := t.order(p, t.c.rank).At(i)
	if !second {
		if k >= t.folded+slots {
			return nil, false
		}
		return t.slot[p*slots+k%slots][:t.length(k)], true
	}
	if t.inPlace && t.order(t.c.rank, p).Firsts(t.c.peers[p].sent) <= k {
		return nil, false // the bytes that it overwrites have not gone yet
	}
	return cut(t.parts[p].Of(t.all), k, t.c.chunk), true
}

func (t *cutting) work() bool {
	me := t.c.rank
	k := t.folded
	if k >= t.count(me) {
		return false
	}
	for p := range t.srcs {
		if p == me {
			t.srcs[p] = cut(t.parts[me].Of(t.src), k, t.c.chunk)
			continue
		}
		l := &t.c.peers[p]
		// the bytes that it overwrites must have gone
		if t.order(p, me).Firsts(l.rcvd) <= k || t.overwrites && l.sent <= k {
			return false
		}
		if out := t.order(me, p); t.dst == nil && out.Second > 0 && k >= slots && l.sent-out.Firsts(l.sent) <= k-slots {
			return false // the slot still holds what is being sent
		}
		t.srcs[p] = t.slot[p*slots+k%slots][:t.length(k)]
	}
	t.into[0] = t.result(k)
	t.c.fold.Fold(&t.c.call, t.into[:], t.srcs)
	t.folded++
	return true
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
