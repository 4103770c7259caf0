package onehost

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/shm"
)

// shownArena is an arena whose blocks c shows.
func shownArena(t testing.TB, c *Comm) func(n int) []byte {
	t.Helper()
	a, err := shm.NewArena(&shm.ArenaOptions{First: 1 << 20, Segment: shm.Options{Backing: shm.Memfd, PeersRead: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return func(n int) []byte {
		b, err := a.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Release)
		seg, err := a.Segment(b.Handle().Segment)
		if err == nil {
			err = c.Show(seg)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()[:n]
	}
}

// TestShownIsNotStaged asserts that what lies in segments that were shown goes through no
// slot, whatever the call and the number of pieces, and that a segment is handed over
// once.
func TestShownIsNotStaged(t *testing.T) {
	rng := seeded(t)
	for _, n := range []int{2, 3} {
		cs := comms(t, sockets(t, n), nil)
		const size = shownMin + 3*64 + 12 // the slices are not alike
		part := size / 12 * 4
		input, src, dst, all := make([][]byte, n), make([][]byte, n), make([][]byte, n), make([][]byte, n)
		for r, c := range cs {
			room := shownArena(t, c)
			input[r] = fill(rng, element.F32, size/4)
			src[r], dst[r], all[r] = room(size), room(size), room(n*part)
			copy(src[r], input[r])
		}
		want := reference(element.Sum, element.F32, 1, nil, input)
		seq := uint64(0)
		call := func(k protocol.Kind) protocol.Call {
			seq++
			return protocol.Call{Seq: seq, Kind: k, Op: element.Sum, DType: element.F32, Count: size / 4}
		}
		same := func(what string, got, want []byte) {
			t.Helper()
			if !bytes.Equal(got, want) {
				t.Fatalf("%s of %d ranks differs", what, n)
			}
		}
		made := call(protocol.AllReduce)
		eachRank := func(f func(c *Comm) error) { t.Helper(); each(t, cs, f) }
		eachRank(func(c *Comm) error { return c.AllReduce(ctx, made, 1, dst[c.rank], src[c.rank]) })
		for r := range cs {
			same("all-reduce", dst[r], want)
			same("a source", src[r], input[r])
		}
		made = call(protocol.Reduce)
		eachRank(func(c *Comm) error { return c.Reduce(ctx, made, 1, dst[c.rank], src[c.rank], n-1) })
		same("reduce", dst[n-1], want)
		made = call(protocol.Broadcast)
		eachRank(func(c *Comm) error { return c.Broadcast(ctx, made, dst[c.rank], n-1) })
		same("broadcast", dst[0], want)
		counts := make([]int, n)
		for p := range counts {
			counts[p] = part
		}
		made = call(protocol.AllGather)
		eachRank(func(c *Comm) error { return c.AllGather(ctx, made, all[c.rank], src[c.rank][:part], counts) })
		for p := range cs {
			same("all-gather", all[0][p*part:][:part], input[p][:part])
		}
		made = call(protocol.ReduceScatter)
		eachRank(func(c *Comm) error {
			return c.ReduceScatter(ctx, made, 1, dst[c.rank][:part], src[c.rank][:n*part], counts)
		})
		for p := range cs {
			same("reduce-scatter", dst[p][:part], want[p*part:][:part])
		}
		made = call(protocol.AllToAll)
		eachRank(func(c *Comm) error {
			return c.AllToAll(ctx, made, dst[c.rank][:n*part], src[c.rank][:n*part], counts, counts)
		})
		same("all-to-all", dst[n-1][:part], input[0][(n-1)*part:][:part])
		made = call(protocol.AllReduce)
		eachRank(func(c *Comm) error { return c.AllReduce(ctx, made, 1, src[c.rank], src[c.rank]) })
		for r, c := range cs {
			same("all-reduce in place", src[r], want)
			if s := c.Stats(); s.Staged != 0 || s.Direct < 6 {
				t.Errorf("rank %d of %d: %d calls staged, %d direct of %d, expected none staged", r, n, s.Staged, s.Direct, s.Calls)
			}
			if handed := len(*c.memory.handed.Load()); handed > 4 {
				t.Errorf("rank %d handed over %d segments", r, handed)
			}
		}
	}
}

// TestShownIsReadOnly: what is shown is mapped so that it can't be stored to, and a peer
// that says it could is not believed.
func TestShownIsReadOnly(t *testing.T) {
	cs := comms(t, sockets(t, 2), nil)
	mine := shownArena(t, cs[1])(64 << 10)
	theirs, err := cs[0].Alloc(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	bufs := [][]byte{theirs, mine}
	(*cs[1].memory.handed.Load())[0].flag = 0 // as a rank would that lies
	call := protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.U8, Count: 64 << 10}
	errs := tryEach(cs, func(c *Comm) error { return c.AllReduce(ctx, call, 1, bufs[c.rank], bufs[c.rank]) })
	if !errors.Is(errs[0], protocol.ErrPeerLost) {
		t.Errorf("%v, expected %v", errs[0], protocol.ErrPeerLost)
	}
	if errs[1] == nil {
		t.Error("no error on the rank that lied")
	}
}

// TestShowRefusesWhatCanShrink shows a segment of a file system.
func TestShowRefusesWhatCanShrink(t *testing.T) {
	c := comms(t, pipes(t, 1), nil)[0]
	seg, err := shm.Create(4096, &shm.Options{Backing: shm.Tmpfs, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer seg.Close()
	if err := c.Show(seg); !errors.Is(err, protocol.ErrBadCall) {
		t.Errorf("%v, expected %v", err, protocol.ErrBadCall)
	}
}
