package worker_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
)

// socket returns a place for a dispatcher's socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "d")
}

// accept makes f the next dispatcher of its worker.
func (f *fixture) accept(l ipc.Listener) {
	f.Helper()
	var err error
	if f.conn, err = l.Accept(f.ctx); err != nil {
		f.Fatal(err)
	}
}

// listenHere opens a listener for a dispatcher that the test plays.
func listenHere(t *testing.T, at string) ipc.Listener {
	t.Helper()
	l, err := local.New().Listen(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestReconnect ends the dispatcher of a worker with several sessions. The one with a
// connection of its own goes on, also while there is no dispatcher. The next dispatcher
// is told of it and, when it ends, of that. Without sessions the worker ends when no
// dispatcher comes.
func TestReconnect(t *testing.T) {
	at := socket(t)
	l := listenHere(t, at)
	f := startAt(t, l, worker.Options{Reconnect: time.Millisecond}, 0)
	own := f.direct(7)
	f.open(8, 0)
	left := f.openDirect(9) // which its client does not take
	steps := uint64(0)
	step := func() {
		t.Helper()
		for range 20 {
			steps++
			own.batch(&wire.Run{Session: 7, Seq: steps, Flags: wire.RunSync})
			if d := own.answer(wire.CodeOK, ""); d.Seq != steps {
				t.Fatalf("answer to %d, expected %d", d.Seq, steps)
			}
		}
	}
	// told waits for the dispatcher to be told of a session.
	told := func(want wire.Held) {
		t.Helper()
		var held wire.Held
		if err := wire.Parse(f.recv(wire.KindHeld), &held); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(wire.Append(nil, &held), wire.Append(nil, &want)) {
			t.Errorf("the dispatcher is told %+v, expected %+v", held, want)
		}
	}
	step()
	note := f.conn.Peer().Note
	l.Close()
	f.conn.Close()
	step()

	l = listenHere(t, at)
	f.accept(l)
	if again := f.conn.Peer().Note; note == "" || again != note {
		t.Errorf("notes %q and %q, expected the same", note, again)
	}
	var dev wire.Device
	if err := wire.Parse(f.recv(wire.KindDevice), &dev); err != nil || dev.Last != 9 {
		t.Errorf("%+v, %v; expected that the last session is number 9", dev, err)
	}
	var both []uint64
	for range 2 {
		var held wire.Held
		if err := wire.Parse(f.recv(wire.KindHeld), &held); err != nil {
			t.Fatal(err)
		}
		if want := (wire.Held{Session: held.Session, Quota: 1 << 40, Token: tokenOf(held.Session), Name: "direct"}); !bytes.Equal(wire.Append(nil, &held), wire.Append(nil, &want)) {
			t.Errorf("the dispatcher is told %+v, expected %+v", held, want)
		}
		both = append(both, held.Session)
	}
	if slices.Sort(both); !slices.Equal(both, []uint64{7, 9}) {
		t.Errorf("sessions %d outlive the dispatcher, expected 7 and 9", both)
	}
	left.Close()
	told(wire.Held{Session: 9, Over: true})
	step()
	f.open(10, 0)
	if st := f.w.Stats(); st.Sessions != 2 || st.Failed != 0 {
		t.Errorf("%+v, expected the session with a connection of its own, and the new one", st)
	}
	own.conn.Close()
	told(wire.Held{Session: 7, Over: true})

	l.Close()
	f.conn.Close()
	err := <-f.end
	f.end <- err
	if !errors.Is(err, worker.ErrDispatcher) {
		t.Errorf("%v, expected %v", err, worker.ErrDispatcher)
	}
}

// TestReconnectAfterAProgram ends the dispatcher while a program of a session with a
// connection of its own runs. The program is not stopped by that, but by the end of the
// connection. Then the worker has the next dispatcher.
func TestReconnectAfterAProgram(t *testing.T) {
	at := socket(t)
	l := listenHere(t, at)
	f := startAt(t, l, worker.Options{Reconnect: time.Hour}, 0)
	own := f.direct(7)
	own.endless(7)
	f.running()
	l.Close()
	f.conn.Close()
	<-time.After(100 * time.Millisecond) // the worker looks several times
	if m, ok, err := own.conn.TryRecv(); ok || err != nil {
		t.Errorf("the session hears %s, %v", wire.KindName(m.Kind), err)
	}
	own.conn.Close()
	l = listenHere(t, at)
	f.accept(l)
	f.open(8, 0)
	f.healthy(9)
}

// TestSurvivorFails: the client of a session that has outlived its dispatcher hears over
// its own connection why the session fails, whether there is another dispatcher or not.
func TestSurvivorFails(t *testing.T) {
	for _, again := range []bool{false, true} {
		at := socket(t)
		l := listenHere(t, at)
		f := startAt(t, l, worker.Options{Reconnect: time.Hour}, 0)
		own, other := f.direct(7), f.direct(8)
		l.Close()
		f.conn.Close()
		l = listenHere(t, at)
		f.accept(l)
		f.recv(wire.KindHeld)
		f.recv(wire.KindHeld)
		if !again {
			l.Close()
			f.conn.Close()
		}
		own.send(wire.KindRun, []byte("no run"))
		own.failed(7, wire.CodeProtocol, `worker "w"`)
		if _, err := own.conn.Recv(f.ctx); !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("%v over the conn of a session that failed", err)
		}
		if again {
			f.failed(7, wire.CodeProtocol, `worker "w"`)
		}
		other.batch(&wire.Run{Session: 8, Seq: 1, Flags: wire.RunSync})
		other.answer(wire.CodeOK, "")
	}
}
