package crosshost

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// TestBits: 20 runs of one series of calls, in which everything arrives at other times,
// in other pieces and by other algorithms, give the same bits.
func TestBits(t *testing.T) {
	const n = 4
	seed := rand.Uint64()
	t.Log("seed", seed)
	first := make([][]byte, n)
	for run := range 20 {
		rng := rand.New(rand.NewPCG(seed, uint64(run)))
		conns, waiters := mesh(t, n, 100+rng.IntN(5000), rng)
		o := Options{Fold: protocol.Fold{2, 2}, Chunk: 64 << rng.IntN(6), OneShot: rng.IntN(4000)}
		comms := world(t, conns, waiters, o)
		each(t, n, func(ctx context.Context, r int) error {
			got, err := script(ctx, comms[r], o.Fold, seed, 700, []element.DType{element.F32, element.F16, element.BF16, element.F64})
			if run == 0 {
				first[r] = got
			}
			if err == nil && !bytes.Equal(got, first[r]) {
				t.Errorf("rank %d, run %d: other bits", r, run)
			}
			return err
		})
		if t.Failed() {
			t.FailNow()
		}
	}
}

// TestTraffic: what an algorithm moves is what its description says.
func TestTraffic(t *testing.T) {
	const n, s = 4, 1 << 16
	for name, c := range map[string]struct {
		w          calling
		sent, recv [n]uint64 // beside the greetings
	}{
		"all-reduce": {
			calling{call: protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.U8, Count: s}},
			[n]uint64{2 * s * 3 / 4, 2 * s * 3 / 4, 2 * s * 3 / 4, 2 * s * 3 / 4},
			[n]uint64{2 * s * 3 / 4, 2 * s * 3 / 4, 2 * s * 3 / 4, 2 * s * 3 / 4},
		},
		"small all-reduce": {
			calling{call: protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.U8, Count: 8}},
			[n]uint64{24, 24, 24, 24}, [n]uint64{24, 24, 24, 24},
		},
		"broadcast": {
			calling{call: protocol.Call{Kind: protocol.Broadcast, DType: element.U8, Count: 3 * s}, root: 1},
			[n]uint64{2 * s, 3 * s, 2 * s, 2 * s}, [n]uint64{3 * s, 0, 3 * s, 3 * s},
		},
		"reduce": {
			calling{call: protocol.Call{Kind: protocol.Reduce, Op: element.Sum, DType: element.U8, Count: 3 * s}, root: 0},
			[n]uint64{3 * s, 3 * s, 3 * s, 3 * s}, [n]uint64{3 * s, 3 * s, 3 * s, 3 * s},
		},
		"barrier": {calling{call: protocol.Call{Kind: protocol.Barrier}}, [n]uint64{}, [n]uint64{}},
	} {
		comms := fakeWorld(t, n, Options{Chunk: 4096})
		before := make([]Stats, n)
		for r, comm := range comms {
			before[r] = comm.Stats()
		}
		c.w.call.Seq = 1
		each(t, n, func(ctx context.Context, r int) error { return c.w.do(ctx, comms[r]) })
		for r, comm := range comms {
			s := comm.Stats()
			if sent, recv := s.SentBytes-before[r].SentBytes, s.RecvBytes-before[r].RecvBytes; sent != c.sent[r] || recv != c.recv[r] {
				t.Errorf("%s: rank %d sent %d and received %d bytes, expected %d and %d", name, r, sent, recv, c.sent[r], c.recv[r])
			}
		}
	}
}
