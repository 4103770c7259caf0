package worker

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// env is the part of a worker that its sessions use.
type env struct {
	name     string
	log      *slog.Logger
	dev      device.Device
	losable  device.Losable // dev, if the process can lose it
	waiter   *local.Waiter  // the goroutine sleeps on it, for all connections
	out      outbox         // to the dispatcher
	table    *shm.Table     // the clients' segments, by session
	owners   owners         // of the handles that table releases
	closing  sync.WaitGroup // goroutines of groups and inlets that end
	binds    bool           // sessions may bind the goroutine to a core
	tls      *ipc.TLS       // of conns to other hosts
	flight   string         // folder for the last collectives, see Options
	binding  binding
	turns    turns
	monitor  monitor
	listener listener
	stats    counters

	run  wire.Run  // the one being handled
	done wire.Done // its answer
}

// deviceLost returns nil, or why the device is of no use any more.
func (e *env) deviceLost() error {
	if e.losable == nil {
		return nil
	}
	if err := e.losable.Lost(); err != nil {
		return fmt.Errorf("%w: %w", ErrDevice, err)
	}
	return nil
}

// turns is the state of turns at this worker: see lead.go.
type turns struct {
	holder *lead // the session that has the turn here; nil for none
	asking bool  // a session of which this is the first worker has to ask for a turn
}

// counters are the worker's Stats.
type counters struct {
	sessions                                                 atomic.Int64
	opened, failed, runs, errors, programs, imports, results atomic.Uint64
}
