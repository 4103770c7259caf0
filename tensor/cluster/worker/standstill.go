package worker

import (
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc/local"
)

// standstill says in the log that the dispatcher stands still, because a signal has
// stopped it, and that it goes on. It looks from a goroutine of its own: the worker's may
// wait for room in the connection to that dispatcher.
type standstill struct {
	mu    sync.Mutex // held while it looks
	timer *time.Timer
	said  string // what was said last; empty: the dispatcher goes on
	ended bool
}

// begin looks once in every, until end.
func (s *standstill) begin(every time.Duration, e *env) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(every, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.ended {
			s.look(e)
			s.timer.Reset(every)
		}
	})
}

func (s *standstill) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.timer.Stop()
}

// look logs a change.
func (s *standstill) look(e *env) {
	e.out.mu.Lock()
	peer := e.out.conn.Peer()
	e.out.mu.Unlock()
	text := local.Standstill(peer)
	switch {
	case text == s.said:
	case text != "":
		e.log.Warn("the dispatcher stands still", "worker", e.name, "because", text)
	default:
		e.log.Info("the dispatcher goes on", "worker", e.name, "pid", peer.PID)
	}
	s.said = text
}
