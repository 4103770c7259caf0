package dispatcher

import (
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// When a process dies, the kernel closes its sockets one after the other: another worker of a session may see the end of one, give
// the session up and say so before the end of the dispatcher's own has come here. What it says is hearsay, a broken connection
// somewhere; that the worker is gone, which one it was and how it ended, is what the client is to be told: by that worker itself, if it
// still said why it stops.

// griefWait is how long a session is kept that one of its workers has given up because another is gone, for this one's end to be
// seen. It is shorter than clients wait for a reason.
const griefWait = time.Second

// widowed is a session in that time.
type widowed struct {
	session *session
	by      *peer // the first to give it up
	until   time.Time
}

// widow reports whether m, a Fail of worker p, is not what the client of the session s is to be told, or not now: another of its workers
// is gone, or may be about to be seen to be, or p itself is about to leave. What p says is kept until then.
func (d *Dispatcher) widow(s *session, p *peer, m *ipc.Message) bool {
	var fail wire.Fail
	if len(s.workers) == 1 || wire.ParseFail(m.Body, &fail) != nil {
		return false
	}
	ended := func(w *peer) bool { return w != p && w.conn.Err() != nil } // its turn will show, after what it still said
	if fail.Code != wire.CodeWorkerGone && !slices.ContainsFunc(s.workers, ended) {
		return false
	}
	if s.said == nil { // by the first to say so
		s.said = map[*peer]string{}
		d.widowed = append(d.widowed, widowed{s, p, time.Now().Add(griefWait)})
		time.AfterFunc(griefWait, d.o.Waiter.Wake)
	}
	s.said[p] = fail.Text
	return true
}

// mourn fails the sessions whose workers all seem to be here after all, with what the first of them said.
func (d *Dispatcher) mourn(now time.Time) (worked bool) {
	for len(d.widowed) > 0 && (d.widowed[0].session.over || !now.Before(d.widowed[0].until)) {
		w := d.widowed[0]
		d.widowed = slices.Delete(d.widowed, 0, 1)
		d.failSession(w.session, wire.CodeWorkerGone, w.session.said[w.by]) // nothing if it is over
		worked = true
	}
	return worked
}
