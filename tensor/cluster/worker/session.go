package worker

import (
	"context"

	"github.com/ringside-go/ringside/ipc"
)

// session is a client's session. Its kinds are
//
//	forwarded  of this worker alone, with messages that the dispatcher forwards
//	direct     of this worker alone, with a connection of its own to the client
//	shared     of several workers
type session interface {
	// core returns the part that all kinds have.
	core() *base

	// handle handles a message of the client. errProtocol and errTeam end the session,
	// errAgain means that the message is not done; any other error ends the worker.
	handle(ctx context.Context, m *ipc.Message) error

	// close frees everything that the session has here, except results that are leased to
	// its client: those end by Worker.closeSession.
	close()
}

// connected is a session with an inlet: a connection of its own.
type connected interface {
	session

	inlet() *inlet

	// poll reports whether a message, or an error, of the inlet can be handled now. It is
	// called very often.
	poll() bool

	// ask asks the dispatcher for a turn if the inlet's message needs one.
	ask(ctx context.Context) error

	// handleInlet handles the inlet's message.
	handleInlet(ctx context.Context) error

	// lost closes an inlet that has an error. errProtocol and errTeam end the session.
	lost(ctx context.Context) error
}
