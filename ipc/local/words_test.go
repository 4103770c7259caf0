package local_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/ring"
)

// service answers every message with the same bytes, on one Waiter for all its conns, as
// the dispatcher and the workers do.
type service struct {
	t       *testing.T
	ctx     context.Context
	waiter  *local.Waiter
	listen  ipc.Listener
	path    string
	offered chan ipc.Conn // conns that came without a listener
	conns   []ipc.Conn
}

func serve(t *testing.T) *service {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	w, err := local.NewWaiter()
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, ctx: ctx, waiter: w, offered: make(chan ipc.Conn, 1)}
	s.listen, s.path = listen(t, &ipc.Options{RingBytes: ipc.MinRingBytes, Waiter: w})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s.waiter.Wait(ctx, s.work) == nil {
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		for _, c := range s.conns {
			c.Close()
		}
		w.Close()
	})
	return s
}

// work accepts, answers, and lets go of conns that have ended. It reports whether there
// was anything to do.
func (s *service) work() (worked bool) {
	if c, ok := s.listen.TryAccept(); ok {
		s.conns, worked = append(s.conns, c), true
	}
	select {
	case c := <-s.offered:
		s.conns, worked = append(s.conns, c), true
	default:
	}
	open := s.conns[:0]
	for _, c := range s.conns {
		m, ok, err := c.TryRecv()
		if ok {
			worked = true
			var buf []byte
			if buf, err = c.TryReserve(m.Kind, len(m.Body)); err == nil {
				copy(buf, m.Body)
				ipc.CloseFiles(m.Files)
				err = c.Commit()
			}
			c.Release()
		}
		if err != nil {
			c.Close()
			worked = true
			continue
		}
		open = append(open, c)
	}
	clear(s.conns[len(open):])
	s.conns = open
	return worked
}

// dial connects by the service's address.
func (s *service) dial() (ipc.Conn, error) { return local.New().Dial(s.ctx, s.path, nil) }

// take connects by a descriptor, as a session with a conn of its own does.
func (s *service) take() (ipc.Conn, error) {
	theirs, _, err := local.New().Offer(&ipc.Options{RingBytes: ipc.MinRingBytes, Waiter: s.waiter}, func(c ipc.Conn, err error) {
		if err != nil {
			s.t.Error(err)
			return
		}
		s.offered <- c
		s.waiter.Wake()
	})
	if err != nil {
		return nil, err
	}
	return local.New().Take(s.ctx, theirs, nil)
}

// ask sends body and checks the answer.
func (s *service) ask(c ipc.Conn, body uint64) {
	s.t.Helper()
	buf, err := c.Reserve(s.ctx, 7, 8)
	if err != nil {
		s.t.Fatalf("Reserve: %v", err)
	}
	binary.LittleEndian.PutUint64(buf, body)
	if err := c.Commit(); err != nil {
		s.t.Fatalf("Commit: %v", err)
	}
	m, err := c.Recv(s.ctx)
	if err != nil {
		s.t.Fatalf("Recv: %v", err)
	}
	if m.Kind != 7 || len(m.Body) != 8 || binary.LittleEndian.Uint64(m.Body) != body {
		s.t.Fatalf("asked %x, the answer is kind %d: %x", body, m.Kind, m.Body)
	}
	c.Release()
}

// TestStoredVersion stores another version in the listener's page of bells. A second
// client is let in all the same.
func TestStoredVersion(t *testing.T) {
	s := serve(t)
	attacker, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer attacker.Close()
	_, page := local.Memory(attacker)
	binary.NativeEndian.PutUint32(page[8:], 2)
	second, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	s.ask(second, 1)
	s.ask(attacker, 2)
}

// TestEveryWord stores a random value in each word that a peer can write, one at a time.
// A second client gets right answers all the while, and new clients are let in: by the
// service's address and, as with a session's own conn, by a descriptor.
func TestEveryWord(t *testing.T) {
	for name, connect := range map[string]func(*service) (ipc.Conn, error){
		"address": (*service).dial, "descriptor": (*service).take,
	} {
		t.Run(name, func(t *testing.T) { everyWord(t, connect) })
	}
}

func everyWord(t *testing.T, connect func(*service) (ipc.Conn, error)) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := serve(t)
	client := func() ipc.Conn {
		c, err := connect(s)
		if err != nil {
			t.Fatalf("a client is not let in: %v", err)
		}
		return c
	}
	honest, attacker := client(), client()
	defer honest.Close()
	defer func() { attacker.Close() }()
	var longest time.Duration
	one := func(area string, memory func() []byte, word int) {
		v := r.Uint32() >> r.IntN(32)
		binary.NativeEndian.PutUint32(memory()[4*word:], v)
		if buf, err := attacker.TryReserve(1, r.IntN(100)); err == nil {
			clear(buf)
			_ = attacker.Commit()
		} else if !errors.Is(err, ipc.ErrCorrupt) && !errors.Is(err, ipc.ErrPeerGone) && err != ipc.ErrFull {
			t.Fatalf("%s, word %d, value %#x: %v", area, word, v, err)
		}
		began := time.Now()
		s.ask(honest, r.Uint64())
		third := client()
		s.ask(third, r.Uint64())
		third.Close()
		longest = max(longest, time.Since(began))
		if t.Failed() {
			t.Fatalf("%s, word %d, value %#x", area, word, v)
		}
		if attacker.Err() != nil {
			attacker.Close()
			attacker = client()
		}
	}
	rings := func() []byte { mem, _ := local.Memory(attacker); return mem }
	pages := map[string]func() []byte{
		"the service's page of bells":  func() []byte { _, mem := local.Memory(attacker); return mem },
		"the attacker's page of bells": func() []byte { return local.OwnBells(attacker) },
	}
	for area, page := range pages {
		for word := range len(page()) / 4 {
			// Nothing reads what is behind the two bells.
			if testing.Short() && 4*word >= 2*ring.BellSize && word%32 != 0 {
				continue
			}
			one(area, page, word)
		}
	}
	// Each ring's header and its first records.
	for _, at := range []int{0, ring.Size(ipc.MinRingBytes)} {
		for word := range (ring.HeaderSize + 256) / 4 {
			one("the conn's rings", rings, at/4+word)
		}
	}
	t.Logf("two requests, one of a new client, took at most %v", longest)
}
