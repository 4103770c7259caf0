package crosshost

import (
	"context"
	"slices"

	"github.com/ringside-go/ringside/collective/protocol"
)

// greetingVersion is the version of the protocol. 1: the first; 2: element types have the
// numbers of package element; 3: notices have the missing ranks as bits.
const greetingVersion = 3

// greeting returns what rank from says first to rank to.
func (c *Comm) greeting(from, to int) protocol.Greeting {
	options := protocol.HashCounts(slices.Concat([]int{c.chunk, c.oneShot}, c.fold.Groups, c.fold.Order))
	return protocol.Greeting{Version: greetingVersion, Rank: from, To: to, Ranks: c.n, Options: options}
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
			m.sendTo(p, c.greeting(c.rank, p).Append(nil))
			m.recvFrom(p, make([]byte, protocol.GreetingBytes))
		}
	}
	if err := c.run(ctx, protocol.Call{}, m); err != nil {
		return err
	}
	for p := range c.n {
		if p == c.rank {
			continue
		}
		if err := c.greeting(p, c.rank).Check(m.in[p], "Chunk, OneShot, Pair, Fold and Order"); err != nil {
			return c.kill(&protocol.PeerError{Rank: p, Err: err})
		}
	}
	clear(m.in)
	return nil
}
