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

	// Ended is called once, when the transfer has succeeded. From then on the caller may
	// use the buffer again. It must not call Lanes.
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

// peer is the state of the messages to and from one rank.
type peer struct {
	out Out

	// Messages to the rank.
	sent      uint64               // number of messages, and the id of the last
	queue     []*Transfer          // sends that wait for room in the conn
	offered   map[uint64]*Transfer // sends that are not accepted yet, by id
	accepted  []*outgoing          // accepted sends, whose pieces are sent in turns
	replies   []uint64             // ids of Accept messages that wait for room
	kept      int                  // bytes of eager messages that the rank may still keep
	window    int                  // the most bytes of pieces that may be on their way
	onTheWay  int                  // bytes of pieces that are on their way
	pieceSize int                  // the most bytes of one piece

	// Messages from the rank.
	received uint64                 // number of receives from this rank
	last     uint64                 // id of its last message
	arrived  map[uint32][]*arrival  // messages without a receive, by tag
	offers   int                    // number of offers in arrived
	holds    int                    // bytes of eager messages that Taken has not reported
	incoming map[uint64]*Transfer   // receives whose pieces are to come, by id
	posted   map[uint32][]*Transfer // receives without a message, by tag

	// Bytes that the next Taken reports.
	takenEager, pieces int
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
	any   map[uint32][]*Transfer // receives from any rank without a message, by tag
	turn  int                    // the rank that the next receive from any looks at first
	order uint64                 // receives posted
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

// Abort gives up all transfers: it calls no Ended, and no buffer is read or written after
// it returns. Send and Recv then return false.
func (l *Lanes) Abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.any = nil
	for i := range l.peers {
		l.peers[i] = peer{}
	}
}

// Send begins to send to t.Peer. It copies a message to this rank itself, which may meet
// a receive that expects another message: the error is then a *protocol.PeerError. The
// error is ErrBacklog, and nothing was begun, while too many messages wait. Send returns
// false after Abort.
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

// Recv begins to receive. The error is a *protocol.PeerError if the message has another
// type or count than t.Call. Recv returns false after Abort.
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

// won makes t, a receive from any rank, a receive from the given rank. The next receive
// from any rank looks at the rank after it first.
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

// receiver returns the receive that takes the next message of a lane: the one that was
// posted first, from that rank or from any rank. It returns nil if there is none.
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
