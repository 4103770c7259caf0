package ipc

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// Bits of a State. A transport may use those from StateOther on for itself.
const (
	StateClosed  = 1 << iota // by this end
	StateGone                // by the peer, or it died
	StateCorrupt             // the peer broke the protocol
	StateOther
)

// State is the state of one end of a conn: bits, and the error with which the peer broke
// the protocol. The conns of all transports have one. Any goroutine may call any method.
type State struct {
	atomic.Uint32
	Peer Peer // never changes

	cause atomic.Pointer[error] // set before StateCorrupt is
}

// Err implements Conn.
func (s *State) Err() error {
	switch bits := s.Load(); {
	case bits&StateClosed != 0:
		return net.ErrClosed
	case bits&StateCorrupt != 0:
		return *s.cause.Load()
	case bits&StateGone != 0:
		return s.PeerError(ErrPeerGone)
	}
	return nil
}

// PeerError returns err as an error of the peer.
func (s *State) PeerError(err error) error { return &PeerError{Peer: s.Peer, Err: err} }

// Corrupt keeps and logs the first error of a peer that broke the protocol, and returns
// it as ErrCorrupt. The caller then sets StateCorrupt.
func (s *State) Corrupt(err error, w *Warnings) error {
	if !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	err = s.PeerError(err)
	if s.cause.CompareAndSwap(nil, &err) {
		what := "peer broke the protocol"
		if errors.Is(err, ErrDamaged) {
			what = "data was damaged on the way"
		}
		w.Warn("conn", what, "peer", s.Peer.Name, "pid", s.Peer.PID, "addr", s.Peer.Addr, "err", err)
	}
	return *s.cause.Load()
}

// CheckMessage returns an error for a message that a queue for bodies of at most limit
// bytes never takes.
func CheckMessage(kind uint32, n, limit int) error {
	if n < 0 || n > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrMessageTooLarge, n, limit)
	}
	if kind > MaxKind {
		return fmt.Errorf("%w: kind %#x, at most %#x", ErrBadKind, kind, MaxKind)
	}
	return nil
}
