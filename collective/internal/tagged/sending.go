package tagged

import (
	"errors"

	"github.com/ringside-go/ringside/ipc"
)

// Flush sends what can be sent now.
func (l *Lanes) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.peers {
		l.flush(&l.peers[i])
	}
}

// flush sends what can be sent to a rank now: first replies to its messages, then new
// messages, then pieces. A conn that has ended sends nothing; package collective notices
// that its rank is lost.
func (l *Lanes) flush(p *peer) {
	if p.out == nil {
		return
	}
	if p.tell() && p.announce() {
		p.stream()
	}
}

// tell sends Accept messages, and Taken if enough bytes were taken. It reports whether
// there was room.
func (p *peer) tell() bool {
	for len(p.replies) > 0 {
		if p.out.Post(Accept, le.AppendUint64(nil, p.replies[0]), nil) != nil {
			return false
		}
		p.replies = p.replies[1:]
	}
	if p.takenEager < Kept/4 && p.pieces < Window/4 {
		return true
	}
	b := le.AppendUint64(make([]byte, 0, takenBytes), uint64(p.takenEager))
	if p.out.Post(Taken, le.AppendUint64(b, uint64(p.pieces)), nil) != nil {
		return false
	}
	p.holds -= p.takenEager
	p.takenEager, p.pieces = 0, 0
	return true
}

// announce sends the queued messages, or offers of them. It reports whether there was
// room for all.
func (p *peer) announce() bool {
	for len(p.queue) > 0 {
		t := p.queue[0]
		h := header{t.Tag, t.Call.Seq, t.Call}
		head := h.append(make([]byte, 0, headerBytes))
		cost := len(head) + len(t.Buf)
		err := ipc.ErrMessageTooLarge
		if len(t.Buf) <= EagerMax && cost <= p.kept {
			if err = p.out.Post(Eager, head, t.Buf); err == nil {
				p.kept -= cost
				t.moved = len(t.Buf)
				t.Ended()
			}
		}
		if errors.Is(err, ipc.ErrMessageTooLarge) {
			if err = p.out.Post(Offer, head, nil); err == nil {
				p.offered[h.id] = t
			}
		}
		if err != nil {
			return false
		}
		p.queue[0] = nil
		p.queue = p.queue[1:]
	}
	return true
}

// stream sends pieces of the accepted messages, one of each in turn.
func (p *peer) stream() {
	for len(p.accepted) > 0 {
		t := p.accepted[0]
		n := min(len(t.Buf)-t.moved, p.pieceSize)
		if n > p.window-p.onTheWay {
			return
		}
		b := le.AppendUint64(make([]byte, 0, pieceBytes), t.id)
		b = le.AppendUint64(b, uint64(t.moved))
		err := p.out.Post(Piece, b, t.Buf[t.moved:t.moved+n])
		if errors.Is(err, ipc.ErrMessageTooLarge) && p.pieceSize > minPiece {
			p.pieceSize /= 2
			continue
		}
		if err != nil {
			return
		}
		p.onTheWay += n
		p.accepted[0] = nil
		p.accepted = p.accepted[1:]
		if t.moved += n; t.moved < len(t.Buf) {
			p.accepted = append(p.accepted, t)
		} else {
			t.Ended()
		}
	}
}
