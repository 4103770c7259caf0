package dispatcher

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

const (
	// quantum is how many bytes of messages a peer may have forwarded a turn, on average. One
	// message of any size is forwarded once the peer has credit.
	quantum = 64 << 10

	// messageCost is what a message counts in a turn beside its bytes, so that tiny ones
	// are bounded too: 64 a turn.
	messageCost = 1 << 10

	// defaultMaxQueued is some thousand answers of a training step.
	defaultMaxQueued = 4 << 20

	// defaultWorkerWait is longer than a worker's restart takes.
	defaultWorkerWait = 2 * time.Second

	// defaultMaxSessions is more than a host has memory for.
	defaultMaxSessions = 4096

	// defaultMaxIdle is more than ever are on their way to a session, and 1 GiB of queues at most.
	defaultMaxIdle = 512
)

// Options of a dispatcher. The zero value and nil are the documented defaults.
type Options struct {
	// Name introduces the dispatcher to its peers. Default "dispatcher".
	Name string

	// Waiter is what the dispatcher sleeps on; its listeners must have the same. Default one of
	// the local transport, which serves every transport.
	Waiter ipc.Waiter

	// WorkerWait is how long a session may wait for a worker to be there. Default 2 s;
	// negative: it fails at once.
	WorkerWait time.Duration

	// MaxQueued is how many bytes are kept for a client that does not read, and of sessions that are opened and closed for a
	// worker that does not. Default 4 MiB.
	MaxQueued int

	// MaxSessions is how many sessions there may be at a time. Default 4096.
	MaxSessions int

	// MaxIdle is how many clients may be connected without an open session, and how many that ask for Status and Watch. One more client
	// takes the place of the oldest without a session, for a client opens one at once; one more that asks is refused. Default 512.
	MaxIdle int

	// RingBytes and AllowGID are those of ipc.Options, for ListenOptions.
	RingBytes int
	AllowGID  int

	// Secret is that of ipc.Options, for listeners that other hosts reach.
	Secret []byte

	// Logger receives peers that come, go and misbehave, these as ipc.Warnings has it; nothing per message. nil discards.
	Logger *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Name == "" {
		c.Name = "dispatcher"
	}
	if c.WorkerWait == 0 {
		c.WorkerWait = defaultWorkerWait
	}
	if c.MaxQueued == 0 {
		c.MaxQueued = defaultMaxQueued
	}
	if c.MaxSessions == 0 {
		c.MaxSessions = defaultMaxSessions
	}
	if c.MaxIdle == 0 {
		c.MaxIdle = defaultMaxIdle
	}
	if c.MaxQueued < 0 || c.MaxSessions < 0 || c.MaxIdle < 0 {
		return c, fmt.Errorf("%w: MaxQueued %d, MaxSessions %d, MaxIdle %d: negative", ErrOption, c.MaxQueued, c.MaxSessions, c.MaxIdle)
	}
	if c.RingBytes != 0 && c.RingBytes < ipc.DefaultRingBytes {
		return c, fmt.Errorf("%w: RingBytes %d, expected at least %d: clients send messages of up to %d", ErrOption,
			c.RingBytes, ipc.DefaultRingBytes, ipc.MaxMessage)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Waiter == nil {
		w, err := local.NewWaiter()
		if err != nil {
			return c, fmt.Errorf("dispatcher: %w", err)
		}
		c.Waiter = w
	}
	return c, nil
}
