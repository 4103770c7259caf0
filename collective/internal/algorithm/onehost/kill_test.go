package onehost

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// worksRole makes all-reduces of many sizes in all kinds of memory, checks them, and says
// "ok".
func worksRole(c *Comm, _ role) error {
	registered, err := c.Alloc(1 << 20)
	if err != nil {
		return err
	}
	seq := uint64(0)
	for _, buf := range [][]byte{registered, make([]byte, 1<<20)} {
		for _, n := range []int{0, 1, 12, 13, 100, 2048, 5000, 1 << 15, 1<<15 + 1, 1 << 18} {
			b := buf[:4*n]
			for i := range n {
				binary.LittleEndian.PutUint32(b[4*i:], uint32(i*(c.rank+1)))
			}
			seq++
			call := protocol.Call{Seq: seq, Kind: protocol.AllReduce, Op: element.Sum, DType: element.I32, Count: int64(n)}
			if err := c.AllReduce(ctx, call, 1, b, b); err != nil {
				return err
			}
			for i := range n {
				if got, want := binary.LittleEndian.Uint32(b[4*i:]), uint32(i*c.n*(c.n+1)/2); got != want {
					return fmt.Errorf("element %d of %d is %d, expected %d", i, n, got, want)
				}
			}
		}
	}
	fmt.Println("ok")
	return nil
}

func TestProcesses(t *testing.T) {
	for _, n := range []int{2, 4, 8} {
		for rank, p := range start(t, n, role{What: "works"}) {
			if err := p.wait(t); err != nil {
				t.Errorf("rank %d of %d: %v", rank, n, err)
			}
			if line := <-p.lines; line != "ok" {
				t.Errorf("rank %d of %d says %q", rank, n, line)
			}
		}
	}
}

// wait returns how the process ended.
func (p *process) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(hang):
		t.Fatal("a process does not end")
		return nil
	}
}

// line is the next that the process prints.
func (p *process) line(t testing.TB) string {
	t.Helper()
	select {
	case s := <-p.lines:
		return s
	case <-time.After(hang):
		t.Fatal("a process says nothing")
		return ""
	}
}

// loopRole says "up", makes calls of all sizes until one fails, and says which error it
// was and when.
func loopRole(c *Comm, r role) error {
	buf, err := c.Alloc(1 << 20)
	if err != nil {
		return err
	}
	private := make([]byte, 1<<20)
	sizes := []int{4, 1 << 10, 1 << 16, 1 << 20, 40, 1 << 18}
	for seq := uint64(1); err == nil; seq++ {
		if seq == 100 {
			fmt.Println("up")
		}
		n := sizes[seq%uint64(len(sizes))]
		b := buf[:n]
		if seq%4 == 0 {
			b = private[:n]
		}
		call := protocol.Call{Seq: seq, Kind: protocol.AllReduce, Op: element.Sum, DType: element.I32, Count: int64(n / 4)}
		switch seq % 5 {
		case 0:
			call.Kind, call.Root = protocol.Broadcast, int32(seq)%int32(c.n)
			err = c.Broadcast(ctx, call, b, int(call.Root))
		case 1:
			call.Kind = protocol.Barrier
			err = c.Barrier(ctx, call)
		default:
			err = c.AllReduce(ctx, call, 1, b, b)
		}
	}
	var pe *protocol.PeerError
	if !errors.As(err, &pe) {
		return err
	}
	kind := "other"
	for name, sentinel := range map[string]error{"lost": protocol.ErrPeerLost, "late": protocol.ErrTimeout} {
		if errors.Is(err, sentinel) {
			kind = name
		}
	}
	fmt.Println(kind, pe.Rank, time.Now().UnixNano(), err)
	return nil
}

// TestKill kills one of four ranks at a random moment, again and again. All others must
// say whom they lost.
func TestKill(t *testing.T) {
	rng := seeded(t)
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	var longest time.Duration
	for range rounds {
		ps := start(t, 4, role{What: "loop"})
		for _, p := range ps {
			if s := p.line(t); s != "up" {
				t.Fatalf("a rank says %q", s)
			}
		}
		victim := rng.IntN(4)
		for began, d := time.Now(), time.Duration(rng.IntN(3000))*time.Microsecond; time.Since(began) < d; {
		}
		killed := time.Now()
		if err := ps[victim].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for rank, p := range ps {
			if rank == victim {
				continue
			}
			s := p.line(t)
			var kind string
			var lost int
			var at int64
			if _, err := fmt.Sscan(s, &kind, &lost, &at); err != nil || kind != "lost" || lost != victim {
				t.Errorf("rank %d, when %d died: %q %v", rank, victim, s, err)
			}
			longest = max(longest, time.Unix(0, at).Sub(killed))
			if err := p.wait(t); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills, the longest until everybody knew took %v", rounds, longest)
}

// TestStop stops one rank: the others give up in time and name it; when it goes on it
// learns that.
func TestStop(t *testing.T) {
	rng := seeded(t)
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		ps := start(t, 3, role{What: "loop", Timeout: 2 * time.Second})
		for _, p := range ps {
			if s := p.line(t); s != "up" {
				t.Fatalf("a rank says %q", s)
			}
		}
		victim := rng.IntN(3)
		if err := ps[victim].Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for rank, p := range ps {
			if rank == victim {
				continue
			}
			if s := p.line(t); !strings.HasPrefix(s, fmt.Sprintf("late %d ", victim)) {
				t.Errorf("rank %d, when %d stood still: %q", rank, victim, s)
			}
			if err := p.wait(t); err != nil {
				t.Error(err)
			}
		}
		if err := ps[victim].Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if s := ps[victim].line(t); !strings.HasPrefix(s, "late") && !strings.HasPrefix(s, "lost") {
			t.Errorf("the one that stood still: %q", s)
		}
		if err := ps[victim].wait(t); err != nil {
			t.Error(err)
		}
	}
}

// TestTiny makes 10,000 calls of alternating sizes and kinds, on two comms in turn.
func TestTiny(t *testing.T) {
	calls := 10_000
	if testing.Short() {
		calls = 2000
	}
	for _, ranks := range []int{2, 3} {
		x := comms(t, pipes(t, ranks), &Options{Chunk: 4 << 10})
		y := comms(t, pipes(t, ranks), &Options{Chunk: 4 << 10})
		sizes := []int{4, 48, 52, 0, 1024, 4096, 8, 20000, 64}
		each(t, x, func(a *Comm) error {
			b := y[a.rank]
			buf, err := a.Alloc(20000)
			if err != nil {
				return err
			}
			for i := range calls {
				c, n := a, sizes[i%len(sizes)]
				if i%7 < 3 {
					c = b // for which the memory is like any other
				}
				for k := 0; k < n; k += 4 {
					binary.LittleEndian.PutUint32(buf[k:], uint32(i+c.rank))
				}
				call := protocol.Call{Seq: uint64(i + 1), Kind: protocol.AllReduce, Op: element.Max, DType: element.I32, Count: int64(n / 4)}
				if err := c.AllReduce(ctx, call, 1, buf[:n], buf[:n]); err != nil {
					return err
				}
				for k := 0; k < n; k += 4 {
					if got := binary.LittleEndian.Uint32(buf[k:]); got != uint32(i+ranks-1) {
						return fmt.Errorf("call %d: element %d of %d is %d, expected %d", i, k/4, n/4, got, i+ranks-1)
					}
				}
			}
			return nil
		})
	}
}

// TestBarrier counts in shared memory which ranks have come.
func TestBarrier(t *testing.T) {
	cs := comms(t, sockets(t, 4), nil)
	shared, err := cs[0].Alloc(4 * 64)
	if err != nil {
		t.Fatal(err)
	}
	each(t, cs, func(c *Comm) error {
		for i := range 500 {
			shared[c.rank*64] = byte(i)
			if err := c.Barrier(ctx, protocol.Call{Seq: uint64(2*i + 1), Kind: protocol.Barrier}); err != nil {
				return err
			}
			for r := range c.n {
				if shared[r*64] != byte(i) {
					return fmt.Errorf("round %d: rank %d was at %d", i, r, shared[r*64])
				}
			}
			if err := c.Barrier(ctx, protocol.Call{Seq: uint64(2*i + 2), Kind: protocol.Barrier}); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestAllocUnderWay allocates and frees, so that segments are made and sent, while calls
// are made.
func TestAllocUnderWay(t *testing.T) {
	cs := comms(t, sockets(t, 3), nil)
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	grown := make(chan error, len(cs))
	for _, c := range cs {
		go func() {
			var err error
			for n := 1 << 18; err == nil && stop.Err() == nil; n = n*3/2 + 1 {
				if n > 3<<20 {
					n = 1 << 18
				}
				var b []byte
				if b, err = c.Alloc(n); err == nil {
					err = c.Free(b)
				}
			}
			grown <- err
		}()
	}
	each(t, cs, func(c *Comm) error {
		for i := range 100 {
			b, err := c.Alloc(10_000 * (1 + i%9))
			if err != nil {
				return err
			}
			for k := range b {
				b[k] = byte(c.rank)
			}
			call := protocol.Call{Seq: uint64(i + 1), Kind: protocol.AllReduce, Op: element.Sum, DType: element.U8, Count: int64(len(b))}
			if err := c.AllReduce(ctx, call, 1, b, b); err != nil {
				return err
			}
			if !bytes.Equal(b, slices.Repeat([]byte{3}, len(b))) {
				return errors.New("a wrong sum")
			}
			// Another rank may not have returned yet, but it is done with this memory.
			if err := c.Free(b); err != nil {
				return err
			}
		}
		return nil
	})
	cancel()
	for range cs {
		if err := <-grown; err != nil {
			t.Error(err)
		}
	}
}
