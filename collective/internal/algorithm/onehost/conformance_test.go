package onehost

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/shm"
)

// where says in what memory a rank has its buffers.
type where int

const (
	staged     where = iota // slices of the heap
	registered              // of Alloc
	mixed                   // even ranks as the first, odd ones as the second
	displayed               // of an arena that Show is told of
	several                 // by turns as the second and as the fourth
	wheres
)

func (w where) String() string {
	return [...]string{"staged", "registered", "mixed", "shown", "registered and shown"}[w]
}

// table makes every call on one set of comms and compares with what the call is
// documented to do.
type table struct {
	t     *testing.T
	rng   *rand.Rand
	cs    []*Comm
	fold  protocol.Fold
	seq   uint64
	cases int

	arenas map[int]*shm.Arena   // by rank, of what is shown
	lent   map[int][]*shm.Block // of those
}

// buffer is n bytes of a rank's memory, at an offset that is no multiple of a line where
// odd says so.
func (x *table) buffer(rank, n int, w where, odd int) []byte {
	if w == staged || w == mixed && rank%2 == 0 || n == 0 {
		return make([]byte, n+odd)[odd:]
	}
	if w == displayed || w == several && x.rng.IntN(2) == 0 {
		return x.shown(rank, n+odd)[odd:]
	}
	b, err := x.cs[rank].Alloc(n + odd)
	if err != nil {
		x.t.Fatal(err)
	}
	return b[odd:]
}

// shown is n bytes of a segment that rank shows to the others.
func (x *table) shown(rank, n int) []byte {
	if x.arenas == nil {
		x.arenas, x.lent = map[int]*shm.Arena{}, map[int][]*shm.Block{}
	}
	if x.arenas[rank] == nil {
		a, err := shm.NewArena(&shm.ArenaOptions{First: 1 << 20, Segment: shm.Options{Backing: shm.Memfd, PeersRead: true}})
		if err != nil {
			x.t.Fatal(err)
		}
		x.arenas[rank] = a
		x.t.Cleanup(func() { a.Close() })
	}
	b, err := x.arenas[rank].Alloc(n)
	if err != nil {
		x.t.Fatal(err)
	}
	x.lent[rank] = append(x.lent[rank], b)
	seg, err := x.arenas[rank].Segment(b.Handle().Segment)
	if err == nil {
		err = x.cs[rank].Show(seg)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return b.Bytes()[:n]
}

func (x *table) free(w where, odd int, bufs ...[][]byte) {
	for _, ranks := range bufs {
		for r, b := range ranks {
			if len(b) == 0 || w == staged || w == mixed && r%2 == 0 {
				continue
			}
			var whole []byte
			x.cs[r].memory.mu.Lock()
			for _, block := range x.cs[r].memory.blocks {
				if _, ok := offsetIn(block.Bytes(), b); ok {
					whole = block.Bytes()
				}
			}
			x.cs[r].memory.mu.Unlock()
			if whole == nil {
				i := slices.IndexFunc(x.lent[r], func(block *shm.Block) bool { _, ok := offsetIn(block.Bytes(), b); return ok })
				x.lent[r][i].Release()
				x.lent[r] = slices.Delete(x.lent[r], i, i+1)
				continue
			}
			if err := x.cs[r].Free(whole); err != nil {
				x.t.Fatal(err)
			}
		}
	}
}

func (x *table) call(kind protocol.Kind, op element.Reduction, dt element.DType, count int) protocol.Call {
	x.seq++
	x.cases++
	return protocol.Call{Seq: x.seq, Kind: kind, Op: op, DType: dt, Count: int64(count)}
}

func (x *table) all(f func(c *Comm) error) { x.t.Helper(); each(x.t, x.cs, f) }

func (x *table) same(what string, rank int, got, want []byte) {
	x.t.Helper()
	if !bytes.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		x.t.Fatalf("%s: rank %d of %d: byte %d of %d is %#x, expected %#x", what, rank, len(x.cs), i, len(want), got[i], want[i])
	}
}

// uneven divides n elements of unit bytes into a count of bytes for each rank, some of
// them 0.
func (x *table) uneven(n, unit int) []int {
	counts := make([]int, len(x.cs))
	for range n {
		if counts[0] == 0 && n > 100 { // in large strokes
			for r := range counts {
				if x.rng.IntN(4) > 0 {
					k := x.rng.IntN(n + 1)
					counts[r], n = k*unit, n-k
				}
			}
			counts[len(counts)-1] += n * unit
			return counts
		}
		counts[x.rng.IntN(len(counts))] += unit
	}
	return counts
}

var ctx = context.Background()

// fold tries the calls that fold: op of dt, count elements a rank.
func (x *table) folding(op element.Reduction, dt element.DType, count int, inPlace bool, w where, odd int) {
	x.t.Helper()
	n, unit := len(x.cs), dt.Size()
	size := count * unit
	scale := 1.0
	if dt.IsFloat() && x.rng.IntN(2) == 0 {
		scale = 1 / float64(n)
	}
	input := make([][]byte, n)
	for r := range input {
		input[r] = fill(x.rng, dt, count)
	}
	want := reference(op, dt, scale, x.fold, input)
	src, dst := make([][]byte, n), make([][]byte, n)
	for r := range n {
		src[r] = x.buffer(r, size, w, odd)
		if dst[r] = src[r]; !inPlace {
			dst[r] = x.buffer(r, size, w, odd)
		}
	}
	refill := func() {
		for r := range n {
			copy(src[r], input[r])
		}
	}
	root := x.rng.IntN(n)
	counts := x.uneven(count, unit)
	parts := protocol.Packed(counts)

	refill()
	what := fmt.Sprintf("all-reduce %v %v x %d %v in place %v at +%d", op, dt, count, w, inPlace, odd)
	call := x.call(protocol.AllReduce, op, dt, count)
	x.all(func(c *Comm) error { return c.AllReduce(ctx, call, scale, dst[c.rank], src[c.rank]) })
	for r := range n {
		x.same(what, r, dst[r], want)
	}

	refill()
	call = x.call(protocol.Reduce, op, dt, count)
	x.all(func(c *Comm) error { return c.Reduce(ctx, call, scale, dst[c.rank], src[c.rank], root) })
	x.same("reduce, else as "+what, root, dst[root], want)
	for r := range n {
		if r != root {
			x.same("source of reduce, else as "+what, r, src[r], input[r])
		}
	}

	refill()
	call = x.call(protocol.ReduceScatter, op, dt, count)
	x.all(func(c *Comm) error {
		return c.ReduceScatter(ctx, call, scale, parts[c.rank].Of(dst[c.rank]), src[c.rank], counts)
	})
	for r := range n {
		x.same("reduce-scatter, else as "+what, r, parts[r].Of(dst[r]), parts[r].Of(want))
	}
	x.free(w, odd, src)
	if !inPlace {
		x.free(w, odd, dst)
	}
}

// moving tries the calls that move count bytes altogether.
func (x *table) moving(count int, inPlace bool, w where, odd int) {
	x.t.Helper()
	n := len(x.cs)
	what := fmt.Sprintf("%d bytes %v in place %v at +%d", count, w, inPlace, odd)
	whole := fill(x.rng, element.U8, count)
	counts := x.uneven(count, 1)
	parts := protocol.Packed(counts)
	root := x.rng.IntN(n)
	src, dst := make([][]byte, n), make([][]byte, n)
	for r := range n {
		src[r], dst[r] = x.buffer(r, count, w, odd), x.buffer(r, count, w, odd)
	}

	copy(dst[root], whole)
	call := x.call(protocol.Broadcast, element.None, element.U8, count)
	x.all(func(c *Comm) error { return c.Broadcast(ctx, call, dst[c.rank], root) })
	for r := range n {
		x.same("broadcast of "+what, r, dst[r], whole)
		clear(dst[r])
	}

	mine := func(r int, in [][]byte) []byte {
		if inPlace {
			return parts[r].Of(in[r])
		}
		return src[r][:counts[r]]
	}
	for r := range n {
		copy(mine(r, dst), parts[r].Of(whole))
	}
	call = x.call(protocol.AllGather, element.None, element.U8, count)
	x.all(func(c *Comm) error { return c.AllGather(ctx, call, dst[c.rank], mine(c.rank, dst), counts) })
	for r := range n {
		x.same("all-gather of "+what, r, dst[r], whole)
		clear(dst[r])
	}
	for r := range n {
		copy(mine(r, dst), parts[r].Of(whole))
	}
	call = x.call(protocol.Gather, element.None, element.U8, count)
	x.all(func(c *Comm) error { return c.Gather(ctx, call, dst[c.rank], mine(c.rank, dst), counts, root) })
	x.same("gather of "+what, root, dst[root], whole)
	clear(dst[root])

	copy(src[root], whole)
	into := func(r int) []byte {
		if inPlace && r == root {
			return parts[r].Of(src[r])
		}
		return dst[r][:counts[r]]
	}
	call = x.call(protocol.Scatter, element.None, element.U8, count)
	x.all(func(c *Comm) error { return c.Scatter(ctx, call, into(c.rank), src[c.rank], counts, root) })
	for r := range n {
		x.same("scatter of "+what, r, into(r), parts[r].Of(whole))
	}
	x.free(w, odd, src, dst)
}

// exchange tries all-to-all with uneven counts of about count bytes a rank.
func (x *table) exchanging(count int, inPlace bool, w where, odd int) {
	x.t.Helper()
	n := len(x.cs)
	send := make([][]int, n)
	for r := range n {
		send[r] = x.uneven(count, 1)
	}
	if inPlace { // what is received must lie where what is sent does
		for r := range n {
			for q := range n {
				send[r][q] = count / n
			}
		}
	}
	src, dst, want, recv := make([][]byte, n), make([][]byte, n), make([][]byte, n), make([][]int, n)
	input := make([][]byte, n)
	for r := range n {
		total := protocol.Packed(send[r])[n-1].End()
		input[r] = fill(x.rng, element.U8, total)
		src[r] = x.buffer(r, total, w, odd)
		copy(src[r], input[r])
	}
	for r := range n {
		for q := range n {
			recv[r] = append(recv[r], send[q][r])
			want[r] = append(want[r], protocol.Packed(send[q])[r].Of(input[q])...)
		}
		if dst[r] = src[r]; !inPlace {
			dst[r] = x.buffer(r, len(want[r]), w, odd)
		}
	}
	call := x.call(protocol.AllToAll, element.None, element.U8, 0)
	x.all(func(c *Comm) error {
		return c.AllToAll(ctx, call, dst[c.rank], src[c.rank], send[c.rank], recv[c.rank])
	})
	for r := range n {
		x.same(fmt.Sprintf("all-to-all of %d bytes %v in place %v", count, w, inPlace), r, dst[r], want[r])
	}
	x.free(w, odd, src)
	if !inPlace {
		x.free(w, odd, dst)
	}
}

func TestConformance(t *testing.T) {
	rng := seeded(t)
	cases := 0
	for _, ranks := range []int{1, 2, 3, 4, 7} {
		for _, fold := range []protocol.Fold{nil, {(ranks + 1) / 2, ranks / 2}} {
			if fold.Check(ranks) != nil || fold.Plain() && fold != nil {
				continue
			}
			// Small slots make many pieces of few bytes.
			for _, o := range []*Options{{Fold: fold}, {Fold: fold, Flat: 1 << 10, Chunk: 4 << 10}, {Fold: fold, Flat: -1, Chunk: 64 * ranks}} {
				x := &table{t: t, rng: rng, cs: comms(t, pipes(t, ranks), o), fold: fold}
				x.every(testing.Short())
				cases += x.cases
				for _, c := range x.cs {
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}

// every tries the table, or a sample of it.
func (x *table) every(sample bool) {
	one := 40
	if sample {
		one = 150
	}
	for w := range wheres {
		for _, inPlace := range []bool{false, true} {
			for _, count := range []int{0, 1, 3, 17, 1000, 65537} {
				for _, op := range element.Reductions() {
					for _, dt := range element.Numeric() {
						if kernel.Supported(op, dt) == nil && x.rng.IntN(one) == 0 {
							x.folding(op, dt, count, inPlace, w, x.rng.IntN(2)*dt.Size())
						}
					}
				}
				if x.rng.IntN(one) < 20 {
					x.moving(count, inPlace, w, x.rng.IntN(2))
					x.exchanging(count, inPlace, w, x.rng.IntN(2))
				}
			}
		}
	}
}
