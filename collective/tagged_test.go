package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/tagged"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
)

var taggedSeed = flag.Uint64("tagged.seed", 0, "the seed of TestTaggedRandom; 0: 1, 2, 3")

// message fills the k-th message of a lane.
func message(buf []int32, from, to int, tag uint32, k int) []int32 {
	for i := range buf {
		buf[i] = int32(((from*8+to)*64+int(tag))*64 + k + i*7)
	}
	return buf
}

// TestTagged: every pair of ranks, oneself too, has several lanes of messages of several
// lengths. All receives are started before any send, and the lanes are used in another
// order than they were started.
func TestTagged(t *testing.T) {
	lengths := []int{0, 1, 1000, 8192, 8193, 300000}
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			me := g.Rank()
			var works []*Work
			var check []func() error
			for other := range g.Size() {
				for tag := range uint32(3) {
					for k, n := range lengths {
						in := make([]int32, n)
						w := RecvTagAsync(ctx, g, in, other, tag)
						works = append(works, w)
						check = append(check, func() error {
							if want := message(make([]int32, n), other, me, tag, k); !slices.Equal(in, want) || w.From() != other {
								return fmt.Errorf("message %d of lane %d from %d, says %d: %.20v, want %.20v", k, tag, other, w.From(), in, want)
							}
							return nil
						})
					}
				}
			}
			if me == 1 {
				for other := range g.Size() {
					for tag := range uint32(3) {
						for k, n := range lengths {
							works = append(works, SendTagAsync(ctx, g, message(make([]int32, n), me, other, 2-tag, k), other, 2-tag))
						}
					}
				}
			} else {
				for k, n := range lengths {
					for other := range g.Size() {
						for tag := range uint32(3) {
							if err := SendTag(ctx, g, message(make([]int32, n), me, other, tag, k), other, tag); err != nil {
								return err
							}
						}
					}
				}
			}
			for _, w := range slices.Backward(works) {
				if err := w.Wait(ctx); err != nil {
					return err
				}
			}
			var errs []error
			for _, f := range check {
				errs = append(errs, f())
			}
			return errors.Join(errs...)
		})
	})
}

// TestTaggedApart: a receive that waits holds up neither calls of the group nor sends and
// receives in order, nor other lanes, and a long message that is not received holds up no
// other.
func TestTaggedApart(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			before, after := (g.Rank()+3)%4, (g.Rank()+1)%4
			last, long := []int32{0}, make([]int32, 1<<20)
			first := RecvTagAsync(ctx, g, last, before, 1)
			sent := SendTagAsync(ctx, g, message(make([]int32, 1<<20), g.Rank(), after, 2, 0), after, 2)
			x := []int64{1}
			for range 50 {
				x[0] = 1
				if err := AllReduce(ctx, g, x, x, Sum); err != nil || x[0] != 4 {
					return fmt.Errorf("sum %d: %w", x[0], err)
				}
				in, out := make([]int32, 20000), message(make([]int32, 20000), g.Rank(), after, 3, 0)
				if err := SendRecv(ctx, g, out, after, in, before); err != nil || in[5] != message(make([]int32, 6), before, g.Rank(), 3, 0)[5] {
					return fmt.Errorf("in order: %d: %w", in[5], err)
				}
				w := RecvTagAsync(ctx, g, in, before, 3)
				if err := errors.Join(SendTag(ctx, g, out, after, 3), w.Wait(ctx)); err != nil {
					return err
				}
			}
			if first.Err() != nil || first.From() != AnyRank || sent.From() != AnyRank {
				return fmt.Errorf("a receive and a send are over before their message: %v", first.Err())
			}
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			if _, err := RecvTag(ctx, g, long, before, 2); err != nil || !slices.Equal(long, message(make([]int32, 1<<20), before, g.Rank(), 2, 0)) {
				return fmt.Errorf("the long message: %.9v %w", long, err)
			}
			return errors.Join(sent.Wait(ctx), SendTag(ctx, g, []int32{7}, after, 1), first.Wait(ctx))
		})
	})
}

// TestTaggedAnyRank: receives from any rank take of the messages that are there one of
// each rank in turn, and one that was posted before one from a rank comes first.
func TestTaggedAnyRank(t *testing.T) {
	const each = 20
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			x := []int32{0}
			if g.Rank() > 0 {
				for k := range each {
					if err := SendTag(ctx, g, []int32{int32(k)}, 0, 1); err != nil {
						return err
					}
				}
				if err := SendTag(ctx, g, x, 0, 2); err != nil {
					return err
				}
				if _, err := RecvTag(ctx, g, x, 0, 3); err != nil || g.Rank() != 2 {
					return err
				}
				return errors.Join(SendTag(ctx, g, []int32{1}, 0, 4), SendTag(ctx, g, []int32{2}, 0, 4))
			}
			for r := 1; r < 4; r++ { // then all messages before these have come
				if _, err := RecvTag(ctx, g, x, r, 2); err != nil {
					return err
				}
			}
			got := make([]int, 4)
			for range 3 * each {
				from, err := RecvTag(ctx, g, x, AnyRank, 1)
				if err != nil {
					return err
				}
				if int(x[0]) != got[from] {
					return fmt.Errorf("message %d of rank %d, expected %d", x[0], from, got[from])
				}
				got[from]++
				if most, least := slices.Max(got[1:]), slices.Min(got[1:]); most > least+1 {
					return fmt.Errorf("messages taken of each rank: %v", got)
				}
			}
			a, b := []int32{0}, []int32{0}
			first, second := RecvTagAsync(ctx, g, a, AnyRank, 4), RecvTagAsync(ctx, g, b, 2, 4)
			for r := 1; r < 4; r++ {
				if err := SendTag(ctx, g, x, r, 3); err != nil {
					return err
				}
			}
			if err := errors.Join(first.Wait(ctx), second.Wait(ctx)); err != nil || a[0] != 1 || b[0] != 2 || first.From() != 2 {
				return fmt.Errorf("from %d: %d, then %d: %w", first.From(), a[0], b[0], err)
			}
			return nil
		})
	})
}

// TestTaggedRandom runs random programs: every rank starts the messages of all its lanes
// in an order of its own, waits now and then, and makes calls of the group in between.
func TestTaggedRandom(t *testing.T) {
	seeds := []uint64{1, 2, 3}
	if *taggedSeed != 0 {
		seeds = []uint64{*taggedSeed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			onEach(t, nil, func(t *testing.T, groups []*Group) {
				ctx := hangGuard(t)
				all(t, groups, func(g *Group) error { return taggedProgram(ctx, g, seed) })
			})
		})
	}
}

// taggedProgram is a rank's part of a random program. Its messages follow from the seed.
func taggedProgram(ctx context.Context, g *Group, seed uint64) error {
	type lane struct {
		from, to int
		tag      uint32
		lengths  []int
		next     int
	}
	common := rand.New(rand.NewPCG(seed, 1))
	var mine []*lane
	for from := range g.Size() {
		for to := range g.Size() {
			for tag := range uint32(3) {
				l := &lane{from: from, to: to, tag: tag}
				for range common.IntN(12) {
					l.lengths = append(l.lengths, []int{0, 3, 8000, 9000, 70000}[common.IntN(5)]+common.IntN(50))
				}
				if from == g.Rank() {
					mine = append(mine, l)
				}
				if to == g.Rank() {
					mine = append(mine, &lane{from: from, to: to, tag: tag | 1<<31, lengths: l.lengths})
				}
			}
		}
	}
	own := rand.New(rand.NewPCG(seed, uint64(g.Rank())+2))
	var works []*Work
	var checks []func() error
	barriers := 4
	for steps := 1; len(mine) > 0; steps++ {
		if steps%32 == 0 && barriers > 0 {
			barriers--
			if err := g.Barrier(ctx); err != nil {
				return err
			}
		}
		i := own.IntN(len(mine))
		l := mine[i]
		if l.next == len(l.lengths) {
			mine = slices.Delete(mine, i, i+1)
			continue
		}
		k, n, tag := l.next, l.lengths[l.next], l.tag&^(1<<31)
		l.next++
		want := message(make([]int32, n), l.from, l.to, tag, k)
		if l.tag == tag {
			works = append(works, SendTagAsync(ctx, g, want, l.to, tag))
			continue
		}
		in := make([]int32, n)
		works = append(works, RecvTagAsync(ctx, g, in, l.from, tag))
		checks = append(checks, func() error {
			if !slices.Equal(in, want) {
				return fmt.Errorf("message %d of lane %d from %d: %.20v, want %.20v", k, tag, l.from, in, want)
			}
			return nil
		})
	}
	for _, w := range works {
		if err := w.Wait(ctx); err != nil {
			return err
		}
	}
	for _, f := range checks {
		if err := f(); err != nil {
			return err
		}
	}
	for ; barriers > 0; barriers-- {
		if err := g.Barrier(ctx); err != nil {
			return err
		}
	}
	return nil
}

// TestTaggedErrors: what goes wrong in a lane ends the group on all ranks, with an error
// that names the rank at fault.
func TestTaggedErrors(t *testing.T) {
	for name, c := range map[string]struct {
		sentinel error
		blamed   int
		call     string                                       // of rank 0
		run      [3]func(ctx context.Context, g *Group) error // rank 3 waits in a barrier
	}{
		"length": {ErrMismatch, -1, "recv f32 x 4 from 1, tag 5", [3]func(ctx context.Context, g *Group) error{
			func(ctx context.Context, g *Group) error {
				_, err := RecvTag(ctx, g, make([]float32, 4), 1, 5)
				return err
			},
			func(ctx context.Context, g *Group) error {
				return errors.Join(SendTag(ctx, g, make([]float32, 5), 0, 5), g.Barrier(ctx))
			},
			func(ctx context.Context, g *Group) error { return g.Barrier(ctx) },
		}},
		"dtype": {ErrMismatch, -1, "recv f32 x 40000 from any rank, tag 5", [3]func(ctx context.Context, g *Group) error{
			func(ctx context.Context, g *Group) error {
				_, err := RecvTag(ctx, g, make([]float32, 40000), AnyRank, 5)
				return err
			},
			func(ctx context.Context, g *Group) error { return SendTag(ctx, g, make([]int32, 40000), 0, 5) },
			func(ctx context.Context, g *Group) error { return g.Barrier(ctx) },
		}},
		"context": {ErrAborted, 1, "recv u8 x 1 from 1, tag 0", [3]func(ctx context.Context, g *Group) error{
			func(ctx context.Context, g *Group) error {
				_, err := RecvTag(ctx, g, make([]byte, 1), 1, 0)
				return err
			},
			func(ctx context.Context, g *Group) error {
				ctx, cancel := context.WithCancelCause(ctx)
				cancel(errors.New("enough"))
				return SendTag(ctx, g, make([]byte, 1), 2, 0)
			},
			func(ctx context.Context, g *Group) error {
				_, err := RecvTag(ctx, g, make([]byte, 1), 0, 3)
				return err
			},
		}},
		"left": {ErrPeerLost, 1, "recv u8 x 1 from 1, tag 0", [3]func(ctx context.Context, g *Group) error{
			func(ctx context.Context, g *Group) error {
				_, err := RecvTag(ctx, g, make([]byte, 1), 1, 0)
				return err
			},
			func(ctx context.Context, g *Group) error {
				err := g.Close()
				if err == nil {
					err = SendTag(ctx, g, make([]byte, 1), 0, 0)
				}
				return err
			},
			func(ctx context.Context, g *Group) error {
				return SendTag(ctx, g, make([]byte, 1<<20), 1, 0)
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, nil, func(t *testing.T, groups []*Group) {
				ctx := hangGuard(t)
				for r, err := range each(groups, func(g *Group) error {
					if g.Rank() == 3 {
						return g.Barrier(ctx)
					}
					return c.run[g.Rank()](ctx, g)
				}) {
					if name == "left" && r == 1 {
						if err == nil || !strings.Contains(err.Error(), "closed") {
							t.Errorf("rank 1 sends on a closed group: %v", err)
						}
						continue
					}
					e := asError(t, r, err)
					if name == "context" && r == 1 {
						if !strings.Contains(err.Error(), "enough") {
							t.Errorf("rank 1: %v", err)
						}
						continue
					}
					if !errors.Is(err, c.sentinel) || c.blamed >= 0 && e.Rank != c.blamed || r == 0 && e.Call != c.call {
						t.Errorf("rank %d blames %d: %v", r, e.Rank, err)
					}
					checkWords(t, r, e)
				}
			})
		})
	}
}

// TestTaggedFlood: a rank that offers messages without end ends the group, with an error
// that names it and the bound.
func TestTaggedFlood(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		for r, err := range each(groups, func(g *Group) error {
			if g.Rank() != 1 {
				_, err := RecvTag(ctx, g, make([]byte, 1), 1, 0)
				return err
			}
			call := protocol.Call{Seq: 1, Kind: protocol.Send, DType: element.U8, Count: 1 << 20}
			for id := uint64(1); g.Err() == nil; {
				offer := call.Append(binary.LittleEndian.AppendUint64(make([]byte, 8), id))
				binary.LittleEndian.PutUint32(offer, uint32(id))
				if g.control.taps[0].Post(tagged.Offer, offer, nil) == nil {
					id++
				}
			}
			return g.Barrier(ctx)
		}) {
			e := asError(t, r, err)
			if want := fmt.Sprintf("%d messages that no receive waits for", tagged.OfferMax); !errors.Is(err, ErrPeerLost) || e.Rank != 1 || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d blames %d: %v", r, e.Rank, err)
			}
		}
	})
}

// TestTaggedLeft: a rank that closes its group ends the sends and receives that need it,
// though no call is under way, and leaves what it had sent.
func TestTaggedLeft(t *testing.T) {
	for name, need := range map[string]func(ctx context.Context, g *Group) error{
		"receive": func(ctx context.Context, g *Group) error {
			_, err := RecvTag(ctx, g, make([]byte, 1), 1, 0)
			return err
		},
		"receive from any": func(ctx context.Context, g *Group) error {
			return RecvTagAsync(ctx, g, make([]byte, 1), AnyRank, 0).Wait(ctx)
		},
		"send": func(ctx context.Context, g *Group) error { return SendTag(ctx, g, make([]byte, 1<<20), 1, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			groups, err := Local(2, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(t, groups)
			ctx := hangGuard(t)
			x := make([]byte, 1)
			all(t, groups, func(g *Group) error {
				if g.Rank() == 1 {
					return errors.Join(SendTag(ctx, g, []byte{8}, 0, 9), g.Close())
				}
				if e := asError(t, 0, need(ctx, g)); !errors.Is(e, ErrPeerLost) || e.Rank != 1 {
					return e
				}
				return nil
			})
			if groups, err = Local(2, nil); err != nil {
				t.Fatal(err)
			}
			defer closeAll(t, groups)
			all(t, groups, func(g *Group) error {
				if g.Rank() == 1 {
					return errors.Join(SendTag(ctx, g, []byte{8}, 0, 9), g.Close())
				}
				left := func() bool { return g.left.Load() != nil }
				if err := g.control.await(ctx, left); err != nil {
					return err
				}
				_, err := RecvTag(ctx, g, x, 1, 9)
				return err
			})
			if x[0] != 8 {
				t.Errorf("received %d", x[0])
			}
		})
	}
}

// TestTaggedLate: of ranks that wait for each other in lanes, the one that waits for none
// is late.
func TestTaggedLate(t *testing.T) {
	onEach(t, &Options{Linger: -1}, func(t *testing.T, groups []*Group) {
		for _, g := range groups {
			g.options.Timeout = 300 * time.Millisecond // not for the joining
		}
		ctx := hangGuard(t)
		ended := make(chan struct{})
		for r, err := range each(groups, func(g *Group) error {
			switch g.Rank() {
			case 0:
				_, err := RecvTag(ctx, g, make([]byte, 1), 1, 7)
				close(ended)
				return err
			case 1:
				w := RecvTagAsync(ctx, g, make([]byte, 1), 2, 7)
				return w.Wait(ctx)
			case 2:
				<-ended
				return g.Barrier(ctx)
			}
			_, err := RecvTag(ctx, g, make([]byte, 1), 2, 9)
			return err
		}) {
			e := asError(t, r, err)
			if !errors.Is(err, ErrTimeout) || e.Rank != 2 {
				t.Errorf("rank %d blames %d: %v", r, e.Rank, err)
			}
		}
	})
	groups, err := Local(2, &Options{Linger: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	groups[0].options.Timeout = 100 * time.Millisecond // not for the joining
	_, err = RecvTag(hangGuard(t), groups[0], make([]byte, 1), AnyRank, 3)
	if e := asError(t, 0, err); !errors.Is(err, ErrTimeout) || e.Rank != 1 || !strings.HasSuffix(err.Error(), "no rank sent with tag 3") {
		t.Error(err)
	}
}

// TestTaggedAnyRankLate: where no rank of several sends, the error names none of them but
// one that does not answer.
func TestTaggedAnyRankLate(t *testing.T) {
	for _, want := range []struct {
		silent bool
		rank   int
		text   string
	}{{false, 0, "no rank sent with tag 3"}, {true, 2, "rank 2 is not answering"}} {
		groups, err := Local(3, &Options{Linger: -1})
		if err != nil {
			t.Fatal(err)
		}
		groups[0].options.Timeout = 100 * time.Millisecond // not for the joining
		answers := &groups[2].control.mu
		if want.silent {
			answers.Lock()
		}
		_, err = RecvTag(hangGuard(t), groups[0], make([]byte, 1), AnyRank, 3)
		if want.silent {
			answers.Unlock()
		}
		if e := asError(t, 0, err); !errors.Is(err, ErrTimeout) || e.Rank != want.rank || !strings.HasSuffix(err.Error(), want.text) {
			t.Errorf("a rank is silent: %v; %v", want.silent, err)
		}
		closeAll(t, groups)
	}
}

// TestTaggedArguments: wrong arguments are refused, and the group works on.
func TestTaggedArguments(t *testing.T) {
	groups, err := Local(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	ctx, g := hangGuard(t), groups[0]
	_, from := RecvTag(ctx, g, make([]byte, 1), 2, 0)
	for name, err := range map[string]error{
		"to any rank":  SendTag(ctx, g, make([]byte, 1), AnyRank, 0),
		"to no rank":   SendTagAsync(ctx, g, make([]byte, 1), 7, 0).Err(),
		"from no rank": from,
	} {
		if !errors.Is(err, ErrRank) {
			t.Errorf("%s: %v", name, err)
		}
	}
	x := []int32{5}
	if err := errors.Join(SendTag(ctx, g, []int32{9}, 0, 1<<32-1), RecvTagAsync(ctx, g, x, AnyRank, 1<<32-1).Wait(ctx)); err != nil || x[0] != 9 {
		t.Errorf("to oneself: %d %v", x[0], err)
	}
}

// TestTaggedSmallQueues: long messages pass through conns whose queues are shorter than a
// piece.
func TestTaggedSmallQueues(t *testing.T) {
	ctx := hangGuard(t)
	dir := t.TempDir()
	o := &ipc.Options{RingBytes: ipc.MinRingBytes}
	l, err := local.Transport{}.Listen(dir+"/x", o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conns := make([]ipc.Conn, 2)
	if conns[0], err = (local.Transport{}).Dial(ctx, l.Addr(), o); err != nil {
		t.Fatal(err)
	}
	if conns[1], err = l.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	groups := make([]*Group, 2)
	errs := make(chan error, 2)
	for r := range groups {
		go func() {
			members := []route.Member{{Host: "here"}, {Host: "here"}}
			members[1-r].Conn = conns[r]
			var err error
			groups[r], err = New(ctx, r, members, nil)
			errs <- err
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	all(t, groups, func(g *Group) error {
		in, out := make([]int32, 100000), message(make([]int32, 100000), g.Rank(), 1-g.Rank(), 0, 0)
		w := RecvTagAsync(ctx, g, in, 1-g.Rank(), 0)
		if err := errors.Join(SendTag(ctx, g, out, 1-g.Rank(), 0), w.Wait(ctx)); err != nil {
			return err
		}
		if !slices.Equal(in, message(make([]int32, 100000), 1-g.Rank(), g.Rank(), 0, 0)) {
			return fmt.Errorf("received %.20v", in)
		}
		return nil
	})
}
