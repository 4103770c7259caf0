package dispatcher

import (
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/wire"
)

// When a process dies, the kernel closes its sockets one after the other: another worker of a session may see the end of one, give
// the session up and say so before the end of the dispatcher's own has come here. What it says is hearsay, a broken connection
// somewhere; that the worker is gone, which one it was and how it ended, is what the client is to be told.

// griefWait is how long a session is kept that one of its workers has given up because another is gone, for this one's end to be
// seen. It is shorter than clients wait for a reason.
const griefWait = time.Second

// widowed is a session in that time.
type widowed struct {
	session *session
	hearsay string // what the worker said
	until   time.Time
}

// widow reports whether m, a Fail of worker p, is not what the client of the session s is to be told: because another of
// its workers is gone, with which the session has ended, or because that may be about to be seen.
func (d *Dispatcher) widow(s *session, p *peer, m *ipc.Message) bool {
	for _, w := range s.workers {
		if w == p || w.gone {
			continue
		}
		if err := w.conn.Err(); err != nil {
			d.lost(w, err)
			return true
		}
	}
	var fail wire.Fail
	if len(s.workers) == 1 || wire.ParseFail(m.Body, &fail) != nil || fail.Code != wire.CodeWorkerGone {
		return false
	}
	if !s.widowed { // by the first to say so
		s.widowed = true
		d.widowed = append(d.widowed, widowed{s, fail.Text, time.Now().Add(griefWait)})
		time.AfterFunc(griefWait, d.o.Waiter.Wake)
	}
	return true
}

// mourn fails the sessions whose workers all seem to be here after all, with what one of them said.
func (d *Dispatcher) mourn(now time.Time) (worked bool) {
	for len(d.widowed) > 0 && (d.widowed[0].session.over || !now.Before(d.widowed[0].until)) {
		w := d.widowed[0]
		d.widowed = slices.Delete(d.widowed, 0, 1)
		d.failSession(w.session, wire.CodeWorkerGone, w.hearsay) // nothing if it is over
		worked = true
	}
	return worked
}
