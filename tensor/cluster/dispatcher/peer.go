package dispatcher

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// peer is a client, worker or control, and its connection.
type peer struct {
	conn ipc.Conn
	who  ipc.Peer
	role ipc.Role
	came time.Time // when it was accepted
	gone bool
	warm int // rounds in which it is looked at in any case
	// silent: a worker that has not answered in time, and was not heard since
	silent   bool
	answered time.Time // a worker: when it last said something about a session to open

	events string // of a silent worker: where the events are, for errors of its sessions

	msg    ipc.Message // the oldest message, when held
	held   bool
	credit int // bytes that it may still have forwarded in this round

	queue  []ipc.Message // those that wait for room, oldest first; they own their files
	queued int           // bytes of it

	session  *session            // of a client; nil when it has none
	claim    string              // token of the session that a client waits to resume
	sessions map[uint64]*session // of a worker
	device   *wire.Device        // of a worker that has told it
	bytes    uint64              // forwarded to a worker
	messages uint64              // forwarded to a worker
	asks     uint64              // number of a control's Watch; 0: none yet
	training *wire.Training      // the last of a control; nil: none
}

// far reports whether the peer shares no memory with this host: its transport carries no
// descriptors.
func (p *peer) far() bool {
	return !p.conn.Features().Files
}

// busy reports whether a worker runs a program for which its other sessions wait.
func (p *peer) busy() bool { return p.device != nil && p.device.Busy }

// LogValue names the peer in logs.
func (p *peer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("role", p.role.String()), slog.String("name", p.who.Name), slog.Int("pid", p.who.PID))
}

// reserve reserves room for a message. The error is ErrFull also while older messages
// wait.
func (p *peer) reserve(kind uint32, n int) ([]byte, error) {
	if len(p.queue) > 0 {
		return nil, ipc.ErrFull
	}
	return p.conn.TryReserve(kind, n)
}

// trySend sends a message if there is room now, with the session's number in it. The
// files stay the caller's. The error is ErrFull also while older messages wait.
func (p *peer) trySend(kind uint32, body []byte, session uint64, files []*os.File) error {
	buf, err := p.reserve(kind, len(body))
	if err != nil {
		return err
	}
	copy(buf, body)
	wire.SetSession(buf, session)
	return p.conn.Commit(files...)
}

// send sends a message now or once there is room, and closes its files. It reports
// whether the message had to be kept. It ignores that the peer is gone: serve finds that.
func (p *peer) send(kind uint32, body []byte, session uint64, files []*os.File) (kept bool) {
	err := p.trySend(kind, body, session, files)
	if !errors.Is(err, ipc.ErrFull) {
		ipc.ClosePassed(files)
		return false
	}
	q := ipc.Message{Kind: kind, Body: append([]byte(nil), body...), Files: files}
	wire.SetSession(q.Body, session)
	p.queue = append(p.queue, q)
	p.queued += len(q.Body)
	return true
}

// flush sends messages that wait for room, and reports whether it sent any.
func (p *peer) flush() bool {
	n := 0
	for ; n < len(p.queue); n++ {
		q := p.queue[n]
		if errors.Is(ipc.TrySend(p.conn, q), ipc.ErrFull) {
			break
		}
		ipc.ClosePassed(q.Files)
		p.queued -= len(q.Body)
	}
	if n == len(p.queue) {
		p.queue = nil
	} else {
		clear(p.queue[:n])
		p.queue = p.queue[n:]
	}
	return n > 0
}

// forget drops the messages that wait for room.
func (p *peer) forget() {
	for _, q := range p.queue {
		ipc.CloseFiles(q.Files)
	}
	p.queue, p.queued = nil, 0
}

// tell sends m, if there is room now, to a peer whose connection is about to be closed.
func (p *peer) tell(m *wire.Fail) {
	p.flush()
	m.Text = wire.CutText(m.Text)
	_ = p.trySend(wire.KindFail, wire.Append(nil, m), m.Session, nil)
}

// release releases the held message, and closes the files that were not passed on.
func (p *peer) release() {
	if !p.held {
		return
	}
	ipc.CloseFiles(p.msg.Files)
	p.conn.Release()
	p.msg, p.held = ipc.Message{}, false
}

// end closes the connection.
func (p *peer) end() {
	p.release()
	p.forget()
	_ = p.conn.Close()
}

// ending returns a few words about how a peer ended.
func ending(err error) string {
	if errors.Is(err, ipc.ErrPeerGone) {
		return "it closed its connection or died"
	}
	return err.Error()
}
