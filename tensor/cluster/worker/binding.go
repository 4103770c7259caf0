package worker

import (
	"log/slog"

	"github.com/ringside-go/ringside/ipc/local"
)

// binding binds the worker's goroutine to one core while it has sessions that use every
// core of the host.
//
// Workers that run a session together wait for each other all the time, and spin while
// they wait. The client shares a core with one of them if there are as many workers as
// cores. The kernel may also put two workers on one core and leave the client, which
// spins too, alone on another. Nothing runs in parallel then, and no core is idle, so the
// kernel does not change it. A core for each worker, chosen by its rank, avoids this. The
// client and the other threads of the process go where there is room.
type binding struct {
	sessions int    // that the goroutine is bound for
	undo     func() // nil while it is not bound
}

// bind binds the calling goroutine, the worker's, to a core for a session of size workers
// on this host. It does nothing unless there are as many cores: with more or fewer
// workers the kernel's choice is better.
func (b *binding) bind(rank, size int, log *slog.Logger) (bound bool) {
	if b.undo == nil {
		n := local.Cores()
		if n < 2 || size != n {
			return false
		}
		var err error
		if b.undo, err = local.Bind(rank); err != nil {
			log.Debug("not bound to a core", "err", err)
			return false
		}
	}
	b.sessions++
	return true
}

// unbind ends the binding when it was called for every session.
func (b *binding) unbind() {
	if b.sessions--; b.sessions == 0 {
		b.undo()
		b.undo = nil
	}
}
