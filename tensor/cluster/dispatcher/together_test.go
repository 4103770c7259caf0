package dispatcher_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// TestAllOrNone: a message for several workers goes to all of them or, while one has no
// room, to none; and once to each, in order.
func TestAllOrNone(t *testing.T) {
	f := start(t, dispatcher.Options{})
	workers := []*peer{f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1")}
	c, other := f.dial(ipc.RoleClient, "c"), f.dial(ipc.RoleControl, "m")
	c.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Workers: 2, Name: "c"}))
	var s uint64
	for r, w := range workers {
		body, _ := w.recv(wire.KindOpenSession)
		var m wire.OpenSession
		if err := wire.Parse(body, &m); err != nil || m.Rank != uint32(r) || m.Workers != 2 {
			t.Fatalf("rank %d is told %+v, %v", r, m, err)
		}
		s = m.Session
	}
	const size = 100 << 10
	sent, read := 0, 0
	// w0 reads nothing, w1 all there is, until nothing moves any more
	for full := 0; full < 3; {
		buf, err := c.TryReserve(wire.KindRun, wire.SessionBytes+size)
		if err == nil {
			copy(buf, message(0, size, byte(sent)))
			err = c.Commit()
			sent, full = sent+1, 0
		} else if errors.Is(err, ipc.ErrFull) {
			// the dispatcher had its turn at the client
			other.send(wire.KindStatus, wire.Append(nil, &wire.Status{}))
			other.recv(wire.KindStatusReply)
			full++
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
		for {
			m, ok, err := workers[1].TryRecv()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if !bytes.Equal(m.Body, message(s, size, byte(read))) {
				t.Fatalf("message %d of w1 is another", read)
			}
			workers[1].Release()
			read, full = read+1, 0
		}
	}
	if f.d.Stats().Blocked == 0 || read == 0 || read >= sent {
		t.Errorf("%d were sent, w1 had %d of them while w0 had no room; %+v", sent, read, f.d.Stats())
	}
	for i := range sent {
		if body, _ := workers[0].recv(wire.KindRun); !bytes.Equal(body, message(s, size, byte(i))) {
			t.Fatalf("message %d of w0 is another", i)
		}
		for ; read <= i; read++ { // and then w1 has it too
			if body, _ := workers[1].recv(wire.KindRun); !bytes.Equal(body, message(s, size, byte(read))) {
				t.Fatalf("message %d of w1 is another", read)
			}
		}
	}
	if read != sent {
		t.Errorf("w1 had %d of %d", read, sent)
	}
}

// TestTakeTurns: of sessions that several workers run each has one Run that has not
// begun; a session that sends ahead waits for the others' turns, and all workers are sent
// the same in the same order. One that has its workers for itself sends ahead as it
// likes.
func TestTakeTurns(t *testing.T) {
	f := start(t, dispatcher.Options{})
	workers := []*peer{f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1")}
	open := func(name string) (*peer, uint64) {
		c := f.dial(ipc.RoleClient, name)
		c.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Workers: 2, Name: name}))
		var s uint64
		for _, w := range workers {
			body, _ := w.recv(wire.KindOpenSession)
			s = sessionOf(t, body)
		}
		return c, s
	}
	run := func(c *peer, seq uint64) {
		c.send(wire.KindRun, wire.AppendRun(nil, &wire.Run{Seq: seq}, nil))
	}
	next := func(session, seq uint64, turn bool) {
		t.Helper()
		for i, w := range workers {
			body, _ := w.recv(wire.KindRun)
			var m wire.Run
			if err := wire.ParseRun(body, &m, &wire.History{}); err != nil {
				t.Fatal(err)
			}
			if m.Session != session || m.Seq != seq || (m.Flags&wire.RunTurn != 0) != (turn && i == 0) {
				t.Fatalf("w%d has run %d of session %d, flags %#x; expected run %d of %d, and who is first to say when it begins: %v", i, m.Seq, m.Session, m.Flags, seq, session, turn)
			}
		}
	}
	begins := func(w *peer, session uint64) {
		w.send(wire.KindFlow, wire.Append(nil, &wire.Flow{Session: session}))
	}
	a, sa := open("a")
	for seq := range uint64(3) {
		run(a, seq)
	}
	for seq := range uint64(3) {
		next(sa, seq, false)
	}
	b, sb := open("b")
	for seq := uint64(3); seq < 6; seq++ {
		run(a, seq)
	}
	next(sa, 3, true)
	run(b, 0)
	run(b, 1)
	next(sb, 0, true) // although a has sent more before
	begins(workers[1], sb)
	begins(workers[0], sa)
	next(sa, 4, true) // it is not w1's to say
	begins(workers[0], sb)
	next(sb, 1, true)
	b.send(wire.KindBye, wire.Append(nil, &wire.Bye{}))
	for _, w := range workers {
		w.closed(sb, wire.CodeOK)
	}
	run(a, 6)
	begins(workers[0], sa)
	next(sa, 5, false)
	next(sa, 6, false)
}

// TestWidow: a worker that gives a session up because another is gone may say so before
// that one's end is seen here. The client is told which worker is gone all the same, with
// that worker's own reason if it gave one, and the others' reasons only if none is gone.
func TestWidow(t *testing.T) {
	gone := fmt.Sprintf(`worker "w2" (pid %d) is gone`, os.Getpid())
	for name, c := range map[string]struct {
		speak []int // the workers that say something, in this order
		dies  bool  // the last worker
		says  string
	}{
		"gone":                  {[]int{0, 1}, true, gone},
		"not gone":              {[]int{0, 1}, false, "w0 says something"},
		"said why":              {[]int{2}, true, "w2 says something"},
		"said why, and is late": {[]int{0, 2, 1}, true, "w2 says something"},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, dispatcher.Options{})
			workers := []*peer{f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1"), f.dial(ipc.RoleWorker, "w2")}
			cl := f.dial(ipc.RoleClient, "c")
			cl.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Workers: 3, Name: "c"}))
			var s uint64
			for _, w := range workers {
				body, _ := w.recv(wire.KindOpenSession)
				s = sessionOf(t, body)
			}
			for _, i := range c.speak {
				w := workers[i]
				w.send(wire.KindFail, wire.Append(nil, &wire.Fail{Session: s, Code: wire.CodeWorkerGone, Text: fmt.Sprintf("w%d says something", i)}))
				// after this the dispatcher knows
				w.send(wire.KindStatus, wire.Append(nil, &wire.Status{}))
				w.recv(wire.KindStatusReply)
			}
			if c.dies {
				if err := workers[2].Close(); err != nil {
					t.Fatal(err)
				}
			}
			cl.fail(wire.CodeWorkerGone, c.says)
			for _, w := range workers[:2] {
				w.closed(s, wire.CodeWorkerGone)
			}
			if n := f.d.Stats().Failed; n != 1 {
				t.Errorf("%d sessions failed, expected 1", n)
			}
			cl.Close()
			for _, w := range workers[:2] {
				w.closed(s, wire.CodeOK) // the client reads no results any more
			}
		})
	}
}
