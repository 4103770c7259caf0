package wide

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/collective/plan"
)

// greetingBytes is the size of the first piece that ranks send each other:
//
//	byte 0        4      8    12     16        24        32
//	    | version | rank | to | size | options | reserved |     little endian
const (
	greetingBytes = 32
	// 1: the first; 2: element types have the numbers of package element
	greetingVersion = 2
)

// greeting returns what this rank says to rank p.
func (c *Comm) greeting(p int) []byte {
	le := binary.LittleEndian
	counts := []int{c.chunk, c.oneShot}
	for _, g := range c.fold {
		counts = append(counts, g)
	}
	b := le.AppendUint32(nil, greetingVersion)
	b = le.AppendUint32(b, uint32(c.rank))
	b = le.AppendUint32(b, uint32(p))
	b = le.AppendUint32(b, uint32(c.n))
	b = le.AppendUint64(b, plan.HashCounts(counts))
	return le.AppendUint64(b, 0)
}

// greet exchanges greetings with all ranks and compares them. Options.Timeout, which may
// be short, does not bound it below DefaultTimeout: ranks join when they are ready.
func (c *Comm) greet(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.jobs.moving
	m.reset(c.n)
	limit := c.clock.limit
	c.clock.limit = uint32(max(c.clock.timeout, DefaultTimeout)/c.clock.period) + 1
	defer func() { c.clock.limit = limit }()
	for p := range c.n {
		if p != c.rank {
			m.sendTo(p, c.greeting(p))
			m.recvFrom(p, make([]byte, greetingBytes))
		}
	}
	if err := c.run(ctx, plan.Call{}, m); err != nil {
		return err
	}
	le := binary.LittleEndian
	for p := range c.n {
		if p == c.rank {
			continue
		}
		want, got := c.greeting(p), m.in[p]
		le.PutUint32(want[4:], uint32(p))
		le.PutUint32(want[8:], uint32(c.rank))
		for _, field := range []struct {
			what      string
			want, got uint64
		}{
			{"version", uint64(le.Uint32(want)), uint64(le.Uint32(got))},
			{"rank", uint64(le.Uint32(want[4:])), uint64(le.Uint32(got[4:]))},
			{"rank that it greets", uint64(le.Uint32(want[8:])), uint64(le.Uint32(got[8:]))},
			{"number of ranks", uint64(le.Uint32(want[12:])), uint64(le.Uint32(got[12:]))},
			{"hash of the options Chunk, OneShot, Pair and Fold", le.Uint64(want[16:]), le.Uint64(got[16:])},
		} {
			if field.want != field.got {
				return c.kill(&plan.PeerError{Rank: p, Err: fmt.Errorf("%w: its %s is %d, expected %d",
					plan.ErrMismatch, field.what, field.got, field.want)})
			}
		}
	}
	clear(m.in)
	return nil
}
