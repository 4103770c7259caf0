package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Monitor asks a dispatcher and its workers for their counters and events, without a
// session. A worker answers between two of its messages: one that runs a long program
// answers late, and one that hangs does not answer. One goroutine at a time uses a
// Monitor.
type Monitor struct {
	conn  ipc.Conn
	addr  string
	spare *WorkerReport // see Reuse
}

// NewMonitor connects to the dispatcher at addr. It uses the options Transport, Secret
// and Logger.
func NewMonitor(ctx context.Context, options *Options, addr string) (*Monitor, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	conn, err := route.Dial(ctx, order(o.Transport), []string{addr}, &ipc.Options{
		Hello: ipc.Peer{Role: ipc.RoleControl, Name: "monitor"}, Secret: o.Secret, TLS: o.TLS, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Monitor{conn: conn, addr: addr}, nil
}

// Status asks the dispatcher at addr once, with the options of NewMonitor.
func Status(ctx context.Context, options *Options, addr string) (Counters, error) {
	m, err := NewMonitor(ctx, options, addr)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Status(ctx)
}

// Status returns the dispatcher's counters: those of dispatcher.Stats, and for each
// worker worker.NAME.sessions and others. No answer of a worker may be awaited.
func (m *Monitor) Status(ctx context.Context) (Counters, error) {
	if err := m.AskDispatcher(ctx); err != nil {
		return nil, err
	}
	answer, err := m.Next(ctx)
	if err != nil {
		return nil, err
	}
	c, ok := answer.(Counters)
	if !ok {
		return nil, m.at(fmt.Errorf("%w: Watched, which was not asked for", ipc.ErrCorrupt))
	}
	return c, nil
}

// AskDispatcher asks the dispatcher for its counters.
func (m *Monitor) AskDispatcher(ctx context.Context) error {
	return m.send(ctx, wire.KindStatus, &wire.Status{})
}

// AskAll asks the dispatcher for the training runs that it knows, and then its counters.
func (m *Monitor) AskAll(ctx context.Context) error {
	return m.send(ctx, wire.KindStatus, &wire.Status{Trainings: true})
}

// Tell tells the dispatcher how far a training run of this process is, in place of the
// last time. The run is over for the dispatcher when the Monitor is closed.
func (m *Monitor) Tell(ctx context.Context, t *Training) error {
	if err := m.conn.Err(); err != nil {
		return m.at(err)
	}
	return m.send(ctx, wire.KindTraining, t)
}

// Ask asks the workers, or the one that q names. They measure from now on, and stop some
// seconds after they were last asked.
func (m *Monitor) Ask(ctx context.Context, q Question) error {
	return m.send(ctx, wire.KindWatch, &q)
}

// SessionProgram is a program of a session that runs.
type SessionProgram struct {
	Encoded  []byte // tensor.ParseProgram reads it
	Hash     tensor.Hash
	Runs     uint64 // how often it ran
	Session  string // the session's name
	Worker   string // that told of it: the session's first
	Workers  int    // that run the session together
	Programs int    // of the session
}

// Program returns the program that the session of that number ran most often, as its
// first worker has it. The numbers of sessions are those of WorkerSession.ID. The error
// is ErrNoProgram if there is no such session, or it has run none. No answer of a worker
// may be awaited.
func (m *Monitor) Program(ctx context.Context, session uint64) (*SessionProgram, error) {
	p, ask := new(SessionProgram), wire.Show{Of: session}
	for {
		if err := m.send(ctx, wire.KindShow, &ask); err != nil {
			return nil, err
		}
		answer, err := m.Next(ctx)
		if err != nil {
			return nil, err
		}
		x, ok := answer.(*wire.Shown)
		if !ok {
			return nil, m.at(fmt.Errorf("%w: %T, which was not asked for", ipc.ErrCorrupt, answer))
		}
		switch {
		case x.Workers == 0:
			return nil, m.at(fmt.Errorf("%w: no session %d has a worker", ErrNoProgram, session))
		case x.Total == 0:
			return nil, m.at(fmt.Errorf("%w: session %d, %q, has run none yet", ErrNoProgram, session, x.Name))
		case int(x.Off) != len(p.Encoded) || ask.Hash != (wire.Hash{}) && x.Hash != ask.Hash || len(x.Part) == 0:
			return nil, m.at(fmt.Errorf("%w: Shown has %d bytes at %d, expected some at %d", ipc.ErrCorrupt, len(x.Part), x.Off, len(p.Encoded)))
		}
		p.Encoded = append(p.Encoded, x.Part...)
		if ask.Hash, ask.Off = x.Hash, uint32(len(p.Encoded)); ask.Off == x.Total {
			p.Hash, p.Runs, p.Session, p.Worker, p.Workers, p.Programs = tensor.Hash(x.Hash), x.Runs, x.Name, x.Worker, int(x.Workers), int(x.Programs)
			return p, nil
		}
	}
}

// Reuse gives back a report of Next, whose memory a later one has.
func (m *Monitor) Reuse(r *WorkerReport) { m.spare = r }

// Next waits for the next answer: Counters of the dispatcher, a *Training that it knows,
// or a *WorkerReport, which is the caller's until it is given to Reuse. It returns ctx's
// error if ctx is done before. A Fail of the dispatcher is an error.
func (m *Monitor) Next(ctx context.Context) (answer any, err error) {
	msg, err := m.conn.Recv(ctx)
	if err != nil {
		return nil, m.at(err)
	}
	defer m.conn.Release()
	ipc.CloseFiles(msg.Files)
	var reply wire.StatusReply
	training, shown := new(Training), new(wire.Shown)
	switch msg.Kind {
	case wire.KindStatusReply:
		err = wire.Parse(msg.Body, &reply)
		answer = reply.Counters
	case wire.KindWatched:
		report := m.spare
		if m.spare = nil; report == nil {
			report = new(WorkerReport)
		}
		err = wire.Parse(msg.Body, report)
		answer = report
	case wire.KindTraining:
		err = wire.Parse(msg.Body, training)
		answer = training
	case wire.KindShown:
		err = wire.Parse(msg.Body, shown)
		shown.Part = bytes.Clone(shown.Part)
		answer = shown
	case wire.KindFail:
		var f wire.Fail
		if err = wire.Parse(msg.Body, &f); err == nil {
			err = lost(&f)
		}
	default:
		err = fmt.Errorf("%w: %s, which was not asked for", ipc.ErrCorrupt, wire.KindName(msg.Kind))
	}
	if err != nil {
		return nil, m.at(err)
	}
	return answer, nil
}

// send sends a message. It ignores that the dispatcher has closed the connection: Next
// returns that error, or the dispatcher's reason.
func (m *Monitor) send(ctx context.Context, kind uint32, question wire.Message) error {
	err := ipc.Send(ctx, m.conn, ipc.Message{Kind: kind, Body: wire.Append(nil, question)})
	if err == nil || errors.Is(err, ipc.ErrPeerGone) {
		return nil
	}
	return m.at(err)
}

// at returns err with the dispatcher that it came from.
func (m *Monitor) at(err error) error {
	return fmt.Errorf("client: dispatcher at %s: %w", m.addr, err)
}

// Close hangs up.
func (m *Monitor) Close() error { return m.conn.Close() }
