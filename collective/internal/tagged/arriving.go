package tagged

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// Deliver handles a message of another rank. The body is data from another process. The
// error is a *protocol.PeerError if the rank breaks the rules, or sent another message
// than the receive expects. After an error the caller calls Abort.
func (l *Lanes) Deliver(from int, kind Kind, body []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	p := &l.peers[from]
	var err error
	switch kind {
	case Eager, Offer:
		var a *arrival
		if a, err = p.parse(kind, body); err == nil {
			err = l.arrive(from, a)
		}
	case Accept:
		err = p.wasAccepted(body)
	case Piece:
		err = p.addPiece(body)
	case Taken:
		err = p.wasTaken(body)
	default:
		err = corrupt("kind %d", kind)
	}
	if err == nil {
		l.flush(p)
		return nil
	}
	if _, ok := err.(*protocol.PeerError); ok {
		return err
	}
	return &protocol.PeerError{Rank: from, Err: fmt.Errorf("%w: a tagged message: %w", protocol.ErrPeerLost, err)}
}

// corrupt returns the error of a message that breaks the rules.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ipc.ErrCorrupt, fmt.Sprintf(format, args...))
}

// parse reads an eager message or an offer, and holds it to the limits.
func (p *peer) parse(kind Kind, body []byte) (*arrival, error) {
	h, err := parseHeader(body)
	if err != nil {
		return nil, err
	}
	if h.id <= p.last {
		return nil, corrupt("number %d after %d", h.id, p.last)
	}
	p.last = h.id
	a := &arrival{header: h, eager: kind == Eager, body: body[headerBytes:]}
	want := 0
	if a.eager {
		want = length(&h.call)
		p.holds += len(body)
	}
	switch {
	case len(a.body) != want || want > EagerMax:
		return nil, corrupt("%d bytes of %v, expected %d, at most %d", len(a.body), h.call, want, EagerMax)
	case p.holds > Kept:
		return nil, corrupt("%d bytes that no receive waits for, expected at most %d", p.holds, Kept)
	case !a.eager && p.offers >= OfferMax:
		return nil, corrupt("%d messages that no receive waits for, expected at most %d", p.offers, OfferMax)
	}
	return a, nil
}

// arrive gives a message to its receive, or keeps it.
func (l *Lanes) arrive(from int, a *arrival) error {
	if t := l.receiver(from, a.tag); t != nil {
		l.forget(t)
		if t.Peer == AnyRank {
			l.won(t, from)
		}
		return l.take(t, a)
	}
	p := &l.peers[from]
	if from != l.rank { // one to oneself has a copy already
		a.body = append([]byte(nil), a.body...)
		if !a.eager {
			p.offers++
		}
	}
	p.arrived[a.tag] = append(p.arrived[a.tag], a)
	return nil
}

// take gives a message to its receive, which was removed from those that are posted.
func (l *Lanes) take(t *Transfer, a *arrival) error {
	p := &l.peers[t.Peer]
	if t.Call.DType != a.call.DType || t.Call.Count != a.call.Count {
		return &protocol.PeerError{Rank: t.Peer, Call: t.Call, Err: &protocol.MismatchError{Ours: t.Call, Theirs: a.call}}
	}
	if a.eager || t.Peer == l.rank {
		t.moved = copy(t.Buf, a.body)
		if a.eager {
			p.takenEager += headerBytes + len(a.body)
		}
		t.Ended()
	} else {
		p.replies = append(p.replies, a.id)
		if len(t.Buf) > 0 {
			p.incoming[a.id] = t
		} else {
			t.Ended()
		}
	}
	l.flush(p)
	return nil
}

// wasAccepted handles an Accept: the pieces of the message may be sent.
func (p *peer) wasAccepted(body []byte) error {
	if len(body) != acceptBytes {
		return corrupt("an accept of %d bytes, expected %d", len(body), acceptBytes)
	}
	id := le.Uint64(body)
	t := p.offered[id]
	if t == nil {
		return corrupt("it accepts message %d, which was not offered", id)
	}
	delete(p.offered, id)
	if len(t.Buf) == 0 {
		t.Ended()
		return nil
	}
	p.accepted = append(p.accepted, &outgoing{id, t})
	return nil
}

// addPiece copies a piece to its place.
func (p *peer) addPiece(body []byte) error {
	if len(body) <= pieceBytes {
		return corrupt("a piece of %d bytes, expected more than %d", len(body), pieceBytes)
	}
	id, offset := le.Uint64(body), le.Uint64(body[8:])
	body = body[pieceBytes:]
	t := p.incoming[id]
	if t == nil || offset != uint64(t.moved) || len(body) > len(t.Buf)-t.moved {
		return corrupt("%d bytes at %d of message %d, which does not go on there", len(body), offset, id)
	}
	t.moved += copy(t.Buf[t.moved:], body)
	p.pieces += len(body)
	if t.moved == len(t.Buf) {
		delete(p.incoming, id)
		t.Ended()
	}
	return nil
}

// wasTaken handles a Taken, which makes room for eager messages and for pieces.
func (p *peer) wasTaken(body []byte) error {
	if len(body) != takenBytes {
		return corrupt("what was taken in %d bytes, expected %d", len(body), takenBytes)
	}
	eager, pieces := le.Uint64(body), le.Uint64(body[8:])
	if eager > uint64(Kept-p.kept) || pieces > uint64(p.onTheWay) {
		return corrupt("%d and %d bytes taken, expected at most %d and %d", eager, pieces, Kept-p.kept, p.onTheWay)
	}
	p.kept += int(eager)
	p.onTheWay -= int(pieces)
	return nil
}
