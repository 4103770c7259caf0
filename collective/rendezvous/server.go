package rendezvous

import (
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// maxStrangers is how many connections may be in the handshake at a time, beside one of each rank, which may all come at once. One
// more takes the place of the oldest: who says nothing keeps nobody out, and a rank is through in milliseconds.
const maxStrangers = 256

// firstReminder is how long the ranks of a world wait for others until rank 0's log says for whom. The next reminder comes after
// twice the time.
const firstReminder = 10 * time.Second

// server is rank 0's store. Every rank has one connection, a goroutine that reads it, and one that writes it; everything
// they share is under one lock, which nobody holds while reading or writing.
type server struct {
	world    World
	run      []byte // names this run, at random
	log      *slog.Logger
	warnings *ipc.Warnings // of those that were refused
	lis      net.Listener  // nil for a world of one

	wg        sync.WaitGroup
	mu        sync.Mutex
	closed    bool
	strangers list.List        // of *stranger, oldest first
	peers     map[uint32]*peer // by rank, that are connected
	left      map[uint32]bool  // ranks that were
	idle      chan struct{}    // closed when Close is waiting and nobody but rank 0 is left

	keys    map[string][]byte
	bytes   int                   // of keys and values
	limit   int                   // of bytes
	waits   map[string][]*pending // for a key
	gathers map[gatherKey]*gather
	refused refusals

	patience time.Duration // of the first reminder
}

// gatherKey names a gather: its group's size is part of it, so that ranks that differ on it don't meet.
type gatherKey struct {
	name string
	size uint32
}

type gather struct {
	values [][]byte // by rank, nil where missing
	left   int
	waits  []*pending
	remind *time.Timer // says who is missing; nil for sub-groups
}

// pending is a request that waits for its answer.
type pending struct {
	p     *peer
	id    uint32
	timer *time.Timer
	done  bool
}

// peer is a connected rank.
type peer struct {
	rank uint32
	link *link

	// Under the server's lock:
	pending int

	mu    sync.Mutex
	out   []frame // to be written
	bytes int
	over  bool
	wake  chan struct{}
}

func newServer(w World, lis net.Listener, log *slog.Logger) *server {
	s := &server{
		world: w, run: nonce(), log: log, warnings: ipc.NewWarnings(log), lis: lis,
		peers: map[uint32]*peer{}, left: map[uint32]bool{},
		keys: map[string][]byte{}, limit: maxStore, waits: map[string][]*pending{}, gathers: map[gatherKey]*gather{}, patience: firstReminder,
	}
	if lis != nil {
		s.wg.Go(s.accept)
	}
	return s
}

func (s *server) accept() {
	for {
		c, err := s.lis.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or the caller was gone again
			s.log.Warn("rendezvous: accepting", "err", err)
			pause := time.NewTimer(20 * time.Millisecond)
			<-pause.C
			continue
		}
		s.wg.Go(func() { s.serve(c) })
	}
}

// serve is the life of a connection.
func (s *server) serve(c net.Conn) {
	defer c.Close()
	place := s.admit(c)
	if place == nil {
		return
	}
	l, j, err := receive(c, s.world.Secret, s.run)
	if lost := s.leave(place); lost != nil {
		err = lost
	}
	if err != nil {
		s.refuse(fmt.Sprintf("a caller from %s: %v", from(c), err), j, err)
		return
	}
	p := &peer{rank: j.rank, link: l, wake: make(chan struct{}, 1)}
	if e, ok := s.join(p, j); !ok {
		_ = writeFrame(c, frame{kind: kindRefuse, body: e.append(nil)}, l.out)
		return
	}
	defer s.gone(p)
	if err := writeFrame(c, frame{kind: kindWelcome}, l.out); err != nil {
		return
	}
	c.SetDeadline(time.Time{})
	s.wg.Go(p.write)
	for {
		f, err := readFrame(c, maxRequest+macBytes+frameHeader, l.in)
		if err != nil {
			if errors.Is(err, ErrProtocol) {
				s.refuse(fmt.Sprintf("rank %d: %v", p.rank, err), joining{}, err)
			}
			return
		}
		if f.kind == kindBye {
			return
		}
		q, err := parseRequest(f.kind, f.body)
		switch {
		case errors.Is(err, ErrTooLarge):
			p.fail(f.id, failure{code: codeTooLarge, text: err.Error()})
		case err != nil:
			s.refuse(fmt.Sprintf("rank %d: %v", p.rank, err), joining{}, err)
			return
		default:
			s.handle(p, f.kind, f.id, q)
		}
	}
}

func from(c net.Conn) string {
	if a := c.RemoteAddr().String(); a != "" && a != "@" {
		return a
	}
	return "this host"
}

// stranger is a connection in the handshake.
type stranger struct {
	conn      net.Conn
	displaced bool // by a newer one, which has closed it
}

// admit gives a connection its place among those in the handshake, the oldest one's if there is no other. It gives nil once the
// store is closed.
func (s *server) admit(c net.Conn) *list.Element {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.strangers.Len() >= maxStrangers+s.world.Size {
		x := s.strangers.Remove(s.strangers.Front()).(*stranger)
		x.displaced = true
		x.conn.Close()
	}
	return s.strangers.PushBack(&stranger{conn: c})
}

// leave takes a connection from those in the handshake. The error says that it had lost its place before: it is closed, also if the
// handshake was just done.
func (s *server) leave(place *list.Element) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strangers.Remove(place) // nothing, if it is not there any more
	if place.Value.(*stranger).displaced {
		return fmt.Errorf("its handshake was the oldest of %d and not done, and another began", maxStrangers+s.world.Size)
	}
	return nil
}

// join lets a rank in, or says why not.
func (s *server) join(p *peer, j joining) (failure, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var e failure
	switch {
	case s.closed:
		e = failure{code: codeLeft, text: "rank 0 is leaving"}
	case j.epoch != s.world.Epoch:
		e = failure{code: codeEpoch, text: fmt.Sprintf("rank %d is of epoch %d, rank 0 of %d", j.rank, j.epoch, s.world.Epoch)}
	case int(j.size) != s.world.Size:
		e = failure{code: codeSize, text: fmt.Sprintf("rank %d says that there are %d ranks, rank 0 says %d", j.rank, j.size, s.world.Size)}
	case int(j.rank) >= s.world.Size:
		e = failure{code: codeSize, text: fmt.Sprintf("rank %d, expected 0 to %d", j.rank, s.world.Size-1)}
	case s.peers[j.rank] != nil:
		e = failure{code: codeDuplicate, text: fmt.Sprintf("rank %d of %d is connected already", j.rank, j.size)}
	case s.left[j.rank]:
		e = failure{code: codeLeft, text: fmt.Sprintf("rank %d of %d was here and left", j.rank, j.size)}
	default:
		s.peers[j.rank] = p
		s.checkHope()
		return failure{}, true
	}
	if e.code != codeLeft {
		s.refuseLocked(fmt.Sprintf("a caller from %s: %v: %s", from(p.link), e.code.sentinel(), e.text), j, e.code.sentinel())
	}
	return e, false
}

// gone forgets a rank whose connection ended. Who gathers with it won't have to wait for the deadline.
func (s *server) gone(p *peer) {
	p.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p.rank)
	s.left[p.rank] = true
	for k, g := range s.gathers {
		if k.isWorlds() && g.values[p.rank] == nil {
			s.failGather(g, fmt.Sprintf("rank %d left", p.rank))
		}
	}
	s.checkIdle()
}

func (s *server) checkIdle() {
	others := len(s.peers)
	if s.peers[0] != nil {
		others--
	}
	if s.idle != nil && others == 0 {
		close(s.idle)
		s.idle = nil
	}
}

// close ends the store after the others left, or after linger.
func (s *server) close(linger time.Duration) {
	idle := make(chan struct{})
	s.mu.Lock()
	s.idle = idle
	s.checkIdle()
	s.mu.Unlock()
	late := time.NewTimer(linger)
	select {
	case <-idle:
	case <-late.C:
	}
	late.Stop()
	if s.lis != nil {
		s.lis.Close()
	}
	s.mu.Lock()
	s.closed, s.idle = true, nil
	for e := s.strangers.Front(); e != nil; e = e.Next() {
		e.Value.(*stranger).conn.Close()
	}
	for _, p := range s.peers {
		p.link.Close()
	}
	for _, w := range s.waits {
		for _, x := range w {
			x.timer.Stop()
		}
	}
	for _, g := range s.gathers {
		for _, x := range g.waits {
			x.timer.Stop()
		}
	}
	s.mu.Unlock()
	s.wg.Wait()
	s.warnings.Close()
}

// send queues a frame; it never blocks. A rank that takes no replies is cut off before it holds too much memory.
func (p *peer) send(f frame) {
	p.mu.Lock()
	if !p.over {
		p.out = append(p.out, f)
		if p.bytes += len(f.body) + 64; p.bytes > 2*maxReply {
			p.over = true
			p.link.Close()
		}
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *peer) fail(id uint32, e failure) { p.send(frame{kindError, id, e.append(nil)}) }

func (p *peer) value(id uint32, v []byte) { p.send(frame{kindValue, id, v}) }

// count is a value that is a number.
func count(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

// end ends the writer.
func (p *peer) end() {
	p.mu.Lock()
	p.over, p.out = true, nil
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// write writes what was queued, until end or the connection's.
func (p *peer) write() {
	for range p.wake {
		for {
			p.mu.Lock()
			out, over := p.out, p.over
			p.out, p.bytes = nil, 0
			p.mu.Unlock()
			if over {
				return
			}
			if len(out) == 0 {
				break
			}
			for _, f := range out {
				if err := writeFrame(p.link, f, p.link.out); err != nil {
					p.link.Close() // the reader sees it and ends us
					break
				}
			}
		}
	}
}
