package worker_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
)

// duet is two workers whose dispatcher the test plays, and the client's end of the own
// connection of session 1, which both run.
type duet struct {
	*testing.T
	ctx    context.Context
	waiter *local.Waiter // of the dispatcher's conns
	w      [2]*fixture   // the dispatcher's end of each
	own    *fixture      // the client's conn with the first
	seq    uint64
}

func startDuet(t *testing.T) *duet {
	t.Helper()
	return startDuetWith(t, worker.Options{})
}

func startDuetWith(t *testing.T, o worker.Options) *duet {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &duet{T: t}
	if d.waiter, err = local.NewWaiter(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.waiter.Close)
	for i := range d.w {
		l, err := local.New().Listen(filepath.Join(dir, string(rune('a'+i))), &ipc.Options{Waiter: d.waiter})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		d.w[i] = startAt(t, l, o, 0)
	}
	d.ctx = d.w[0].ctx
	t.Cleanup(func() { // both at once: each waits for the other to leave
		for _, w := range d.w {
			w.stop(errors.New("the test is over"))
		}
	})
	theirs := d.open(1, true)
	if theirs == nil {
		t.Fatal("no conn is offered to the client")
	}
	c, err := local.New().Take(d.ctx, theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	own := *d.w[0]
	own.conn, own.run = c, map[uint64]*wire.History{1: {}}
	d.own = &own
	return d
}

// open opens a session of both workers, whose Meet messages the test passes on. It
// returns what the first offers to the client.
func (d *duet) open(id uint64, direct bool) (theirs *os.File) {
	d.Helper()
	for r, w := range d.w {
		w.run[id] = &wire.History{}
		w.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Session: id, Direct: direct, Workers: 2, Rank: uint32(r), Name: "s"}))
	}
	for opened := 0; opened < 2; {
		r, m := d.next()
		switch {
		case m.Kind == wire.KindMeet && (len(m.Files) == 0 || r == 1):
			d.w[1-r].send(m.Kind, m.Body, m.Files...)
		case m.Kind == wire.KindSessionOpened && (len(m.Files) == 0 || r == 0):
			if opened++; len(m.Files) > 0 {
				theirs, m.Files = m.Files[0], m.Files[1:]
			}
		default:
			d.Fatalf("worker %d says %s with %d files", r, wire.KindName(m.Kind), len(m.Files))
		}
		for _, f := range m.Files {
			f.Close()
		}
	}
	return theirs
}

// next returns the next message of one of the workers to the dispatcher.
func (d *duet) next() (rank int, m ipc.Message) {
	d.Helper()
	if err := d.waiter.Wait(d.ctx, func() bool {
		for r, w := range d.w {
			if got, ok := w.tryRecv(); ok {
				rank, m = r, ipc.Message{Kind: got.Kind, Body: bytes.Clone(got.Body), Files: got.Files}
				w.conn.Release()
				return true
			}
		}
		return false
	}); err != nil {
		d.Fatal(err)
	}
	return rank, m
}

// give tells both workers that it is the session's turn.
func (d *duet) give(what wire.TurnWhat) {
	d.Helper()
	for r := range d.w {
		d.turn(r, what)
	}
}

func (d *duet) turn(rank int, what wire.TurnWhat) {
	d.Helper()
	d.w[rank].send(wire.KindTurn, wire.Append(nil, &wire.Turn{Session: 1, What: what}))
}

// says waits for a Turn message of the first worker.
func (d *duet) says(what wire.TurnWhat) {
	d.Helper()
	var m wire.Turn
	if err := wire.Parse(d.w[0].recv(wire.KindTurn), &m); err != nil || m != (wire.Turn{Session: 1, What: what}) {
		d.Fatalf("%+v, %v; expected %d", m, err, what)
	}
}

// run has the client send a batch that both answer, and answered waits until they have:
// the first where it came from.
func (d *duet) run() {
	d.Helper()
	d.seq++
	d.own.batch(&wire.Run{Session: 1, Seq: d.seq, Flags: wire.RunSync, Uploads: []wire.Upload{floats(d.seq, 1, 2)}})
}

func (d *duet) answered() {
	d.Helper()
	for r, f := range []*fixture{d.own, d.w[1]} {
		if m := f.answer(wire.CodeOK, ""); m.Seq != d.seq || m.Session != 1 || m.Rank != uint32(r) {
			d.Fatalf("%+v, expected the answer of %d to run %d", m, r, d.seq)
		}
	}
}

// settled waits until a worker has handled all that it was sent: it opens another session
// after that.
func (d *duet) settled(rank int) {
	d.Helper()
	d.seq++
	d.w[rank].open(1000+d.seq, 0)
}

// asks has the first worker answer two batches of session 3, which it runs alone, one
// after the other. It reports whether the worker asks for a turn meanwhile. By the second
// answer the worker has looked at all connections since the call.
func (d *duet) asks() (asked bool) {
	d.Helper()
	for range 2 {
		d.seq++
		d.w[0].batch(&wire.Run{Session: 3, Seq: d.seq, Flags: wire.RunSync})
		for answered := false; !answered; {
			m, err := d.w[0].conn.Recv(d.ctx)
			if err != nil {
				d.Fatal(err)
			}
			switch m.Kind {
			case wire.KindDone:
				answered = true
			case wire.KindTurn:
				var turn wire.Turn
				if err := wire.Parse(m.Body, &turn); err != nil || asked || turn.What != wire.TurnAsk {
					d.Fatalf("%+v, %v; expected Ask once", turn, err)
				}
				asked = true
			case wire.KindDevice: // on a loaded machine it says that it is busy
			default:
				d.Fatalf("the first worker says %s", wire.KindName(m.Kind))
			}
			d.w[0].conn.Release()
		}
	}
	return asked
}

// TestLead checks that the first worker asks for a turn when it has a message, that both
// handle the messages that it passes on, and that it gives the turn back when asked to.
func TestLead(t *testing.T) {
	d := startDuet(t)
	for round := range 3 {
		d.run()
		d.says(wire.TurnAsk)
		d.give(wire.TurnOpen)
		d.answered()
		for range 5 {
			d.run()
			d.answered()
		}
		d.turn(0, wire.TurnBack)
		d.says(wire.TurnOver)
		if runs := d.w[1].w.Stats().Runs; runs != uint64(6*(round+1)) {
			t.Errorf("the other has done %d runs", runs)
		}
	}
	if m, ok := d.w[1].tryRecv(); ok {
		t.Errorf("the other says %s", wire.KindName(m.Kind))
	}
}

// TestLeadOneByOne checks that a turn for one message ends with it, and that a turn which
// is asked back before it begins does so as well.
func TestLeadOneByOne(t *testing.T) {
	d := startDuet(t)
	for i := range 6 {
		d.run()
		d.says(wire.TurnAsk)
		if i%2 == 0 {
			d.give(wire.TurnOne)
		} else {
			d.turn(0, wire.TurnBack)
			d.give(wire.TurnOpen)
		}
		d.says(wire.TurnOver)
		d.answered()
	}
}

// TestLeadAskedBack checks that a message which is there when a turn is asked back waits
// for the next turn. So does the first message, if the worker is asked before it has
// begun.
func TestLeadAskedBack(t *testing.T) {
	d := startDuet(t)
	d.run()
	d.says(wire.TurnAsk)
	d.turn(0, wire.TurnOpen) // the first begins, and waits for the other
	d.run()
	d.turn(0, wire.TurnBack)
	d.turn(1, wire.TurnOpen)
	d.says(wire.TurnOver)
	for done := d.w[0].w.Stats().Runs; done < 2; done++ {
		d.says(wire.TurnAsk)
		d.give(wire.TurnOne)
		d.says(wire.TurnOver)
	}
	d.seq--
	d.answered()
	d.seq++
	d.answered()
}

// TestLeadUnread checks that the first worker asks for no turn while its client reads no
// answers and there is no room for another: other sessions would wait for that client.
// When it reads, all answers are there, in order.
func TestLeadUnread(t *testing.T) {
	d := startDuet(t)
	const runs = 60
	fetch := make([]uint64, 1000) // 40 KB: a queue of 1 MiB has room for 26
	for i := range fetch {
		fetch[i] = 1
	}
	d.own.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{floats(1, make([]float32, 17)...)}})
	for seq := range uint64(runs) {
		d.own.batch(&wire.Run{Session: 1, Seq: seq + 2, Base: 2, Fetch: fetch})
	}
	d.says(wire.TurnAsk)
	d.w[0].open(3, 0)
	const turns = 20 * runs // in a turn it may get to no message
	n := 0
	for asked := true; asked && n < turns; n++ {
		d.give(wire.TurnOpen)
		if d.asks() {
			t.Fatal("a turn is asked for in a turn")
		}
		d.turn(0, wire.TurnBack)
		d.says(wire.TurnOver)
		asked = d.asks()
	}
	done := d.w[0].w.Stats().Runs - d.seq // without those of session 3
	if done < 2 || done >= 1+runs || n == turns {
		t.Fatalf("%d runs done in %d turns, expected more than the upload and fewer than all %d", done, n, 1+runs)
	}
	d.open(2, false)
	for _, w := range d.w {
		w.batch(&wire.Run{Session: 2, Seq: 1, Flags: wire.RunSync, Uploads: []wire.Upload{floats(1, 1, 2)}})
	}
	for _, w := range d.w {
		w.answer(wire.CodeOK, "")
	}
	for seq := range uint64(runs) {
		if seq+2 == done+1 { // it has read all that was answered
			d.says(wire.TurnAsk)
			d.give(wire.TurnOpen)
		}
		if a := d.own.answer(wire.CodeOK, ""); a.Seq != seq+2 || len(a.Results) != len(fetch) {
			t.Fatalf("answer to %d with %d results, expected %d", a.Seq, len(a.Results), seq+2)
		}
	}
}

// TestLeadHolds checks that a worker that holds a session's turn handles no message of
// another session of several workers, even one that came before the message that the turn
// is for.
func TestLeadHolds(t *testing.T) {
	d := startDuet(t)
	d.open(2, false)
	d.run()
	d.says(wire.TurnAsk)
	for r := 1; r >= 0; r-- {
		d.turn(r, wire.TurnOne)
		d.w[r].batch(&wire.Run{Session: 2, Seq: 1, Flags: wire.RunSync, Uploads: []wire.Upload{floats(1, 1, 2)}})
		if r > 0 {
			d.settled(r)
			if runs := d.w[r].w.Stats().Runs; runs != 0 {
				t.Fatalf("%d runs before the turn's own", runs)
			}
		}
	}
	d.seq = 1
	d.says(wire.TurnOver)
	d.answered()
	for r, w := range d.w {
		if m := w.answer(wire.CodeOK, ""); m.Session != 2 || m.Rank != uint32(r) {
			t.Errorf("%+v", m)
		}
	}
}

// TestLeadWithoutClient checks that the turn of a session is given back when its client
// closes the connection.
func TestLeadWithoutClient(t *testing.T) {
	d := startDuet(t)
	d.run()
	d.says(wire.TurnAsk)
	d.give(wire.TurnOpen)
	d.answered()
	d.own.conn.Close()
	d.says(wire.TurnOver)
	for _, w := range d.w {
		w.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
		w.healthy(2)
	}
}

// TestLeadProtocol checks that a client that sends messages of a dispatcher or a worker
// over its own connection loses the session, and that the other worker sees none of them.
func TestLeadProtocol(t *testing.T) {
	turn := wire.Append(nil, &wire.Turn{Session: 1, What: wire.TurnOver})
	meet := wire.Append(nil, &wire.Meet{Session: 1, Rank: 1})
	for name, say := range map[string]func(own *fixture){
		"a turn":  func(own *fixture) { own.send(wire.KindTurn, turn) },
		"a Meet":  func(own *fixture) { own.send(wire.KindMeet, meet) },
		"a close": func(own *fixture) { own.send(wire.KindCloseSession, meet) },
	} {
		t.Run(name, func(t *testing.T) {
			d := startDuet(t)
			say(d.own)
			d.says(wire.TurnAsk)
			d.give(wire.TurnOpen)
			d.w[0].failed(1, wire.CodeProtocol, `worker "w"`)
			if _, err := d.own.conn.Recv(d.ctx); !errors.Is(err, ipc.ErrPeerGone) {
				t.Errorf("%v over the conn of a session that failed", err)
			}
			d.settled(1)
			if st := d.w[1].w.Stats(); st.Sessions != 2 || st.Failed != 0 {
				t.Errorf("the other: %+v", st)
			}
			d.w[1].send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
			d.w[0].healthy(2)
			d.w[1].healthy(2)
		})
	}
}

// TestLeadWords checks that a Turn message that does not match the session's state ends
// the session.
func TestLeadWords(t *testing.T) {
	for name, say := range map[string]func(d *duet){
		"over": func(d *duet) { d.turn(1, wire.TurnOver) },
		"ask":  func(d *duet) { d.turn(1, wire.TurnAsk) },
		"back": func(d *duet) { d.turn(1, wire.TurnBack) },
		"none": func(d *duet) { d.w[1].send(wire.KindTurn, append(wire.Append(nil, &wire.Turn{Session: 1}), 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			d := startDuet(t)
			say(d)
			d.w[1].failed(1, wire.CodeProtocol, "")
			d.w[1].healthy(2)
		})
	}
	t.Run("not asked for", func(t *testing.T) {
		d := startDuet(t)
		d.turn(0, wire.TurnOne)
		d.w[0].failed(1, wire.CodeProtocol, "turn")
		d.w[0].healthy(2)
	})
	t.Run("of one worker", func(t *testing.T) {
		f := startHere(t)
		f.openDirect(1).Close()
		f.send(wire.KindTurn, wire.Append(nil, &wire.Turn{Session: 1, What: wire.TurnOne}))
		f.failed(1, wire.CodeProtocol, "Turn")
		f.healthy(2)
	})
}

// TestLeadAlone checks that a session fails at the first worker when the other is gone
// and there is a message to pass on.
func TestLeadAlone(t *testing.T) {
	d := startDuet(t)
	d.run()
	d.says(wire.TurnAsk)
	d.give(wire.TurnOpen)
	d.answered()
	d.w[1].stop(errors.New("it is stopped"))
	<-d.w[1].end
	d.w[1].end <- nil
	d.run()
	d.w[0].failed(1, wire.CodeWorkerGone, "")
	d.w[0].healthy(2)
}

// TestLeadBinds checks that workers which are as many as the cores have a core each while
// they have the session, and all cores afterwards.
func TestLeadBinds(t *testing.T) {
	cores := local.Cores()
	bound := func() (n int) {
		all, err := filepath.Glob("/proc/self/task/*/status")
		if err != nil || len(all) == 0 {
			t.Fatalf("no threads below /proc: %v", err)
		}
		for _, path := range all {
			b, _ := os.ReadFile(path) // a thread may have ended
			if _, list, ok := strings.Cut(string(b), "Cpus_allowed_list:\t"); ok && !strings.ContainsAny(strings.SplitN(list, "\n", 2)[0], ",-") {
				n++
			}
		}
		return n
	}
	before := bound()
	d := startDuetWith(t, worker.Options{Bind: true})
	want := before
	if cores == 2 {
		want += 2
	}
	if n := bound(); n != want {
		t.Errorf("%d threads have one core, expected %d of %d cores", n, want, cores)
	}
	d.run()
	d.says(wire.TurnAsk)
	d.give(wire.TurnOpen)
	d.answered()
	for r, w := range d.w {
		w.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
		d.settled(r)
	}
	if n := bound(); n != before {
		t.Errorf("%d threads have one core afterwards, %d before", n, before)
	}
}
