package collective

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ringside-go/ringside/collective/plan"
)

// memComm is the comm that host.Comm and wide.Comm should be: one goroutine does everything for all ranks when the last one
// has come. The composition above comms is tested on it, where the race detector sees every byte.
type memComm struct {
	rank  int
	table *memTable
}

type memTable struct {
	layout layout
	mu     sync.Mutex
	meet   *memMeeting
	queues map[[2]int]chan []byte // of sends, by sender and receiver
	dead   chan struct{}
	once   sync.Once
	err    error
}

type memMeeting struct {
	parts []*memPart
	come  int
	done  chan struct{}
	err   error
}

type memPart struct {
	call         plan.Call
	scale        float64
	dst, src     []byte
	counts, recv []int
}

// newMemComms makes a comm for each of n ranks, whose reductions fold as one host.
func newMemComms(n int) []*memComm {
	t := &memTable{layout: newLayout(make([]int, n)), queues: map[[2]int]chan []byte{}, dead: make(chan struct{})}
	out := make([]*memComm, n)
	for i := range out {
		out[i] = &memComm{i, t}
		for j := range n {
			t.queues[[2]int{i, j}] = make(chan []byte, 64)
		}
	}
	return out
}

// meet waits for all ranks and has the last one do f.
func (c *memComm) meet(ctx context.Context, p *memPart, f func(parts []*memPart)) error {
	t := c.table
	n := len(t.layout.order)
	t.mu.Lock()
	if t.meet == nil {
		t.meet = &memMeeting{parts: make([]*memPart, n), done: make(chan struct{})}
	}
	m := t.meet
	m.parts[c.rank] = p
	if m.come++; m.come == n {
		t.meet = nil
		for _, q := range m.parts {
			if q.call.Word() != m.parts[0].call.Word() {
				m.err = &plan.MismatchError{Ours: m.parts[0].call, Theirs: q.call}
			}
		}
		if m.err == nil {
			f(m.parts)
		}
		close(m.done)
	}
	t.mu.Unlock()
	select {
	case <-m.done:
		if m.err != nil {
			return &plan.PeerError{Rank: 0, Call: p.call, Err: m.err}
		}
		return nil
	case <-t.dead:
		return &plan.PeerError{Rank: -1, Call: p.call, Err: fmt.Errorf("%w: %w", plan.ErrAborted, t.err)}
	case <-ctx.Done():
		return &plan.PeerError{Rank: c.rank, Call: p.call, Err: ctx.Err()}
	}
}

func fold(t *memTable, parts []*memPart) []byte {
	srcs := make([][]byte, len(parts))
	for i, p := range parts {
		srcs[i] = p.src
	}
	p := parts[0]
	return referenceBytes(t.layout, p.call.Op, p.call.DType, p.scale, srcs)
}

func mustCopy(dst, src []byte) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("memComm: %d bytes into %d", len(src), len(dst)))
	}
	copy(dst, src)
}

func (c *memComm) AllReduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte) error {
	return c.meet(ctx, &memPart{call: call, scale: scale, dst: dst, src: src}, func(parts []*memPart) {
		all := fold(c.table, parts)
		for _, p := range parts {
			mustCopy(p.dst, all)
		}
	})
}

func (c *memComm) Reduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte, root int) error {
	return c.meet(ctx, &memPart{call: call, scale: scale, dst: dst, src: src}, func(parts []*memPart) {
		mustCopy(parts[root].dst, fold(c.table, parts))
	})
}

func (c *memComm) ReduceScatter(ctx context.Context, call plan.Call, scale float64, dst, src []byte, counts []int) error {
	return c.meet(ctx, &memPart{call: call, scale: scale, dst: dst, src: src}, func(parts []*memPart) {
		all := fold(c.table, parts)
		for i, s := range plan.Packed(counts) {
			mustCopy(parts[i].dst, s.Of(all))
		}
	})
}

func (c *memComm) AllGather(ctx context.Context, call plan.Call, dst, src []byte, counts []int) error {
	return c.meet(ctx, &memPart{call: call, dst: dst, src: src}, func(parts []*memPart) {
		var all []byte
		for i, p := range parts {
			if len(p.src) != counts[i] {
				panic("memComm: a part that is not as long as counts say")
			}
			all = append(all, p.src...)
		}
		for _, p := range parts {
			mustCopy(p.dst, all)
		}
	})
}

func (c *memComm) Broadcast(ctx context.Context, call plan.Call, buf []byte, root int) error {
	return c.meet(ctx, &memPart{call: call, dst: buf}, func(parts []*memPart) {
		for i, p := range parts {
			if i != root {
				mustCopy(p.dst, parts[root].dst)
			}
		}
	})
}

func (c *memComm) Scatter(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	return c.meet(ctx, &memPart{call: call, dst: dst, src: src}, func(parts []*memPart) {
		all := slices.Clone(parts[root].src)
		for i, s := range plan.Packed(counts) {
			mustCopy(parts[i].dst, s.Of(all))
		}
	})
}

func (c *memComm) Gather(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	return c.meet(ctx, &memPart{call: call, dst: dst, src: src}, func(parts []*memPart) {
		var all []byte
		for _, p := range parts {
			all = append(all, p.src...)
		}
		mustCopy(parts[root].dst, all)
	})
}

func (c *memComm) AllToAll(ctx context.Context, call plan.Call, dst, src []byte, sendCounts, recvCounts []int) error {
	return c.meet(ctx, &memPart{call: call, dst: dst, src: src, counts: slices.Clone(sendCounts), recv: slices.Clone(recvCounts)}, func(parts []*memPart) {
		for i, p := range parts {
			for j, q := range parts {
				mustCopy(plan.Packed(q.recv)[i].Of(q.dst), plan.Packed(p.counts)[j].Of(p.src))
			}
		}
	})
}

func (c *memComm) Barrier(ctx context.Context, call plan.Call) error {
	return c.meet(ctx, &memPart{call: call}, func([]*memPart) {})
}

func (c *memComm) Send(_ context.Context, _ plan.Call, to int, b []byte) error {
	c.table.queues[[2]int{c.rank, to}] <- slices.Clone(b)
	return nil
}

func (c *memComm) Recv(ctx context.Context, _ plan.Call, from int, b []byte) error {
	select {
	case got := <-c.table.queues[[2]int{from, c.rank}]:
		mustCopy(b, got)
		return nil
	case <-c.table.dead:
		return c.table.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *memComm) Abort(err error) {
	c.table.once.Do(func() {
		c.table.err = err
		close(c.table.dead)
	})
}

func (c *memComm) Close() error { return nil }

// memWorld makes a group of ranks on the given hosts, composed of memComms as New composes of the others.
func memWorld(hostOf []int) []*Group {
	l := newLayout(hostOf)
	n := len(hostOf)
	groups := make([]*Group, n)
	insides := make([][]*memComm, len(l.hosts))
	for h, ranks := range l.hosts {
		insides[h] = newMemComms(len(ranks))
	}
	rails := 1
	if l.uniform() {
		rails = len(l.hosts[0])
	}
	across := make([][]*memComm, rails)
	for k := range across {
		across[k] = newMemComms(len(l.hosts))
	}
	pairs := map[[2]int][]*memComm{}
	for r := range groups {
		o, _ := (*Options)(nil).withDefaults()
		g := &Group{rank: r, size: n, members: make([]string, n), layout: l, options: o, sent: make([]uint64, n), received: make([]uint64, n), even: make([]int, n)}
		for range l.hosts {
			g.names = append(g.names, "memory")
		}
		g.lane = newLane(g)
		g.control = newControl(g, nil)
		h := &hosts{layout: l, rank: r, host: l.hostOf[r], pos: l.posOf[r], rails: rails, pairs: make([]comm, n), across: solo{}}
		h.inside = insides[h.host][h.pos]
		if h.pos < rails {
			h.across = across[h.pos][h.host]
		}
		for other := range n {
			if l.hostOf[other] == h.host || h.railed(r, other) {
				continue
			}
			key := [2]int{min(r, other), max(r, other)}
			if pairs[key] == nil {
				pairs[key] = newMemComms(2)
			}
			me := 0
			if other < r {
				me = 1
			}
			h.pairs[other] = pairs[key][me]
		}
		g.comm = h
		groups[r] = g
	}
	return groups
}
