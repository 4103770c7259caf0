package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// direct is a session of this worker alone that has a connection of its own with its
// client. Messages may come through the dispatcher as well, until the client has taken
// the connection.
type direct struct {
	forwarded
	in    inlet
	held  wire.Held // tells another dispatcher of it
	alone bool      // it has outlived its dispatcher: it ends with the connection
}

func (s *direct) inlet() *inlet { return &s.in }

// poll reports whether a message, or an error, of the connection can be handled now.
func (s *direct) poll() bool {
	if s.in.conn == nil && s.in.refused.Load() && s.in.err == nil {
		s.in.err = fmt.Errorf("%w: it did not take the connection", ipc.ErrPeerGone)
	}
	return s.in.receive() && (s.in.ready || s.in.admit()) || s.in.err != nil
}

// handleInlet handles the message that the connection holds.
func (s *direct) handleInlet(ctx context.Context) error {
	s.replies = &s.in
	err := s.handle(ctx, &s.in.msg)
	s.replies = &s.out
	return s.in.finish(err)
}

// lost closes a connection that has ended. The client is gone, and the dispatcher, or the
// caller if there is none, ends the session, unless the client broke the protocol.
func (s *direct) lost(context.Context) error {
	err := s.in.err
	s.in.close()
	return inletError(err)
}

// inletError returns the error of a session whose own connection ended with err; nil if
// the peer is gone, which the dispatcher notices as well.
func inletError(err error) error {
	if errors.Is(err, ipc.ErrPeerGone) {
		return nil
	}
	return fmt.Errorf("%w: its own connection: %w", errProtocol, err)
}

func (s *direct) close() {
	s.in.close()
	s.forwarded.close()
}

// tell tells the client of a session that has outlived its dispatcher why it ends. The
// next dispatcher may not know the session yet.
func (s *direct) tell(m *wire.Fail) {
	if s.alone && s.in.conn != nil {
		_ = ipc.TrySend(s.in.conn, ipc.Message{Kind: wire.KindFail, Body: wire.Append(nil, m)})
	}
}

// ask does nothing: a session of one worker needs no turn of the dispatcher's.
func (s *direct) ask(context.Context) error { return nil }
