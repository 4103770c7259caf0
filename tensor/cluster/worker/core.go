package worker

import "github.com/ringside-go/ringside/ipc/local"

// binding is to a core of its own.
//
// Workers that run a session together are waited for all the time, each by the others, and wait awake. Where there are as many as cores the
// client has to share one with a worker, which costs a few switches. But the kernel may as well leave two workers on one core, and the
// client, who waits too, alone on another: then nothing is done at the same time, and it stays so, since neither core is idle. So each
// has its core, by its rank, while it has such sessions; the client goes where there is room. Other threads of the process go where
// they like.
type binding struct {
	sessions int    // that it is bound for
	undo     func() // nil while it is not bound
}

// bind has this goroutine, the worker's, run on a core of its own for a session of so many workers on this host, if there are as
// many cores: with fewer of either the kernel has better choices.
func (w *Worker) bind(rank, size int) (bound bool) {
	b := &w.binding
	if b.undo == nil {
		n := local.Cores()
		if n < 2 || size != n {
			return false
		}
		var err error
		if b.undo, err = local.Bind(rank); err != nil {
			w.log.Debug("not bound to a core", "err", err)
			return false
		}
	}
	b.sessions++
	return true
}

// unbind ends what bind began, once it was called for every session.
func (w *Worker) unbind() {
	b := &w.binding
	if b.sessions--; b.sessions == 0 {
		b.undo()
		b.undo = nil
	}
}
