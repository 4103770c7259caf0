package dispatcher

import (
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// When a worker's process dies, the kernel closes its sockets one after the other.
// Another worker of a session may see the end of one of them, and give the session up,
// before the dispatcher sees the end of its own. That worker only knows of a broken
// connection. The client is to be told which worker is gone and how it ended, or the
// reason that the worker itself gave as it stopped. So the dispatcher keeps the session
// for a grace period.

// grace is how long a session is kept that a worker has given up because another is gone.
// It is shorter than the time for which a client that has lost a connection waits to be
// told a reason (reasonWait of package client).
const grace = time.Second

// givenUp is a session in its grace period.
type givenUp struct {
	session *session
	by      *peer // the first worker to give it up
	until   time.Time
}

// giveUp handles m, a Fail of worker p about s. It reports whether the Fail is held back:
// it says that a worker is gone (CodeWorkerGone: another one, or p itself, which is about
// to leave), or the connection of another worker has ended; a better reason may come
// within grace. If none does, the client is told this one. Until then the session keeps
// its turn, and the workers that did not fail hear nothing. The worker that failed has
// closed its session, and with that its part of the turn, already.
func (d *Dispatcher) giveUp(s *session, p *peer, m *ipc.Message) bool {
	var fail wire.Fail
	if len(s.workers) == 1 || wire.Parse(m.Body, &fail) != nil {
		return false
	}
	// w's connection has ended. serve calls lost for w when it has handled w's last
	// messages.
	ended := func(w *peer) bool { return w != p && w.conn.Err() != nil }
	if fail.Code != wire.CodeWorkerGone && !slices.ContainsFunc(s.workers, ended) {
		return false
	}
	if s.said == nil {
		s.said = map[*peer]string{}
		d.givenUp = append(d.givenUp, givenUp{s, p, time.Now().Add(grace)})
		time.AfterFunc(grace, d.o.Waiter.Wake)
	}
	s.said[p] = fail.Text
	return true
}

// failGivenUp fails the sessions whose grace period is over, each with the reason of the
// first worker that gave it up. A session of which a worker was found to be gone
// meanwhile has failed already.
func (d *Dispatcher) failGivenUp(now time.Time) (worked bool) {
	for len(d.givenUp) > 0 && (d.givenUp[0].session.over || !now.Before(d.givenUp[0].until)) {
		g := d.givenUp[0]
		d.givenUp = slices.Delete(d.givenUp, 0, 1)
		// nothing if it is over
		d.failSession(g.session, wire.CodeWorkerGone, g.session.said[g.by])
		worked = true
	}
	return worked
}
