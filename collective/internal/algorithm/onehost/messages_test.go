package onehost

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

func TestSendRecv(t *testing.T) {
	rng := seeded(t)
	cs := comms(t, sockets(t, 4), nil)
	sizes := []int{0, 5, messageText, messageText + 1, 0, 4096, 1 << 20, 3, 100_001}
	sent := make([][][]byte, 4) // by sender, in order
	for r := range sent {
		for _, n := range sizes {
			sent[r] = append(sent[r], fill(rng, element.U8, n))
		}
	}
	// Every rank sends to all others before one receives.
	each(t, cs, func(c *Comm) error {
		for round := range 3 {
			for i := range sizes[:messages] {
				for p := range c.n {
					if p != c.rank {
						call := protocol.Call{Seq: uint64(round*messages + i + 1), Kind: protocol.Send, DType: element.U8, Count: int64(sizes[i])}
						if err := c.Send(ctx, call, p, sent[c.rank][i]); err != nil {
							return err
						}
					}
				}
			}
			for p := range c.n {
				for i := range sizes[:messages] {
					if p != c.rank {
						call := protocol.Call{Seq: uint64(round*messages + i + 1), Kind: protocol.Recv, DType: element.U8, Count: int64(sizes[i])}
						b := make([]byte, sizes[i])
						if err := c.Recv(ctx, call, p, b); err != nil {
							return err
						}
						if !bytes.Equal(b, sent[p][i]) {
							return errors.New("other bytes")
						}
					}
				}
			}
		}
		return nil
	})
	for _, c := range cs {
		if n := c.memory.arena.Stats().Blocks; n > (len(cs)-1)*messages {
			t.Errorf("rank %d keeps %d blocks", c.rank, n)
		}
	}
}

// TestSendAhead has one rank send far more than there are messages while the other takes
// its time, and both make collectives in between.
func TestSendAhead(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	each(t, cs, func(c *Comm) error {
		for i := range 1000 {
			call := protocol.Call{Seq: uint64(i + 1), Kind: protocol.Send, DType: element.U8, Count: 300}
			b := bytes.Repeat([]byte{byte(i)}, 300)
			if c.rank == 0 {
				if err := c.Send(ctx, call, 1, b); err != nil {
					return err
				}
			} else {
				got := make([]byte, 300)
				call.Kind = protocol.Recv
				if err := c.Recv(ctx, call, 0, got); err != nil || !bytes.Equal(got, b) {
					return errors.Join(err, errors.New("other bytes, or none"))
				}
			}
			if i%100 == 50 {
				if err := c.do(ctx, protocol.Call{Seq: uint64(i), Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 5000}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func TestSendMismatch(t *testing.T) {
	for name, recv := range map[string]struct {
		call protocol.Call
		n    int
	}{
		"count":  {protocol.Call{Seq: 1, Kind: protocol.Recv, DType: element.F32, Count: 2}, 8},
		"dtype":  {protocol.Call{Seq: 1, Kind: protocol.Recv, DType: element.I32, Count: 1}, 4},
		"length": {protocol.Call{Seq: 1, Kind: protocol.Recv, DType: element.F32, Count: 1}, 8},
	} {
		cs := comms(t, pipes(t, 2), nil)
		send := protocol.Call{Seq: 1, Kind: protocol.Send, DType: element.F32, Count: 1}
		errs := tryEach(cs, func(c *Comm) error {
			if c.rank == 1 {
				return c.Recv(ctx, recv.call, 0, make([]byte, recv.n))
			}
			if err := c.Send(ctx, send, 1, make([]byte, 4)); err != nil {
				return err
			}
			return c.do(ctx, protocol.Call{Seq: 1, Kind: protocol.Barrier})
		})
		for r, err := range errs {
			if !errors.Is(err, protocol.ErrMismatch) {
				t.Errorf("%s: rank %d: %v", name, r, err)
			}
		}
	}
}
