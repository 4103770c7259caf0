package dispatcher_test

import (
	"os"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// crew is workers, and sessions of all or some of them.
type crew struct {
	*fixture
	workers  []*peer
	sessions []*owner
}

func startCrew(t *testing.T, names ...string) *crew {
	c := &crew{fixture: start(t, dispatcher.Options{})}
	for _, name := range names {
		c.workers = append(c.workers, c.dial(ipc.RoleWorker, name))
	}
	return c
}

// owner is a session with conns of its own.
type owner struct {
	c       *crew
	client  *peer
	id      uint64
	workers []*peer
}

// open opens a session of the first n workers, which are those that the dispatcher
// chooses. direct says that it has conns of its own.
func (c *crew) open(n int, direct bool) *owner {
	c.Helper()
	return c.openOf(direct, c.workers[:n]...)
}

// openOf is open for workers that have the least to do.
func (c *crew) openOf(direct bool, workers ...*peer) *owner {
	c.Helper()
	o := &owner{c: c, client: c.dial(ipc.RoleClient, "c"), workers: workers}
	o.client.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Workers: uint32(len(workers)), Direct: direct, Name: "c"}))
	for r, w := range o.workers {
		body, _ := w.recv(wire.KindOpenSession)
		var m wire.OpenSession
		if err := wire.Parse(body, &m); err != nil || m.Direct != direct || int(m.Rank) != r {
			c.Fatalf("%+v, %v", m, err)
		}
		o.id = m.Session
	}
	c.sessions = append(c.sessions, o)
	return o
}

// says has a worker of the session say something about its turn.
func (o *owner) says(rank int, what wire.TurnWhat) {
	o.c.Helper()
	o.workers[rank].send(wire.KindTurn, wire.Append(nil, &wire.Turn{Session: o.id, What: what}))
}

// hears waits until a worker hears something about a turn.
func (o *owner) hears(rank int, what wire.TurnWhat) {
	o.c.Helper()
	body, _ := o.workers[rank].recv(wire.KindTurn)
	var m wire.Turn
	if err := wire.Parse(body, &m); err != nil || m.Session != o.id || m.What != what {
		o.c.Fatalf("worker %d hears %+v, %v; expected %d for session %d", rank, m, err, what, o.id)
	}
}

func (o *owner) allHear(what wire.TurnWhat) {
	o.c.Helper()
	for r := range o.workers {
		o.hears(r, what)
	}
}

// nothing checks that the dispatcher has no more to say about what workers said:
// something that each says afterwards has come to its client.
func (c *crew) nothing() {
	c.Helper()
	for _, o := range c.sessions {
		for _, w := range o.workers {
			w.send(wire.KindDone, wire.Append(nil, &wire.Done{Session: o.id}))
			o.client.recv(wire.KindDone)
		}
	}
	for i, w := range c.workers {
		if m, ok, err := w.TryRecv(); ok || err != nil {
			c.Fatalf("worker %d hears %s, %v", i, wire.KindName(m.Kind), err)
		}
	}
}

// run has the session's client send a Run through the dispatcher, and forwarded waits
// until the workers have it.
func (o *owner) run(seq uint64) {
	o.client.send(wire.KindRun, wire.AppendRun(nil, &wire.Run{Seq: seq}, nil))
}

func (o *owner) forwarded(seq uint64) {
	o.c.Helper()
	for _, w := range o.workers {
		body, _ := w.recv(wire.KindRun)
		var m wire.Run
		if err := wire.ParseRun(body, &m, &wire.History{}); err != nil || m.Session != o.id || m.Seq != seq {
			o.c.Fatalf("%+v, %v; expected run %d of session %d", m, err, seq, o.id)
		}
	}
}

// TestTurnsAlone: a session that shares no worker has one turn for all it does, until
// another session of several of them has something to do.
func TestTurnsAlone(t *testing.T) {
	c := startCrew(t, "w0", "w1")
	a := c.open(2, true)
	a.says(0, wire.TurnAsk)
	a.allHear(wire.TurnOpen)
	b := c.open(2, true)
	c.nothing() // that it is there takes nothing from the other
	b.says(0, wire.TurnAsk)
	a.hears(0, wire.TurnBack)
	c.nothing()
	a.says(0, wire.TurnOver)
	b.allHear(wire.TurnOne)
	a.says(0, wire.TurnAsk)
	c.nothing() // a turn for one message ends by itself
	b.says(0, wire.TurnOver)
	a.allHear(wire.TurnOne)
	b.client.send(wire.KindBye, wire.Append(nil, &wire.Bye{}))
	for _, w := range c.workers {
		w.closed(b.id, wire.CodeOK)
	}
	a.says(0, wire.TurnOver)
	a.says(0, wire.TurnAsk)
	a.allHear(wire.TurnOpen)
	if st := c.d.Stats(); st.Turns != 4 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

// TestTurnsInLine: turns are given in the order in which they were asked for, to sessions
// whose workers are free and not wanted by an earlier one.
func TestTurnsInLine(t *testing.T) {
	c := startCrew(t, "w0", "w1", "w2")
	two, all := c.open(2, true), c.open(3, true)
	// w2 has one session, the others two
	other := c.openOf(true, c.workers[0], c.workers[2])
	two.says(0, wire.TurnAsk)
	two.allHear(wire.TurnOne)
	all.says(0, wire.TurnAsk)
	other.says(0, wire.TurnAsk)
	c.nothing()
	two.says(0, wire.TurnOver)
	all.allHear(wire.TurnOne)
	two.says(0, wire.TurnAsk)
	all.says(0, wire.TurnOver)
	other.allHear(wire.TurnOne)
	c.nothing()
	other.says(0, wire.TurnOver)
	two.allHear(wire.TurnOne)
}

// TestTurnsAndForwarded: messages that are forwarded wait for a turn's end, and a session
// that asks for a turn waits for those before it.
func TestTurnsAndForwarded(t *testing.T) {
	c := startCrew(t, "w0", "w1")
	a := c.open(2, true)
	a.says(0, wire.TurnAsk)
	a.allHear(wire.TurnOpen)
	far := c.open(2, false)
	far.run(1)
	a.hears(0, wire.TurnBack)
	c.nothing()
	a.says(0, wire.TurnOver)
	a.says(0, wire.TurnAsk)
	far.forwarded(1)
	a.allHear(wire.TurnOne)
	// Meanwhile another of far waits, which the first worker lets go on.
	far.run(2)
	far.workers[0].send(wire.KindFlow, wire.Append(nil, &wire.Flow{Session: far.id}))
	c.nothing()
	a.says(0, wire.TurnOver)
	far.forwarded(2)
}

// TestTurnEnds: a turn ends with its session, however that ends, and the next one's word
// comes behind the news of that.
func TestTurnEnds(t *testing.T) {
	for name, end := range map[string]func(a *owner){
		"by its client":        func(a *owner) { a.client.send(wire.KindBye, wire.Append(nil, &wire.Bye{})) },
		"with its client":      func(a *owner) { a.client.Close() },
		"by its first worker":  func(a *owner) { a.fails(0) },
		"by another worker":    func(a *owner) { a.fails(1) },
		"by what it sends too": func(a *owner) { a.run(1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := startCrew(t, "w0", "w1")
			a, b := c.open(2, true), c.open(2, true)
			a.says(0, wire.TurnAsk)
			a.allHear(wire.TurnOne)
			b.says(0, wire.TurnAsk)
			c.nothing()
			end(a)
			for _, w := range c.workers {
				body, _ := w.recv(wire.KindCloseSession)
				if sessionOf(t, body) != a.id {
					t.Errorf("session %d is closed", sessionOf(t, body))
				}
			}
			b.allHear(wire.TurnOpen)
			a.says(0, wire.TurnOver) // said before it had heard
			b.says(0, wire.TurnOver)
			b.says(0, wire.TurnAsk)
			b.allHear(wire.TurnOpen)
		})
	}
}

// fails has a worker give the session up.
func (o *owner) fails(rank int) {
	o.workers[rank].send(wire.KindFail, wire.Append(nil, &wire.Fail{Session: o.id, Code: wire.CodeProtocol, Text: "no"}))
}

// TestTurnOfTheDead: when a worker dies that a session has a turn at, the next one at the
// others has its own.
func TestTurnOfTheDead(t *testing.T) {
	c := startCrew(t, "w0", "w1", "w2")
	a, b := c.open(3, true), c.open(2, true)
	a.says(0, wire.TurnAsk)
	a.allHear(wire.TurnOne)
	b.says(0, wire.TurnAsk)
	c.nothing()
	c.workers[2].Close()
	a.client.fail(wire.CodeWorkerGone, `worker "w2"`)
	for _, w := range b.workers {
		w.closed(a.id, wire.CodeWorkerGone)
	}
	b.allHear(wire.TurnOpen)
}

// TestTurnsMisbehave: a worker that speaks of a turn that is not its own to speak of is
// let go.
func TestTurnsMisbehave(t *testing.T) {
	for name, say := range map[string]func(a *owner){
		"another than the first": func(a *owner) { a.says(1, wire.TurnAsk) },
		"twice":                  func(a *owner) { a.says(0, wire.TurnAsk); a.hears(0, wire.TurnOpen); a.says(0, wire.TurnAsk) },
		"over without one":       func(a *owner) { a.says(0, wire.TurnOver) },
		"the dispatcher's word":  func(a *owner) { a.says(0, wire.TurnOne) },
		"no word":                func(a *owner) { a.workers[0].send(wire.KindTurn, []byte("not a turn at all")) },
	} {
		t.Run(name, func(t *testing.T) {
			c := startCrew(t, "w0", "w1")
			a := c.open(2, true)
			say(a)
			a.client.fail(wire.CodeWorkerGone, "worker ")
		})
	}
	t.Run("forwarded session", func(t *testing.T) {
		c := startCrew(t, "w0", "w1")
		a := c.open(2, false)
		a.says(0, wire.TurnAsk)
		a.client.fail(wire.CodeWorkerGone, "worker ")
	})
}

// TestMeetWithDescriptor: a descriptor goes to the first worker alone, with what is said.
func TestMeetWithDescriptor(t *testing.T) {
	c := startCrew(t, "w0", "w1", "w2")
	a := c.open(3, true)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	c.workers[2].send(wire.KindMeet, wire.Append(nil, &wire.Meet{Session: a.id, Rank: 2}), null)
	body, files := c.workers[0].recv(wire.KindMeet)
	if sessionOf(t, body) != a.id || len(files) != 1 {
		t.Errorf("%q with %d files", body, len(files))
	}
	for _, f := range files {
		f.Close()
	}
	c.nothing()
}
