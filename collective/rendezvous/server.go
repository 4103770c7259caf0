package rendezvous

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// joinTimeout bounds the time between a conn's handshake and its join, which its dialer
// sends at once.
const joinTimeout = 10 * time.Second

// maxStrangers is how many conns may be without their join, beside one of each rank,
// which may all come at once. One more ends the oldest: silent callers keep no rank out.
const maxStrangers = 256

// server is rank 0's store. One goroutine accepts conns and receives from all of them. It
// answers under the lock, as do timers and the calls of rank 0 itself.
type server struct {
	world    World
	run      [runBytes]byte // names this run, at random
	warnings *ipc.Warnings
	waiter   ipc.Waiter   // of the listener and of all conns
	lis      ipc.Listener // nil for a world of one
	loop     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []*member // oldest first
	roster roster
	board  board
	idle   chan struct{} // closed when Close is waiting and only rank 0 is left
}

// newServer returns a server without a listener; listen and start complete it.
func newServer(w World, log *slog.Logger) *server {
	s := &server{world: w, warnings: ipc.NewWarnings(log)}
	rand.Read(s.run[:]) // never fails
	s.roster = roster{world: w, here: map[uint32]*member{}, left: map[uint32]bool{}}
	s.board = board{
		lock: &s.mu, roster: &s.roster, log: log, patience: firstReminder,
		keys: map[string][]byte{}, limit: maxStore, waits: map[string][]*pending{}, gathers: map[gatherKey]*gather{},
	}
	return s
}

// start serves the conns of lis, whose options have waiter.
func (s *server) start(lis ipc.Listener, waiter ipc.Waiter) {
	s.lis, s.waiter = lis, waiter
	s.loop.Go(func() {
		_ = waiter.Wait(context.Background(), s.turn) // until the server is closed
	})
}

// host takes in rank 0, which receives its replies by deliver.
func (s *server) host(deliver func(message)) *member {
	m := &member{deliver: deliver}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roster.join(m, joining{size: uint32(s.world.Size), epoch: s.world.Epoch})
	return m
}

// request handles a request of rank 0.
func (s *server) request(m *member, kind, id uint32, q request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_ = s.board.handle(m, kind, id, q) // the kind is one of Store's
	}
}

// turn does all that can be done now and reports whether the server is closed.
func (s *server) turn() (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed {
		c, ok := s.lis.TryAccept()
		if !ok {
			break
		}
		s.admit(c)
	}
	if !s.closed {
		s.conns = slices.DeleteFunc(s.conns, func(m *member) bool { return !s.serve(m) })
	}
	return s.closed
}

// admit adds a conn that has not joined yet.
func (s *server) admit(c ipc.Conn) {
	strangers, oldest := 0, 0
	for i, m := range slices.Backward(s.conns) {
		if !m.joined {
			strangers, oldest = strangers+1, i
		}
	}
	if strangers >= maxStrangers+s.world.Size {
		s.end(s.conns[oldest], errDisplaced)
		s.conns = slices.Delete(s.conns, oldest, oldest+1)
	}
	m := &member{conn: c}
	m.late = time.AfterFunc(joinTimeout, func() { c.Close() })
	s.conns = append(s.conns, m)
}

// errDisplaced ends a conn that has not joined when too many have not.
var errDisplaced = errors.New("the oldest of too many conns that did not join")

// serve takes what a conn has received and sends what it has room for. It returns false
// when the conn has ended.
func (s *server) serve(m *member) bool {
	for {
		msg, ok, err := m.conn.TryRecv()
		if err == nil && !ok {
			m.flush()
			return true
		}
		if err == nil {
			err = s.take(m, msg)
			m.conn.Release()
		}
		if err != nil {
			s.end(m, err)
			return false
		}
	}
}

// errBye is returned by take when the rank leaves.
var errBye = errors.New("the rank leaves")

// take handles one received message. An error ends the conn.
func (s *server) take(m *member, received ipc.Message) error {
	limit := maxRequest
	if !m.joined {
		limit = maxPiece
	}
	msg, whole, err := m.incoming.take(received, limit)
	switch {
	case err != nil || !whole:
		return err
	case !m.joined:
		return s.join(m, msg)
	case msg.kind == kindBye:
		return errBye
	}
	var q request
	if err := parse(msg.fields, &q); err != nil {
		return err
	}
	return s.board.handle(m, msg.kind, msg.id, q)
}

// refusedError is rank 0's reason to refuse a caller. It unwraps to the sentinel of its
// code.
type refusedError struct{ failure }

func (e *refusedError) Error() string { return fmt.Sprintf("%v: %s", e.code.sentinel(), e.text) }
func (e *refusedError) Unwrap() error { return e.code.sentinel() }

// join lets a rank in. The error is the reason against it, of which the rank has been
// told.
func (s *server) join(m *member, msg message) error {
	var j joining
	err := error(fmt.Errorf("%w: message of kind %d instead of a join", ErrProtocol, msg.kind))
	if msg.kind == kindJoin {
		err = parseProven(msg.fields, &j, s.world.Secret, labelJoin)
	}
	var e failure
	switch ok := false; {
	case errors.Is(err, ErrSecret):
		e = failure{code: codeSecret, text: fmt.Sprintf("rank 0 knows another than rank %d of %d", j.rank, j.size)}
	case err != nil:
		e = failure{code: codeVersion, text: err.Error()}
	default:
		if e, ok = s.roster.join(m, j); ok {
			m.late.Stop()
			m.send(kindWelcome, msg.id, proven(&welcome{s.run}, s.world.Secret, labelWelcome))
			s.judge()
			return nil
		}
	}
	m.send(kindRefuse, msg.id, encode(&e))
	refused := &refusedError{e}
	if e.code != codeLeft {
		s.refuse(fmt.Sprintf("a caller from %s: %v", from(m.conn.Peer()), refused), j, refused)
	}
	return refused
}

// from names a caller's place.
func from(p ipc.Peer) string {
	if p.Addr != "" {
		return p.Addr
	}
	return fmt.Sprintf("this host (pid %d)", p.PID)
}

// end forgets a conn. err is why it ended.
func (s *server) end(m *member, err error) {
	if m.joined && errors.Is(err, ErrProtocol) {
		s.refuse(fmt.Sprintf("rank %d: %v", m.rank, err), joining{}, err)
	}
	m.late.Stop()
	m.conn.Close()
	if m.joined {
		s.left(m)
	}
}

// left forgets a rank that is gone.
func (s *server) left(m *member) {
	s.roster.leave(m)
	s.board.lost(m.rank)
	s.checkIdle()
}

// turnedAway is called by the transport with a caller that failed its handshake. At a
// port it is any process, so its claim counts for nothing but the log and the reason.
func (s *server) turnedAway(p ipc.Peer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.refuse(fmt.Sprintf("a caller from %s that calls itself %q: %v", from(p), p.Name, err), joining{}, ours(err))
	}
}

// refuse records and logs that a caller was not let in.
func (s *server) refuse(text string, j joining, why error) {
	// these, which come at random, hide no rank that differs from the others
	kind := "stranger"
	for _, k := range []error{ErrSecret, ErrStale, ErrWorldSize, ErrDuplicateRank} {
		if errors.Is(why, k) {
			kind = k.Error()
		}
	}
	s.warnings.Warn(kind, "rendezvous: refused", "caller", text)
	s.roster.refuse(text, j, why)
	s.judge()
}

// judge ends the gathers of all ranks once the world cannot become complete.
func (s *server) judge() {
	if s.roster.judge() {
		s.board.giveUpAll()
	}
}

func (s *server) checkIdle() {
	if s.idle != nil && s.roster.alone() {
		close(s.idle)
		s.idle = nil
	}
}

// close ends the store after the other ranks have left, or after linger.
func (s *server) close(linger time.Duration) {
	idle := make(chan struct{})
	s.mu.Lock()
	s.idle = idle
	s.checkIdle()
	s.mu.Unlock()
	late := time.NewTimer(linger)
	defer late.Stop()
	select {
	case <-idle:
	case <-late.C:
	}
	if s.lis != nil {
		s.lis.Close()
	}
	s.mu.Lock()
	s.closed, s.idle = true, nil
	for _, m := range s.conns {
		m.late.Stop()
		m.flush()
		m.conn.Close()
	}
	s.board.close()
	s.mu.Unlock()
	if s.waiter != nil {
		s.waiter.Wake()
	}
	s.loop.Wait()
	s.warnings.Close()
}
