package collective

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ringside-go/ringside/collective/protocol"
)

// memComm is the comm that onehost.Comm and crosshost.Comm should be: one goroutine does
// everything for all ranks when the last one has come. The composition above comms is
// tested on it, where the race detector sees every byte.
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
	parts []*protocol.Request
	come  int
	done  chan struct{}
	err   error
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
func (c *memComm) meet(ctx context.Context, p *protocol.Request, f func(parts []*protocol.Request)) error {
	t := c.table
	n := len(t.layout.order)
	t.mu.Lock()
	if t.meet == nil {
		t.meet = &memMeeting{parts: make([]*protocol.Request, n), done: make(chan struct{})}
	}
	m := t.meet
	m.parts[c.rank] = p
	if m.come++; m.come == n {
		t.meet = nil
		for _, q := range m.parts {
			if q.Call.Hash() != m.parts[0].Call.Hash() {
				m.err = &protocol.MismatchError{Ours: m.parts[0].Call, Theirs: q.Call}
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
			return &protocol.PeerError{Rank: 0, Call: p.Call, Err: m.err}
		}
		return nil
	case <-t.dead:
		return &protocol.PeerError{Rank: -1, Call: p.Call, Err: fmt.Errorf("%w: %w", protocol.ErrAborted, t.err)}
	case <-ctx.Done():
		return &protocol.PeerError{Rank: c.rank, Call: p.Call, Err: ctx.Err()}
	}
}

func fold(t *memTable, parts []*protocol.Request) []byte {
	srcs := make([][]byte, len(parts))
	for i, p := range parts {
		srcs[i] = p.Src
	}
	call := parts[0].Call
	return referenceBytes(t.layout, call.Op, call.DType, call.Factor(), srcs)
}

func mustCopy(dst, src []byte) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("memComm: %d bytes into %d", len(src), len(dst)))
	}
	copy(dst, src)
}

// Do makes a call when the last rank has come.
func (c *memComm) Do(ctx context.Context, r protocol.Request) error {
	n := len(c.table.layout.order)
	if err := r.Check(c.rank, n); err != nil {
		panic(err)
	}
	switch r.Kind() {
	case protocol.Send:
		c.table.queues[[2]int{c.rank, r.Peer}] <- slices.Clone(r.Dst)
		return nil
	case protocol.Recv:
		return c.recv(ctx, r.Peer, r.Dst)
	}
	r.Counts, r.Recv = r.Parts(make([]int, n))
	return c.meet(ctx, &r, func(parts []*protocol.Request) { c.table.do(r.Kind(), parts) })
}

// do makes the call of all ranks.
func (t *memTable) do(kind protocol.Kind, parts []*protocol.Request) {
	root := parts[parts[0].Peer]
	sliced := protocol.Packed(parts[0].Counts)
	var all []byte
	switch kind {
	case protocol.AllReduce, protocol.Reduce, protocol.ReduceScatter:
		all = fold(t, parts)
	case protocol.AllGather, protocol.Gather:
		for _, p := range parts {
			all = append(all, p.Src...)
		}
	case protocol.Broadcast:
		all = root.Dst
	case protocol.Scatter:
		all = slices.Clone(root.Src)
	}
	for i, p := range parts {
		switch kind {
		case protocol.AllReduce, protocol.AllGather, protocol.Broadcast:
			mustCopy(p.Dst, all)
		case protocol.Reduce, protocol.Gather:
			if p == root {
				mustCopy(p.Dst, all)
			}
		case protocol.ReduceScatter, protocol.Scatter:
			mustCopy(p.Dst, sliced[i].Of(all))
		case protocol.AllToAll:
			for j, q := range parts {
				mustCopy(protocol.Packed(q.Recv)[i].Of(q.Dst), protocol.Packed(p.Counts)[j].Of(p.Src))
			}
		}
	}
}

func (c *memComm) recv(ctx context.Context, from int, b []byte) error {
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

// memWorld makes a group of ranks on the given hosts, composed of memComms as New
// composes of the others.
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
		g := &Group{rank: r, size: n, members: make([]string, n), layout: l, options: o, sent: make([]uint64, n), received: make([]uint64, n)}
		for range l.hosts {
			g.names = append(g.names, "memory")
		}
		g.lane = newLane(g)
		g.control = newControl(g, nil)
		g.tags, _ = newTags(g)
		g.barrier = g.BarrierInit()
		h := newHosts(l, r)
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
