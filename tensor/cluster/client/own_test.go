package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// token names the session of openHere.
const token = "the token"

// dialed is how a Dial ended.
type dialed struct {
	e   *client.Engine
	err error
}

// openHere has a client open a session on the same host, of which the test plays the
// dispatcher (the fixture's conn), and gives it the files along with the news that it is
// open. met is the worker's end of an offer.
func openHere(t *testing.T, files func(offer *os.File) []*os.File) (f *fixture, met chan ipc.Conn, end dialed) {
	t.Helper()
	f = newFixture(t)
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := local.New().Listen(filepath.Join(dir, "d"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f.addr = l.Addr()
	ended := make(chan dialed, 1)
	go func() {
		e, err := client.Dial(f.ctx, l.Addr(), &client.Options{Name: "me"})
		ended <- dialed{e, err}
	}()
	if f.conn, err = l.Accept(f.ctx); err != nil {
		t.Fatal(err)
	}
	var open wire.OpenSession
	if err := wire.Parse(f.recv(wire.KindOpenSession), &open); err != nil || !open.Direct {
		t.Errorf("%+v, %v", open, err)
	}
	if f.waiter, err = local.NewWaiter(); err != nil {
		t.Fatal(err)
	}
	met = make(chan ipc.Conn, 1)
	theirs, _, err := local.New().Offer(&ipc.Options{Waiter: f.waiter}, func(c ipc.Conn, err error) {
		if err == nil {
			met <- c
		}
		close(met)
	})
	if err != nil {
		t.Fatal(err)
	}
	send := files(theirs)
	f.send(wire.KindSessionOpened, wire.Append(nil, &wire.SessionOpened{PID: 12, Token: []byte(token), Worker: "w7"}), send...)
	theirs.Close()
	end = <-ended
	f.e = end.e
	return f, met, end
}

// openOwn opens a session with a conn of its own, and returns the worker's side: a
// fixture whose conn that is.
func openOwn(t *testing.T) (dispatcher, worker *fixture) {
	t.Helper()
	f, met, end := openHere(t, func(offer *os.File) []*os.File { return []*os.File{offer} })
	if end.err != nil {
		t.Fatal(end.err)
	}
	w := *f
	if w.conn = <-met; w.conn == nil {
		t.Fatal("the offer was not taken")
	}
	t.Cleanup(func() { w.conn.Close() })
	return f, &w
}

// sync submits a batch that waits for its end.
func (f *fixture) sync() chan error {
	end := make(chan error, 1)
	go func() {
		_, err := f.e.Submit(f.ctx, &tensor.Batch{Sync: true})
		end <- err
	}()
	return end
}

// fail ends the session as a dispatcher does.
func (f *fixture) fail(text string) {
	f.send(wire.KindFail, wire.Append(nil, &wire.Fail{Code: wire.CodeWorkerGone, Text: text}))
}

// TestExpect: a worker that sleeps is woken ahead of a batch, by which nothing is sent.
func TestExpect(t *testing.T) {
	_, w := openOwn(t)
	parked := make(chan bool, 1)
	w.waiter.OnPark(func() {
		select {
		case parked <- true:
		default:
		}
	})
	ended := make(chan error, 1)
	go func() {
		_, err := w.conn.Recv(w.ctx)
		ended <- err
	}()
	// sleeps end by themselves, too, perhaps when Expect was about to end one
	for range 20 {
		<-parked
		w.e.Expect()
		<-parked
		if st := w.waiter.Stats(); st.Sleeps > st.Expired+1 {
			if n := w.conn.Stats().RecvMessages; n != 0 {
				t.Errorf("%d messages came", n)
			}
			w.conn.Close()
			<-ended
			return
		}
	}
	t.Errorf("nobody was woken: %+v", w.waiter.Stats())
}

// TestOwn: what a session sends goes over its own conn, and the dispatcher sees nothing
// of it but its end.
func TestOwn(t *testing.T) {
	d, w := openOwn(t)
	for seq := range uint64(10) {
		end := w.sync()
		w.recv(wire.KindRun)
		w.done(&wire.Done{Seq: seq + 1})
		if err := <-end; err != nil {
			t.Fatal(err)
		}
	}
	if m, ok, err := d.conn.TryRecv(); ok || err != nil {
		t.Errorf("the dispatcher sees %s, %v", wire.KindName(m.Kind), err)
	}
	d.e.Close()
	d.recv(wire.KindBye)
	if _, err := w.conn.Recv(w.ctx); !errors.Is(err, ipc.ErrPeerGone) {
		t.Errorf("%v over a conn whose session is closed", err)
	}
}

// TestOwnAnswerCounts: an answer that came before the dispatcher said that the worker is
// gone is one, whichever is seen first.
func TestOwnAnswerCounts(t *testing.T) {
	d, w := openOwn(t)
	end := w.sync()
	w.recv(wire.KindRun)
	w.done(&wire.Done{Seq: 1})
	w.conn.Close()
	d.fail("w7 died")
	if err := <-end; err != nil {
		t.Errorf("%v, though it was answered", err)
	}
	if err := <-w.sync(); !errors.Is(err, client.ErrLost) || !errors.Is(err, ipc.ErrPeerGone) || !strings.Contains(err.Error(), "w7 died") {
		t.Errorf("%v afterwards", err)
	}
}

// TestOwnEnds: when the conn ends the dispatcher's reason is the error, or after some
// time, or when it is gone as well, that it did.
func TestOwnEnds(t *testing.T) {
	for name, c := range map[string]struct {
		after func(d *fixture)
		want  []string
	}{
		"a reason":        {func(d *fixture) { d.fail("w7 died") }, []string{"w7 died"}},
		"none":            {func(*fixture) {}, []string{`worker "w7" (pid 12)`, "ended"}},
		"nobody is there": {func(d *fixture) { d.conn.Close() }, []string{"dispatcher at "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, w := openOwn(t)
			end := w.sync()
			w.recv(wire.KindRun)
			w.conn.Close()
			c.after(d)
			err := <-end
			if !errors.Is(err, client.ErrLost) || !errors.Is(err, ipc.ErrPeerGone) {
				t.Errorf("%v", err)
			}
			for _, text := range c.want {
				if err != nil && !strings.Contains(err.Error(), text) {
					t.Errorf("%v, expected it to say %s", err, text)
				}
			}
		})
	}
}

// TestOwnSaysTooMuch: that the session is open the worker has not to say there.
func TestOwnSaysTooMuch(t *testing.T) {
	_, w := openOwn(t)
	end := w.sync()
	w.recv(wire.KindRun)
	w.send(wire.KindSessionOpened, wire.Append(nil, &wire.SessionOpened{PID: 12, Worker: "I am the dispatcher"}))
	if err := <-end; !errors.Is(err, ipc.ErrCorrupt) || !strings.Contains(err.Error(), "SessionOpened") {
		t.Errorf("%v", err)
	}
}

// TestOwnIsNoConn: a descriptor that is none leaves the session to the dispatcher.
func TestOwnIsNoConn(t *testing.T) {
	f, _, end := openHere(t, func(*os.File) []*os.File {
		file, err := os.Create(filepath.Join(t.TempDir(), "file"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return []*os.File{file}
	})
	if end.err != nil {
		t.Fatal(end.err)
	}
	sync := f.sync()
	f.recv(wire.KindRun)
	f.done(&wire.Done{Seq: 1})
	if err := <-sync; err != nil {
		t.Error(err)
	}
}

// TestOwnTwice: two descriptors are a mistake.
func TestOwnTwice(t *testing.T) {
	_, _, end := openHere(t, func(offer *os.File) []*os.File { return []*os.File{offer, offer} })
	if !errors.Is(end.err, ipc.ErrCorrupt) || !strings.Contains(end.err.Error(), "2 descriptors") {
		t.Errorf("%v", end.err)
	}
}
