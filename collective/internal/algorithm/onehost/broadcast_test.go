package onehost

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// broadcastCall is the seq-th call, a broadcast of n bytes.
func broadcastCall(seq uint64, n, root int) protocol.Call {
	return protocol.Call{Seq: seq, Kind: protocol.Broadcast, DType: element.U8, Count: int64(n), Root: int32(root)}
}

// TestRootGoesOn: the root of as many broadcasts as there is place for has returned from
// all before another rank has come to the first.
func TestRootGoesOn(t *testing.T) {
	for ranks := 2; ranks <= 4; ranks++ {
		cs := comms(t, pipes(t, ranks), nil)
		root := cs[ranks-1]
		sizes := []int{0, 1, entryText, entryText + 1, 100, root.flat}
		if room := roomBytes(root.spread); ranks > 2 {
			sizes = append(sizes, root.spread, room-root.spread-root.flat-256)
			if sizes[7] > root.spread {
				sizes[7] = root.spread
			}
		}
		var bufs [][]byte
		for i := range entries {
			bufs = append(bufs, bytes.Repeat([]byte{byte(i + 1)}, sizes[i%len(sizes)]))
			if i >= len(sizes) && len(bufs[i]) > 100 {
				bufs[i] = bufs[i][:100]
			}
		}
		done := make(chan error, 1)
		go func() {
			var err error
			for i, b := range bufs {
				mine := bytes.Clone(b)
				if err == nil {
					err = root.Broadcast(ctx, broadcastCall(uint64(i), len(b), root.rank), mine, root.rank)
				}
				clear(mine) // it is the caller's again
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(hang):
			t.Fatalf("%d ranks: the root waits for those that are not there", ranks)
		}
		each(t, cs[:ranks-1], func(c *Comm) error {
			for i, b := range bufs {
				got := make([]byte, len(b))
				if err := c.Broadcast(ctx, broadcastCall(uint64(i), len(b), root.rank), got, root.rank); err != nil {
					return err
				}
				if !bytes.Equal(got, b) {
					return fmt.Errorf("broadcast %d of %d bytes is another", i, len(b))
				}
			}
			return nil
		})
		if epoch := root.epoch; epoch != 0 {
			t.Errorf("%d ranks: %d meetings, expected none", ranks, epoch)
		}
	}
}

// TestBoardIsUsedAgain makes more broadcasts in a row than a board has places and room
// for, of all roots, registered and not, and meetings and messages between them as a seed
// will have it; ranks dawdle.
func TestBoardIsUsedAgain(t *testing.T) {
	seed := seeded(t).Uint64()
	for ranks := 1; ranks <= 4; ranks++ {
		cs := comms(t, pipes(t, ranks), &Options{Flat: 128, Chunk: 1024})
		calls := 1500
		if testing.Short() {
			calls = 500
		}
		each(t, cs, func(c *Comm) error {
			rng, own := rand.New(rand.NewPCG(seed, 2)), rand.New(rand.NewPCG(seed, uint64(c.rank)))
			registered, err := c.Alloc(4 << 10)
			if err != nil {
				return err
			}
			private, sum, want := make([]byte, 4<<10), make([]byte, 4<<10), make([]byte, 4<<10)
			for seq := range uint64(calls) {
				kind, root, given, length := rng.IntN(12), rng.IntN(ranks), rng.IntN(2), rng.IntN(3)
				n := rng.IntN([]int{40, 600, 4 << 10}[length])
				for range own.IntN(4) {
					runtime.Gosched()
				}
				buf := private[:n]
				// where readers have it is theirs to choose
				if given == 0 || own.IntN(3) == 0 && c.rank != root {
					buf = registered[:n]
				}
				for i := range want[:n] {
					want[i] = byte(int(seq) + i)
				}
				var err error
				switch call := broadcastCall(seq, n, root); {
				case kind == 0:
					err = c.Barrier(ctx, protocol.Call{Seq: seq, Kind: protocol.Barrier})
					buf, n = nil, 0
				case kind == 1:
					call = protocol.Call{Seq: seq, Kind: protocol.AllReduce, Op: element.Max, DType: element.U8, Count: int64(n)}
					copy(buf, want[:n])
					err = c.AllReduce(ctx, call, 1, sum[:n], buf)
				case kind == 2 && ranks > 1: // to the next in the circle
					call = protocol.Call{Seq: seq, Kind: protocol.Send, DType: element.U8, Count: int64(n)}
					if err = c.Send(ctx, call, (c.rank+1)%ranks, want[:n]); err == nil {
						err = c.Recv(ctx, call, (c.rank+ranks-1)%ranks, buf)
					}
				default:
					if clear(buf); c.rank == root {
						copy(buf, want[:n])
					}
					err = c.Broadcast(ctx, call, buf, root)
				}
				if err != nil {
					return fmt.Errorf("call %d: %w", seq, err)
				}
				if !bytes.Equal(buf, want[:n]) {
					return fmt.Errorf("call %d, of kind %d and %d bytes from %d: other bytes", seq, kind, n, root)
				}
			}
			return nil
		})
		if s := cs[0].Stats(); ranks > 1 && (s.Small == 0 || s.Direct == 0 || s.Staged == 0) {
			t.Errorf("%d ranks: %+v, expected calls of all ways", ranks, s)
		}
	}
}

// TestElsewhere has one rank in another call while the others are in a broadcast, small,
// in the room, registered and staged: a rank that waits, and the others in their next
// call at the latest, learn which rank differs and how.
func TestElsewhere(t *testing.T) {
	const ranks = 3
	others := map[string]func(c *protocol.Call){
		"barrier": func(c *protocol.Call) { *c = protocol.Call{Seq: c.Seq, Kind: protocol.Barrier} },
		"root":    func(c *protocol.Call) { c.Root = 2 },
		"own":     func(c *protocol.Call) { c.Root = 1 },
		"count":   func(c *protocol.Call) { c.Count++ },
		"large":   func(c *protocol.Call) { c.Count += 1 << 20 },
		"type":    func(c *protocol.Call) { c.DType = element.I32 },
		"reduce": func(c *protocol.Call) {
			*c = protocol.Call{Seq: c.Seq, Kind: protocol.AllReduce, Op: element.Sum, DType: element.U8, Count: c.Count}
		},
		"late": func(c *protocol.Call) { c.Seq++ },
	}
	for name, change := range others {
		for odd := range 2 { // the root, a reader
			for _, n := range []int{4, 1000, 300_000} {
				for _, registered := range []bool{true, false} {
					if name == "own" && odd == 0 || name == "root" && odd == 2 {
						continue
					}
					t.Run(fmt.Sprintf("%s/%d/%d/%v", name, odd, n, registered), func(t *testing.T) {
						cs := comms(t, pipes(t, ranks), nil)
						call := broadcastCall(3, n, 0)
						other := call
						change(&other)
						if call == other {
							t.Fatal("nothing differs")
						}
						for r, err := range tryEach(cs, func(c *Comm) error {
							for seq := range uint64(3) { // some that go well
								if err := c.do(ctx, broadcastCall(seq, 10, int(seq))); err != nil {
									return err
								}
							}
							mine := call
							if c.rank == odd {
								mine = other
							}
							err := error(nil)
							if mine.Kind == protocol.Broadcast && registered {
								var buf []byte
								if buf, err = c.Alloc(int(mine.Count) * mine.DType.Size()); err == nil {
									err = c.Broadcast(ctx, mine, buf, int(mine.Root))
								}
							} else {
								err = c.do(ctx, mine)
							}
							if err == nil {
								err = c.Barrier(ctx, protocol.Call{Seq: mine.Seq + 1, Kind: protocol.Barrier})
							}
							return err
						}) {
							var pe *protocol.PeerError
							if !errors.Is(err, protocol.ErrMismatch) || !errors.As(err, &pe) || pe.Rank == r {
								t.Errorf("rank %d: %v, expected a mismatch with another", r, err)
								continue
							}
							if text := err.Error(); r == odd && !strings.Contains(text, "#") {
								t.Errorf("rank %d: %q names no call", r, text)
							}
						}
					})
				}
			}
		}
	}
}

// TestBroadcastOfTheDead: what the root gave before it left is there for ranks that come
// later; what it did not give is an error that names it.
func TestBroadcastOfTheDead(t *testing.T) {
	cs := comms(t, pipes(t, 3), nil)
	want := []byte("the last word")
	if err := cs[0].Broadcast(ctx, broadcastCall(1, len(want), 0), want, 0); err != nil {
		t.Fatal(err)
	}
	if err := cs[0].Close(); err != nil {
		t.Fatal(err)
	}
	for r, err := range tryEach(cs[1:], func(c *Comm) error {
		got := make([]byte, len(want))
		if err := c.Broadcast(ctx, broadcastCall(1, len(want), 0), got, 0); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("it got %q: %v", got, err)
		}
		err := c.Broadcast(ctx, broadcastCall(2, len(want), 0), got, 0)
		var pe *protocol.PeerError
		if !errors.As(err, &pe) || !errors.Is(err, protocol.ErrPeerLost) || pe.Rank != 0 {
			return fmt.Errorf("of a broadcast that nobody made: %w", err)
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r+1, err)
		}
	}
}

// TestReadersLate: a root that gives what is read where it lies names those that do not
// come.
func TestReadersLate(t *testing.T) {
	cs := comms(t, pipes(t, 3), nil)
	cs[0].timeout = 300 * time.Millisecond // from now on
	buf, err := cs[0].Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	buf[1<<20-1] = 7
	errs := tryEach(cs[:2], func(c *Comm) error {
		mine := buf
		if c.rank == 1 {
			mine = make([]byte, 1<<20)
		}
		err := c.Broadcast(ctx, broadcastCall(1, 1<<20, 0), mine, 0)
		if c.rank == 1 && err == nil && mine[1<<20-1] != 7 {
			return errors.New("other bytes")
		}
		return err
	})
	var pe *protocol.PeerError
	if !errors.Is(errs[0], protocol.ErrTimeout) || !errors.As(errs[0], &pe) || len(pe.Missing) != 1 || pe.Missing[0] != 2 {
		t.Errorf("the root: %v", errs[0])
	}
	if errs[1] != nil && !errors.Is(errs[1], protocol.ErrTimeout) {
		t.Errorf("the reader that came: %v", errs[1])
	}
}
