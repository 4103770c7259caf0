package dispatcher

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

const (
	// quantum is how many bytes of messages of a peer are forwarded in a round, on
	// average. One message of any size is forwarded once the peer has credit.
	quantum = 64 << 10

	// messageCost is added to the bytes of a message, which bounds tiny ones: 64 in a
	// round.
	messageCost = 1 << 10

	// defaultMaxQueued is some thousand answers of a training step.
	defaultMaxQueued = 4 << 20

	// defaultWorkerWait is longer than a worker's restart takes.
	defaultWorkerWait = 2 * time.Second

	// defaultAnswerWait is more than a worker needs between two of its messages, or to
	// notice one while a program runs, on a machine that is very busy.
	defaultAnswerWait = 10 * time.Second

	// defaultMaxSessions is more than a host has memory for.
	defaultMaxSessions = 4096

	// defaultMaxIdle is more than open a session at one time, and bounds their queues to
	// 1 GiB.
	defaultMaxIdle = 512

	// defaultIdleWait is more than a client needs to open its session after it is
	// accepted, on a machine that very many clients keep busy.
	defaultIdleWait = 5 * time.Second

	// defaultKeepUnused is more than a pause between the steps of a session.
	defaultKeepUnused = 10 * time.Second
)

// Options configures a dispatcher. The zero value and nil are the documented defaults.
type Options struct {
	// Name introduces the dispatcher to its peers. Default "dispatcher".
	Name string

	// Waiter is what the dispatcher sleeps on; its listeners must have the same one.
	// Default: one of the local transport, which serves every transport.
	Waiter ipc.Waiter

	// WorkerWait is how long a session may wait for its workers. Default 2 s; negative:
	// it fails at once.
	WorkerWait time.Duration

	// AnswerWait is how long a worker may take to say something about a session that it
	// is to open. Then the session goes to another worker, and further sessions do until
	// the worker is heard again. Default 10 s.
	AnswerWait time.Duration

	// MaxQueued is how many bytes are kept for a client that does not read, and how many
	// about sessions that open and close for a worker that does not. Default 4 MiB.
	MaxQueued int

	// MaxSessions is the most sessions at one time, and the most clients that wait to
	// resume the session of another dispatcher. Default 4096.
	MaxSessions int

	// MaxIdle is the most clients without an open session, and the most controls. A
	// further client waits until another opens its session, or until the oldest without
	// one has been connected for IdleWait: then it displaces that. It also bounds the
	// clients of failed sessions, for which the workers keep leased results. A further
	// control is refused. Default 512.
	MaxIdle int

	// IdleWait is how long a client may be without an open session while others wait to
	// be accepted. Default 5 s.
	IdleWait time.Duration

	// KeepUnused is about how long the memory of queues is kept in which nothing was
	// sent. Default 10 s.
	KeepUnused time.Duration

	// RingBytes and AllowGID are those of ipc.Options, for ListenOptions.
	RingBytes int
	AllowGID  int

	// Secret and TLS are those of ipc.Options, for listeners that other hosts reach.
	Secret []byte
	TLS    *ipc.TLS

	// Flight is a folder for the last events: when a worker dies that has sessions, or
	// does not answer, they are written to a file in it, which errors of the sessions
	// name. Only the newest files stay. Empty: none.
	Flight string

	// Logger receives events about peers, those about misbehavior as ipc.Warnings limits
	// them; nothing per message. nil discards.
	Logger *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
	c := *cmp.Or(o, &Options{})
	c.Name = cmp.Or(c.Name, "dispatcher")
	c.WorkerWait = cmp.Or(c.WorkerWait, defaultWorkerWait)
	c.AnswerWait = cmp.Or(c.AnswerWait, defaultAnswerWait)
	c.MaxQueued = cmp.Or(c.MaxQueued, defaultMaxQueued)
	c.MaxSessions = cmp.Or(c.MaxSessions, defaultMaxSessions)
	c.MaxIdle = cmp.Or(c.MaxIdle, defaultMaxIdle)
	c.IdleWait = cmp.Or(c.IdleWait, defaultIdleWait)
	c.KeepUnused = cmp.Or(c.KeepUnused, defaultKeepUnused)
	if c.IdleWait < 0 || c.AnswerWait < 0 || c.KeepUnused < 0 || c.MaxQueued < 0 || c.MaxSessions < 0 || c.MaxIdle < 0 {
		return c, fmt.Errorf("%w: AnswerWait %v, MaxQueued %d, MaxSessions %d, MaxIdle %d, IdleWait %v, KeepUnused %v: negative", ErrOption,
			c.AnswerWait, c.MaxQueued, c.MaxSessions, c.MaxIdle, c.IdleWait, c.KeepUnused)
	}
	if c.RingBytes != 0 && c.RingBytes < ipc.DefaultRingBytes {
		return c, fmt.Errorf("%w: RingBytes %d, expected at least %d: clients send messages of up to %d", ErrOption,
			c.RingBytes, ipc.DefaultRingBytes, ipc.MaxMessage)
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Waiter == nil {
		w, err := local.NewWaiter()
		if err != nil {
			return c, fmt.Errorf("dispatcher: %w", err)
		}
		c.Waiter = w
	}
	return c, nil
}
