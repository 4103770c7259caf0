package tagged

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ringside-go/ringside/collective/protocol"
)

// ErrBacklog is returned by Send while OfferMax messages to the rank wait for their
// receives, or for room to be sent.
var ErrBacklog = errors.New("collective: too many messages wait for their receives")

// AnyRank is the Peer of a receive that takes a message of any rank.
const AnyRank = -1

// Out sends to one rank.
type Out interface {
	// Post sends a message that consists of head and body, and never waits. The error is
	// ipc.ErrFull while there is no room, and ipc.ErrMessageTooLarge for a message that
	// never has room.
	Post(kind Kind, head, body []byte) error
}

// Transfer is a send or a receive.
type Transfer struct {
	Call protocol.Call // a Send or Recv of DType and Count; Lanes sets Seq
	Peer int           // the other rank. AnyRank is replaced by the sender's
	Tag  uint32
	Buf  []byte // the bytes of Count elements, unless they are none

	// Ended is called once, when the transfer has succeeded: the buffer is the caller's
	// again. It must not call Lanes.
	Ended func()

	order uint64 // of a receive, among all that were posted
	moved int    // bytes
}

// arrival is a message that came before its receive.
type arrival struct {
	header
	eager bool
	body  []byte // of an eager one
}

// peer is what is known of one rank.
type peer struct {
	out Out

	// Of what is sent to it.
	sent      uint64               // messages, which is also the last id
	queue     []*Transfer          // that wait for room in the conn
	offered   map[uint64]*Transfer // until they are accepted, by id
	accepted  []*outgoing          // whose pieces go out in turns
	replies   []uint64             // ids of accepts that wait for room
	kept      int                  // bytes of eager messages that it may still keep
	window    int                  // bytes of pieces that may be on their way
	onTheWay  int                  // of those, how many are
	pieceSize int

	// Of what comes from it.
	// receives that were posted for it, or took of its messages
	received uint64
	last     uint64                // id of its last message
	arrived  map[uint32][]*arrival // by tag, never empty
	offers   int                   // in arrived
	// bytes of eager messages, until it is told that they were taken
	holds              int
	incoming           map[uint64]*Transfer // that were accepted, by id
	posted             map[uint32][]*Transfer
	takenEager, pieces int // bytes that it is to be told of as taken
}

// outgoing is a send that was accepted.
type outgoing struct {
	id uint64
	*Transfer
}

// Lanes are the lanes of one rank. Any goroutine may call its methods.
type Lanes struct {
	mu    sync.Mutex
	rank  int
	peers []peer
	// receives from any rank, by tag
	any   map[uint32][]*Transfer
	turn  int    // the rank that the next receive from any looks at first
	order uint64 // receives posted
	over  bool
}

// New returns the lanes of a rank. outs are by rank, nil at its own.
func New(rank int, outs []Out) *Lanes {
	l := &Lanes{rank: rank, peers: make([]peer, len(outs)), any: map[uint32][]*Transfer{}}
	for i := range l.peers {
		l.peers[i] = peer{
			out: outs[i], kept: Kept, window: Window, pieceSize: PieceMax,
			offered: map[uint64]*Transfer{}, arrived: map[uint32][]*arrival{},
			incoming: map[uint64]*Transfer{}, posted: map[uint32][]*Transfer{},
		}
	}
	return l
}

// Needs reports whether a transfer waits for a rank.
func (l *Lanes) Needs(rank int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peers[rank].needed()
}

// NeedsAny reports whether a receive waits for a message of any rank.
func (l *Lanes) NeedsAny() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.any) > 0
}

// needed reports whether a transfer waits for the rank.
func (p *peer) needed() bool {
	return len(p.queue)+len(p.offered)+len(p.accepted)+len(p.incoming)+len(p.posted) > 0
}

// Moved returns how many bytes of a transfer have moved.
func (l *Lanes) Moved(t *Transfer) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return t.moved
}

// Number returns the number of a transfer among those between its ranks, 0 if it has none
// yet.
func (l *Lanes) Number(t *Transfer) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return t.Call.Seq
}

// Abort ends all: no transfer that has not ended ends any more, and no buffer is touched
// from now on. Send and Recv then return false.
func (l *Lanes) Abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.any = nil
	for i := range l.peers {
		l.peers[i] = peer{}
	}
}

// Send begins to send to t.Peer. A message to oneself is kept until it is received; the
// error, a *protocol.PeerError, is then that of its receive. The error is ErrBacklog, and
// nothing was begun, while too many wait. Send returns false after Abort.
func (l *Lanes) Send(t *Transfer) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false, nil
	}
	p := &l.peers[t.Peer]
	if n := len(p.queue) + len(p.offered); n >= OfferMax {
		return true, fmt.Errorf("%w: %d to rank %d: wait for some of them before sending more", ErrBacklog, n, t.Peer)
	}
	p.sent++
	t.Call.Seq = p.sent
	if t.Peer != l.rank {
		p.queue = append(p.queue, t)
		l.flush(p)
		return true, nil
	}
	a := &arrival{header: header{t.Tag, p.sent, t.Call}, body: append([]byte(nil), t.Buf...)}
	t.moved = len(t.Buf)
	t.Ended()
	return true, l.arrive(l.rank, a)
}

// Recv begins to receive. The error is a *protocol.PeerError: the message that t takes is
// another than t's Call says. Recv returns false after Abort.
func (l *Lanes) Recv(t *Transfer) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false, nil
	}
	l.order++
	t.order = l.order
	if t.Peer != AnyRank {
		l.number(t)
		if a := l.first(t.Peer, t.Tag); a != nil {
			return true, l.take(t, a)
		}
		posted := l.peers[t.Peer].posted
		posted[t.Tag] = append(posted[t.Tag], t)
		return true, nil
	}
	for i := range l.peers {
		from := (l.turn + i) % len(l.peers)
		if a := l.first(from, t.Tag); a != nil {
			l.won(t, from)
			return true, l.take(t, a)
		}
	}
	l.any[t.Tag] = append(l.any[t.Tag], t)
	return true, nil
}

// number gives a receive its number among those from its peer.
func (l *Lanes) number(t *Transfer) {
	p := &l.peers[t.Peer]
	p.received++
	t.Call.Seq = p.received
}

// won makes t, a receive from any rank, one from the given, and has another rank be the
// first next time.
func (l *Lanes) won(t *Transfer, from int) {
	t.Peer, l.turn = from, (from+1)%len(l.peers)
	l.number(t)
}

// first removes the first message of a lane that has arrived; nil if none has.
func (l *Lanes) first(from int, tag uint32) *arrival {
	p := &l.peers[from]
	list := p.arrived[tag]
	if len(list) == 0 {
		return nil
	}
	a := list[0]
	if !a.eager && from != l.rank {
		p.offers--
	}
	drop(p.arrived, tag, 0)
	return a
}

// receiver returns the receive that takes the next message of a lane: of those from that
// rank and from any the one that was posted first; nil if there is none.
func (l *Lanes) receiver(from int, tag uint32) *Transfer {
	var t *Transfer
	if list := l.peers[from].posted[tag]; len(list) > 0 {
		t = list[0]
	}
	if list := l.any[tag]; len(list) > 0 && (t == nil || list[0].order < t.order) {
		t = list[0]
	}
	return t
}

// forget removes a receive that receiver returned from those that are posted.
func (l *Lanes) forget(t *Transfer) {
	if t.Peer == AnyRank {
		drop(l.any, t.Tag, 0)
		return
	}
	drop(l.peers[t.Peer].posted, t.Tag, 0)
}

// drop removes one element of a list of m, and a list that is then empty.
func drop[T any](m map[uint32][]T, tag uint32, i int) {
	if list := slices.Delete(m[tag], i, i+1); len(list) > 0 {
		m[tag] = list
	} else {
		delete(m, tag)
	}
}
