package dispatcher_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// FuzzPeers has a peer of any role send any messages: a byte that says of which kind, one
// that says how long, and then the body. It may lose its own conn; a session of others
// goes on, and the dispatcher keeps nothing of it.
func FuzzPeers(f *testing.F) {
	open := wire.Append(nil, &wire.OpenSession{Name: "x"})
	f.Add(uint8(0), append([]byte{byte(wire.KindOpenSession), byte(len(open))}, open...))
	f.Add(uint8(1), []byte{byte(wire.KindFlow), 9, 1, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Add(uint8(1), []byte{byte(wire.KindDone), 20, 1})
	device, held := wire.Append(nil, &wire.Device{Last: 9}), wire.Append(nil, &wire.Held{Session: 9, Token: []byte("t"), Name: "x"})
	f.Add(uint8(1), append(append(append([]byte{byte(wire.KindDevice), byte(len(device))}, device...), byte(wire.KindHeld), byte(len(held))), held...))
	f.Add(uint8(2), []byte{byte(wire.KindStatus), 8, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(uint8(3), []byte{byte(wire.KindRun), 0})
	training := wire.Append(nil, &wire.Training{Name: "x", Points: []wire.TrainingPoint{{Step: 1}}})
	f.Add(uint8(2), append([]byte{byte(wire.KindTraining), byte(len(training))}, training...))
	d, err := dispatcher.New(&dispatcher.Options{Waiter: ipc.NewWaiter()})
	if err != nil {
		f.Fatal(err)
	}
	var net ipctest.Network
	l, err := net.Listen("pipe:", d.ListenOptions())
	if err != nil {
		f.Fatal(err)
	}
	serve, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(serve, l) }()
	f.Cleanup(func() {
		stop()
		<-ended
	})
	dial := func(t testing.TB, ctx context.Context, role ipc.Role, name string) ipc.Conn {
		c, err := net.Dial(ctx, l.Addr(), &ipc.Options{Hello: ipc.Peer{Role: role, Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	send := func(ctx context.Context, c ipc.Conn, kind uint32, body []byte) error {
		buf, err := c.Reserve(ctx, kind, len(body))
		if err != nil {
			return err
		}
		copy(buf, body)
		return c.Commit()
	}
	recv := func(t testing.TB, ctx context.Context, c ipc.Conn, kind uint32) []byte {
		m, err := c.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		if m.Kind != kind {
			t.Fatalf("%s, expected %s", wire.KindName(m.Kind), wire.KindName(kind))
		}
		return bytes.Clone(m.Body)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w, c := dial(f, ctx, ipc.RoleWorker, "w"), dial(f, ctx, ipc.RoleClient, "c")
	if err := send(ctx, w, wire.KindDevice, wire.Append(nil, &wire.Device{})); err != nil {
		f.Fatal(err)
	}
	if err := send(ctx, c, wire.KindOpenSession, open); err != nil {
		f.Fatal(err)
	}
	session := sessionOf(f, recv(f, ctx, w, wire.KindOpenSession))
	// A worker that says nothing about it loses the session after Options.AnswerWait.
	if err := send(ctx, w, wire.KindSessionOpened, wire.Append(nil, &wire.SessionOpened{Session: session, PID: 1, Worker: "w"})); err != nil {
		f.Fatal(err)
	}
	recv(f, ctx, c, wire.KindSessionOpened)
	f.Fuzz(func(t *testing.T, role uint8, script []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		roles := []ipc.Role{ipc.RoleControl, ipc.RoleWorker, ipc.RoleRank, ipc.RoleUnknown}
		bad := dial(t, ctx, roles[int(role)%len(roles)], "bad")
		for len(script) >= 2 {
			kind, n := uint32(script[0]), min(int(script[1]), len(script)-2)
			if send(ctx, bad, kind, script[2:2+n]) != nil {
				break
			}
			script = script[2+n:]
			for { // and reads what it is told
				_, ok, err := bad.TryRecv()
				if !ok || err != nil {
					break
				}
				bad.Release()
			}
		}
		bad.Close()
		want := message(session, 4, byte(len(script)))
		if err := send(ctx, c, wire.KindRun, want); err != nil {
			t.Fatal(err)
		}
		if got := recv(t, ctx, w, wire.KindRun); !bytes.Equal(got, want) {
			t.Fatalf("%x came as %x", want, got)
		}
		for n := d.Stats(); n.Sessions != 1 || n.Workers != 1 || n.Clients != 1; n = d.Stats() {
			if ctx.Err() != nil {
				t.Fatalf("%+v", n)
			}
		}
	})
}

// FuzzClient is the same for clients, whose session goes to a worker that says nothing.
func FuzzClient(f *testing.F) {
	open := wire.Append(nil, &wire.OpenSession{Name: "x"})
	opened := append([]byte{byte(wire.KindOpenSession), byte(len(open))}, open...)
	f.Add(opened)
	f.Add(append(bytes.Clone(opened), byte(wire.KindRun), 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12))
	f.Add(append(bytes.Clone(opened), byte(wire.KindBye), 8, 0, 0, 0, 0, 0, 0, 0, 0))
	f.Add(append(bytes.Clone(opened), opened...))
	resume := wire.Append(nil, &wire.Resume{Token: []byte("t")})
	f.Add(append([]byte{byte(wire.KindResume), byte(len(resume))}, resume...))
	f.Fuzz(func(t *testing.T, script []byte) {
		fx := start(t, dispatcher.Options{})
		w, c := fx.dial(ipc.RoleWorker, "w"), fx.dial(ipc.RoleClient, "c")
		s := fx.open(c, w, "good")
		bad := fx.dial(ipc.RoleClient, "bad")
		for len(script) >= 2 {
			kind, n := uint32(script[0]), min(int(script[1]), len(script)-2)
			buf, err := bad.TryReserve(kind, n)
			if err != nil {
				break
			}
			copy(buf, script[2:2+n])
			if bad.Commit() != nil {
				break
			}
			script = script[2+n:]
		}
		bad.Close()
		for fx.d.Stats().Clients != 1 && fx.ctx.Err() == nil {
		}
		c.send(wire.KindRun, message(0, 3, 1))
		for {
			m, err := w.Recv(fx.ctx)
			if err != nil {
				t.Fatal(err)
			}
			id := sessionOf(t, m.Body) // whatever came, it is of a session
			kind := m.Kind
			w.Release()
			if id == s && kind == wire.KindRun {
				return
			}
			if id == s {
				t.Fatalf("%s for another's session", wire.KindName(kind))
			}
		}
	})
}
