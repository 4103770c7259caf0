package tagged

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// pipe is a queue to one rank, of few messages and bytes.
type pipe struct {
	rng   *rand.Rand
	queue []sent
	bytes int
	most  int // bytes of a message
}

type sent struct {
	kind Kind
	body []byte
}

const pipeBytes = 1 << 20

func (p *pipe) Post(kind Kind, head, body []byte) error {
	n := len(head) + len(body)
	switch {
	case n > p.most:
		return ipc.ErrMessageTooLarge
	case p.bytes+n > pipeBytes || p.rng.IntN(4) == 0: // full, or another sends
		return ipc.ErrFull
	}
	p.bytes += n
	p.queue = append(p.queue, sent{kind, append(append([]byte(nil), head...), body...)})
	return nil
}

// model is ranks with pipes between them, which one goroutine moves on in random order.
type model struct {
	rng   *rand.Rand
	ranks []*Lanes
	pipes [][]*pipe // from, to
}

func newModel(seed uint64, n int) *model {
	m := &model{rng: rand.New(rand.NewPCG(seed, 0))}
	most := []int{1 << 10, 40 << 10, 256 << 10}[m.rng.IntN(3)]
	for from := range n {
		var pipes []*pipe
		outs := make([]Out, n)
		for to := range n {
			pipes = append(pipes, &pipe{rng: m.rng, most: most})
			if to != from {
				outs[to] = pipes[to]
			}
		}
		m.pipes = append(m.pipes, pipes)
		m.ranks = append(m.ranks, New(from, outs))
	}
	return m
}

// step delivers the first message of a random pipe, or flushes a rank. It reports whether
// a message was delivered.
func (m *model) step(t *testing.T) bool {
	t.Helper()
	from, to := m.rng.IntN(len(m.ranks)), m.rng.IntN(len(m.ranks))
	p := m.pipes[from][to]
	if len(p.queue) == 0 {
		m.ranks[from].Flush()
		return false
	}
	s := p.queue[0]
	p.queue = p.queue[1:]
	p.bytes -= len(s.body)
	if err := m.ranks[to].Deliver(from, s.kind, s.body); err != nil {
		t.Fatal(err)
	}
	for i := range s.body {
		s.body[i] = 0xee // a queue's memory is used again
	}
	return true
}

// TestOrders runs random programs of sends and receives under random orders of what
// happens: receives of a lane take its messages in their order, all end, and the limits
// of memory hold at every step.
func TestOrders(t *testing.T) {
	for seed := range uint64(40) {
		m := newModel(seed, 2+int(seed%3))
		runOrders(t, m)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func runOrders(t *testing.T, m *model) {
	type lane struct {
		from, to    int
		tag         uint32
		sent, given int // messages sent, receives posted
		lengths     []int
	}
	var lanes []*lane
	left := 0
	for from := range m.ranks {
		for to := range m.ranks {
			for tag := range uint32(2) {
				l := &lane{from: from, to: to, tag: tag}
				for range m.rng.IntN(20) {
					l.lengths = append(l.lengths, []int{0, 10, 30 << 10, 100 << 10}[m.rng.IntN(4)]+m.rng.IntN(100))
				}
				left += 2 * len(l.lengths)
				lanes = append(lanes, l)
			}
		}
	}
	fill := func(l *lane, k int) []byte {
		return bytes.Repeat([]byte{byte(l.from + l.to*8 + int(l.tag)*64), byte(k)}, l.lengths[k])
	}
	call := func(kind protocol.Kind, n int) protocol.Call {
		return protocol.Call{Kind: kind, DType: element.U8, Count: int64(n)}
	}
	for idle := 0; left > 0; {
		l := lanes[m.rng.IntN(len(lanes))]
		switch what := m.rng.IntN(10); {
		case what == 0 && l.sent < len(l.lengths):
			b := fill(l, l.sent)
			tr := &Transfer{Call: call(protocol.Send, len(b)), Peer: l.to, Tag: l.tag, Buf: b}
			tr.Ended = func() {
				left--
				clear(b) // the buffer is the caller's again
			}
			l.sent++
			if ok, err := m.ranks[l.from].Send(tr); !ok || err != nil {
				t.Error(ok, err)
			}
		case what == 1 && l.given < len(l.lengths):
			k := l.given
			want := fill(l, k)
			b := make([]byte, len(want))
			tr := &Transfer{Call: call(protocol.Recv, len(b)), Peer: l.from, Tag: l.tag, Buf: b}
			tr.Ended = func() {
				left--
				if !bytes.Equal(b, want) || tr.Peer != l.from {
					t.Errorf("receive %d of %d to %d, tag %d, is wrong", k, l.from, l.to, l.tag)
				}
			}
			l.given++
			if ok, err := m.ranks[l.to].Recv(tr); !ok || err != nil {
				t.Error(ok, err)
			}
		default:
			if m.step(t) {
				idle = 0
			} else {
				idle++
			}
		}
		for r, lanes := range m.ranks {
			for from := range m.ranks {
				p := &lanes.peers[from]
				if p.holds > Kept || p.onTheWay > Window || p.kept < 0 || m.pipes[r][from].bytes > pipeBytes {
					t.Fatalf("rank %d holds %d bytes of %d's, and has %d on the way", r, p.holds, from, p.onTheWay)
				}
			}
		}
		if idle > 100000 {
			t.Fatalf("%d transfers don't end", left)
		}
	}
	for r, l := range m.ranks {
		for p := range m.ranks {
			if l.Needs(p) || l.NeedsAny() {
				t.Errorf("rank %d still needs %d", r, p)
			}
		}
	}
}

// TestKept: what a receiver has taken no longer counts: short messages stay eager however
// many there are.
func TestKept(t *testing.T) {
	m := newModel(1, 2)
	for _, p := range []*pipe{m.pipes[0][1], m.pipes[1][0]} {
		p.most = 1 << 20
	}
	for k := range 100 {
		b := bytes.Repeat([]byte{byte(k)}, 30<<10)
		c := protocol.Call{Kind: protocol.Send, DType: element.U8, Count: int64(len(b))}
		over := 0
		m.ranks[0].Send(&Transfer{Call: c, Peer: 1, Buf: b, Ended: func() { over++ }})
		c.Kind = protocol.Recv
		m.ranks[1].Recv(&Transfer{Call: c, Peer: 0, Buf: b, Ended: func() { over++ }})
		for over < 2 {
			for _, s := range append(m.pipes[0][1].queue, m.pipes[1][0].queue...) {
				if s.kind != Eager && s.kind != Taken {
					t.Fatalf("message %d: kind %d", k, s.kind)
				}
			}
			m.step(t)
		}
	}
}

// TestAbort: after Abort no transfer ends and no buffer is touched.
func TestAbort(t *testing.T) {
	for seed := range uint64(100) {
		m := newModel(seed, 2)
		over := false
		var bufs [][]byte
		for i := range 20 {
			b := make([]byte, 1+m.rng.IntN(200<<10))
			tr := &Transfer{Call: protocol.Call{Kind: protocol.Send, DType: element.U8, Count: int64(len(b))}, Peer: 1, Buf: bytes.Repeat([]byte{1}, len(b))}
			rv := &Transfer{Call: tr.Call, Peer: 0, Buf: b}
			rv.Call.Kind = protocol.Recv
			if i%2 == 0 {
				rv.Peer = AnyRank
			}
			tr.Ended = func() {}
			rv.Ended = func() {
				if over {
					t.Error("a receive ended after Abort")
				}
			}
			bufs = append(bufs, b)
			m.ranks[0].Send(tr)
			m.ranks[1].Recv(rv)
		}
		for range m.rng.IntN(300) {
			m.step(t)
		}
		over = true
		m.ranks[1].Abort()
		var sums []int
		for _, b := range bufs {
			sums = append(sums, bytes.Count(b, []byte{1}))
		}
		for range 500 {
			m.step(t)
		}
		for i, b := range bufs {
			if n := bytes.Count(b, []byte{1}); n != sums[i] {
				t.Errorf("seed %d: buffer %d grew from %d to %d bytes after Abort", seed, i, sums[i], n)
			}
		}
		if ok, err := m.ranks[1].Recv(&Transfer{}); ok || err != nil {
			t.Error("a receive began after Abort")
		}
	}
}

// TestBroken: a rank that breaks the rules is refused.
func TestBroken(t *testing.T) {
	call := protocol.Call{Seq: 1, Kind: protocol.Send, DType: element.U8, Count: 3}
	head := func(id uint64, c protocol.Call) []byte {
		h := header{7, id, c}
		return h.append(nil)
	}
	long, recv, big := call, call, call
	long.Count, recv.Kind, big.Count = EagerMax+1, protocol.Recv, 1<<60
	for name, c := range map[string]struct {
		kind Kind
		body []byte
	}{
		"short header":     {Eager, make([]byte, 10)},
		"kind of call":     {Offer, head(1, recv)},
		"length":           {Eager, append(head(1, call), 1, 2)},
		"long eager":       {Eager, append(head(1, long), make([]byte, EagerMax+1)...)},
		"offer with bytes": {Offer, append(head(1, call), 1, 2, 3)},
		"overflow":         {Offer, head(1, big)},
		"number":           {Eager, append(head(0, call), 1, 2, 3)},
		"accept":           {Accept, make([]byte, 8)},
		"short accept":     {Accept, make([]byte, 7)},
		"piece":            {Piece, make([]byte, 20)},
		"empty piece":      {Piece, make([]byte, 16)},
		"taken":            {Taken, append(make([]byte, 8), 1, 0, 0, 0, 0, 0, 0, 0)},
		"short taken":      {Taken, make([]byte, 8)},
		"unknown":          {Kinds, nil},
	} {
		l := newModel(1, 2).ranks[0]
		err := l.Deliver(1, c.kind, c.body)
		pe := (*protocol.PeerError)(nil)
		if !errors.Is(err, ipc.ErrCorrupt) || !errors.Is(err, protocol.ErrPeerLost) || !errors.As(err, &pe) || pe.Rank != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := newModel(1, 2).ranks[0]
	for id := uint64(1); ; id++ {
		err := l.Deliver(1, Eager, append(head(id, call), 1, 2, 3))
		if err == nil && id <= Kept/59 {
			continue
		}
		if id != Kept/59+1 || !errors.Is(err, ipc.ErrCorrupt) {
			t.Errorf("message %d: %v", id, err)
		}
		break
	}
}

// TestOffers: a rank that offers without end is refused at OfferMax, and what is kept of
// it until then is bounded. Send refuses what would come to that, and goes on when there
// is room.
func TestOffers(t *testing.T) {
	call := protocol.Call{Seq: 1, Kind: protocol.Send, DType: element.U8, Count: EagerMax + 1}
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	l, before := newModel(1, 2).ranks[0], heap()
	for id := uint64(1); ; id++ {
		h := header{uint32(id), id, call}
		err := l.Deliver(1, Offer, h.append(nil))
		if err == nil && id <= OfferMax {
			continue
		}
		if pe := (*protocol.PeerError)(nil); id != OfferMax+1 || !errors.Is(err, ipc.ErrCorrupt) || !errors.As(err, &pe) || pe.Rank != 1 {
			t.Errorf("offer %d: %v", id, err)
		}
		break
	}
	if kept := heap() - before; kept > 6<<20 {
		t.Errorf("%d bytes are kept of %d offers", kept, OfferMax)
	}
	runtime.KeepAlive(l)

	m, ended := newModel(1, 2), 0
	buf, in := make([]byte, EagerMax+1), make([]byte, EagerMax+1)
	begin := func() error {
		ok, err := m.ranks[0].Send(&Transfer{Call: call, Peer: 1, Buf: buf, Ended: func() { ended++ }})
		if !ok {
			t.Fatal("the lanes are at their end")
		}
		return err
	}
	for n := range OfferMax {
		if err := begin(); err != nil {
			t.Fatalf("send %d: %v", n, err)
		}
	}
	if err := begin(); !errors.Is(err, ErrBacklog) || !strings.Contains(err.Error(), "16384 to rank 1") {
		t.Errorf("one more: %v", err)
	}
	call.Kind = protocol.Recv
	m.ranks[1].Recv(&Transfer{Call: call, Peer: 0, Buf: in, Ended: func() { ended++ }})
	for ended < 2 {
		m.step(t)
	}
	call.Kind = protocol.Send
	if err := begin(); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// FuzzDeliver: whatever another rank says, nothing panics and nothing is written outside
// of the buffers.
func FuzzDeliver(f *testing.F) {
	call := protocol.Call{Seq: 1, Kind: protocol.Send, DType: element.U8, Count: 3}
	h := header{0, 1, call}
	f.Add([]byte{59}, append(append([]byte{byte(Eager)}, h.append(nil)...), 1, 2, 3))
	f.Add([]byte{57, 1}, append(append([]byte{byte(Offer)}, h.append(nil)...), byte(Piece), 1))
	f.Add([]byte{9, 9}, append([]byte{byte(Accept), 1, 0, 0, 0, 0, 0, 0, 0, byte(Taken)}, make([]byte, 8)...))
	f.Fuzz(func(t *testing.T, lengths, data []byte) {
		l := newModel(1, 2).ranks[0]
		b := make([]byte, 3, 8)
		big := bytes.Repeat([]byte{5}, EagerMax+1)
		l.Recv(&Transfer{Call: protocol.Call{Kind: protocol.Recv, DType: element.U8, Count: 3}, Peer: 1, Buf: b, Ended: func() {}})
		l.Send(&Transfer{Call: protocol.Call{Kind: protocol.Send, DType: element.U8, Count: EagerMax + 1}, Peer: 1, Buf: big, Ended: func() {}})
		for _, n := range lengths {
			k := min(int(n), len(data))
			if k == 0 {
				return
			}
			if l.Deliver(1, Kind(data[0]), data[1:k]) != nil {
				break
			}
			data = data[k:]
		}
		if !bytes.Equal(b[3:8], make([]byte, 5)) {
			t.Errorf("written behind the buffer: %v", b[:8])
		}
	})
}
