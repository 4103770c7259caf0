package worker_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
)

// startHere starts a worker whose dispatcher, which the test plays, is on the same host.
func startHere(t *testing.T) *fixture {
	t.Helper()
	return startAt(t, listenHere(t, socket(t)), worker.Options{}, 0)
}

// openDirect opens a session and returns the descriptor of its own conn.
func (f *fixture) openDirect(id uint64) *os.File {
	f.Helper()
	f.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Session: id, Direct: true, Quota: 1 << 40, Token: tokenOf(id), Name: "direct"}))
	m, err := f.conn.Recv(f.ctx)
	for ; err == nil && m.Kind == wire.KindDevice; m, err = f.conn.Recv(f.ctx) {
		f.conn.Release()
	}
	if err != nil {
		f.Fatal(err)
	}
	defer f.conn.Release()
	if m.Kind != wire.KindSessionOpened || len(m.Files) != 1 {
		f.Fatalf("%s with %d files", wire.KindName(m.Kind), len(m.Files))
	}
	var opened wire.SessionOpened
	if err := wire.Parse(m.Body, &opened); err != nil || !bytes.Equal(opened.Token, tokenOf(id)) {
		f.Errorf("%+v, %v; expected the session's token", opened, err)
	}
	f.run[id] = &wire.History{}
	return m.Files[0]
}

// tokenOf is the token of a session with a conn of its own.
func tokenOf(id uint64) []byte { return []byte{1, byte(id)} }

// direct opens a session and takes its own conn: the client's side of it.
func (f *fixture) direct(id uint64) *fixture {
	f.Helper()
	c, err := local.New().Take(f.ctx, f.openDirect(id), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	own := *f
	own.conn = c
	return &own
}

// TestDirect checks that the messages of a session's own connection are answered there,
// that the dispatcher sees none of them, and that CloseSession ends the session.
func TestDirect(t *testing.T) {
	f := startHere(t)
	own := f.direct(1)
	for seq := range uint64(20) {
		own.batch(&wire.Run{Session: 1, Seq: seq + 1, Flags: wire.RunSync})
		if d := own.answer(wire.CodeOK, ""); d.Seq != seq+1 {
			t.Fatalf("answer to %d, expected %d", d.Seq, seq+1)
		}
	}
	if m, ok := f.tryRecv(); ok {
		t.Errorf("the dispatcher hears %s", wire.KindName(m.Kind))
	}
	if st := f.w.Stats(); st.Runs != 20 || st.Sessions != 1 {
		t.Errorf("%+v", st)
	}
	f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
	if _, err := own.conn.Recv(f.ctx); !errors.Is(err, ipc.ErrPeerGone) {
		t.Errorf("%v when the session was closed", err)
	}
	f.open(2, 0)
	if st := f.w.Stats(); st.Sessions != 1 || st.Opened != 2 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

// TestDirectIsNotTaken checks that a session goes on through the dispatcher if its client
// does not take the connection, or loses it.
func TestDirectIsNotTaken(t *testing.T) {
	f := startHere(t)
	f.openDirect(1).Close()
	own := f.direct(2)
	own.batch(&wire.Run{Session: 2, Seq: 1, Flags: wire.RunSync})
	own.answer(wire.CodeOK, "")
	own.conn.Close()
	for id := range uint64(2) {
		f.batch(&wire.Run{Session: id + 1, Seq: 7, Flags: wire.RunSync})
		if d := f.answer(wire.CodeOK, ""); d.Session != id+1 || d.Seq != 7 {
			t.Errorf("session %d is answered %d", d.Session, d.Seq)
		}
	}
}

// TestDirectProtocol checks that a client that sends messages of a dispatcher fails its
// session and no other, and that the dispatcher is told.
func TestDirectProtocol(t *testing.T) {
	f := startHere(t)
	other := f.direct(1)
	for i, send := range []func(own *fixture){
		func(own *fixture) {
			own.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
		},
		func(own *fixture) {
			own.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Session: 9}))
		},
		func(own *fixture) { own.send(wire.KindRun, []byte("no run")) },
		func(own *fixture) { own.send(wire.KindRun, nil) },
	} {
		id := uint64(i + 2)
		own := f.direct(id)
		send(own)
		f.failed(id, wire.CodeProtocol, `worker "w"`)
		if _, err := own.conn.Recv(f.ctx); !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("%v over the conn of a session that failed", err)
		}
	}
	other.batch(&wire.Run{Session: 1, Seq: 1, Flags: wire.RunSync})
	other.answer(wire.CodeOK, "")
}

// TestDirectSmall checks that small results travel in the answer, without a lease, until
// the answer is long, and that larger ones travel by handle.
func TestDirectSmall(t *testing.T) {
	f := startHere(t)
	own := f.direct(1)
	small, large := make([]float32, 16), make([]float32, 17)
	for i := range small {
		small[i] = float32(i)
	}
	own.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{floats(1, small...), floats(2, large...), floats(3, 5)}, Fetch: []uint64{3, 1, 2}})
	got := own.answer(wire.CodeOK, "").Results
	if len(got) != 3 || !bytes.Equal(got[0].Inline, floats(0, 5).Inline) || !bytes.Equal(got[1].Inline, floats(0, small...).Inline) ||
		got[2].Inline != nil || got[2].Handle.Len != 4*17 {
		t.Errorf("%+v", got)
	}
	if n := f.dev.Arena().Stats().Leases; n != 1 {
		t.Errorf("%d leases, expected that of the large one", n)
	}
	many := slices.Repeat([]uint64{1}, 100)
	own.batch(&wire.Run{Session: 1, Seq: 2, Fetch: many, Returns: []wire.Handle{got[2].Handle}})
	inline := 0
	for _, r := range own.answer(wire.CodeOK, "").Results {
		if r.Inline == nil {
			continue
		}
		if inline += len(r.Inline); !bytes.Equal(r.Inline, floats(0, small...).Inline) {
			t.Errorf("%v", r.Inline)
		}
	}
	if n := f.dev.Arena().Stats().Leases; inline != 4<<10 || n != 100-inline/64 {
		t.Errorf("%d bytes in the answer and %d leases", inline, n)
	}
	// Over the dispatcher's conn no bytes travel.
	f.open(2, 0)
	f.batch(&wire.Run{Session: 2, Seq: 1, Uploads: []wire.Upload{floats(1, 5)}, Fetch: []uint64{1}})
	if r := f.answer(wire.CodeOK, "").Results[0]; r.Inline != nil || r.Handle.Len != 4 {
		t.Errorf("%+v", r)
	}
}

// TestDirectUnread checks that a client that reads no answers gets no more turns when its
// queue is full, and delays no other. When it reads, all answers are there, in order.
func TestDirectUnread(t *testing.T) {
	f := startHere(t)
	lazy, brisk := f.direct(1), f.direct(2)
	lazy.batch(&wire.Run{Session: 1, Seq: 1, Flags: wire.RunSync, Uploads: []wire.Upload{floats(1, make([]float32, 17)...)}})
	lazy.answer(wire.CodeOK, "")
	const runs = 60
	fetch := make([]uint64, 1000) // 40 KB: a queue of 1 MiB has room for 26
	for i := range fetch {
		fetch[i] = 1
	}
	for seq := range uint64(runs) {
		lazy.batch(&wire.Run{Session: 1, Seq: seq + 2, Base: 2, Fetch: fetch})
	}
	for seq := range uint64(200) {
		brisk.batch(&wire.Run{Session: 2, Seq: seq + 1, Flags: wire.RunSync})
		brisk.answer(wire.CodeOK, "")
	}
	if st := f.w.Stats(); st.Runs >= 1+runs+200 || st.Failed != 0 {
		t.Errorf("%+v, though %d answers have no room", st, runs)
	}
	for seq := range uint64(runs) {
		if d := lazy.answer(wire.CodeOK, ""); d.Seq != seq+2 || len(d.Results) != len(fetch) {
			t.Fatalf("answer to %d with %d results, expected %d", d.Seq, len(d.Results), seq+2)
		}
	}
	if st := f.w.Stats(); st.Runs != 1+runs+200 {
		t.Errorf("%+v", st)
	}
}

// TestDirectClients checks that clients that come and go leave nothing at the worker,
// with or without taking their connections.
func TestDirectClients(t *testing.T) {
	f := startHere(t)
	const clients = 40
	for id := range uint64(clients) {
		file := f.openDirect(id + 1)
		if id%3 == 0 {
			defer file.Close()
		} else if id%3 == 1 {
			file.Close()
		} else if c, err := local.New().Take(f.ctx, file, nil); err != nil {
			t.Fatal(err)
		} else {
			defer c.Close()
		}
		f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: id + 1}))
	}
	f.open(clients+1, 0)
	if st := f.w.Stats(); st.Sessions != 1 || st.Opened != clients+1 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}
