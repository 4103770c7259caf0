package host

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/collective/plan"
)

// AllToAll sends part r of src, sendCounts[r] bytes, to rank r, and stores what rank r sends, recvCounts[r] bytes, as part r
// of dst. What a rank sends another is what that one expects. In place, if dst is src, it takes a copy.
//
// Only the sender knows the counts of all its parts, so it says them in its table of the epoch.
func (c *Comm) AllToAll(ctx context.Context, call plan.Call, dst, src []byte, sendCounts, recvCounts []int) error {
	out, err := plan.CheckCounts(sendCounts, c.n, 1)
	if err == nil {
		err = plan.CheckLen("src", src, out)
	}
	var in int
	if err == nil {
		in, err = plan.CheckCounts(recvCounts, c.n, 1)
	}
	if err == nil {
		err = plan.CheckLen("dst", dst, in)
	}
	if err == nil && sendCounts[c.rank] != recvCounts[c.rank] {
		err = fmt.Errorf("%w: rank %d sends itself %d bytes and expects %d", plan.ErrBadCall, c.rank, sendCounts[c.rank], recvCounts[c.rank])
	}
	if err != nil {
		return err
	}
	err = c.begin(ctx, &call)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	if out > 0 && in > 0 && &dst[0] == &src[0] {
		src = append([]byte(nil), src...)
	}
	r := &c.room
	r.reset()
	m := &move{src: src, dst: dst, split: true, table: true}
	c.stretches(sendCounts, m)
	off := 0
	for p, n := range recvCounts {
		r.into[p] = plan.Slice{Off: off, Len: n}
		off += n
	}
	r.total[c.rank] = out
	table := c.own.lines[(c.epoch+1)&1].table
	for p, s := range r.give {
		binary.LittleEndian.PutUint64(table[p*tableEntry:], uint64(s.Off))
		binary.LittleEndian.PutUint64(table[p*tableEntry+8:], uint64(s.Len))
	}
	return c.run(m)
}

// readTables learns what everybody sends to whom. All must come to the same number of pieces, so all read all.
func (c *Comm) readTables(m *move) error {
	r := &c.room
	le := binary.LittleEndian
	m.longest = 0
	for p := range c.peers {
		table := c.peers[p].lines[c.epoch&1].table
		off := uint64(0)
		for q := range c.n {
			at, n := le.Uint64(table[q*tableEntry:]), le.Uint64(table[q*tableEntry+8:])
			if at != off || n > placeMask {
				return c.broke(p, fmt.Errorf("%d bytes at %d for rank %d, expected at %d", n, at, q, off))
			}
			if q == c.rank {
				r.want[p] = plan.Slice{Off: int(at), Len: int(n)}
			}
			off += n
			if r.total[p] = int(off); q != p {
				m.longest = max(m.longest, int(n))
			}
		}
		if r.want[p].Len != r.into[p].Len {
			return c.kill(&plan.PeerError{Rank: p, Call: *c.call, Err: fmt.Errorf("%w: it sends %d bytes, this rank expects %d",
				plan.ErrMismatch, r.want[p].Len, r.into[p].Len)})
		}
	}
	return nil
}
