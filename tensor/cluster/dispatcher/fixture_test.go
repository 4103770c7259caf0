package dispatcher_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// fixture is a dispatcher on an in-memory network, and peers that say what a test wants.
type fixture struct {
	*testing.T
	d        *dispatcher.Dispatcher
	net      ipctest.Network
	addr     string
	listener ipc.Listener
	ctx      context.Context
	stop     context.CancelCauseFunc
	end      chan error
}

func start(t *testing.T, o dispatcher.Options) *fixture {
	t.Helper()
	f := prepare(t, o)
	f.serve()
	return f
}

// prepare has peers wait at the door until serve.
func prepare(t *testing.T, o dispatcher.Options) *fixture {
	t.Helper()
	if o.Waiter == nil {
		o.Waiter = ipc.NewWaiter()
	}
	d, err := dispatcher.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, d: d, end: make(chan error, 1)}
	l, err := f.net.Listen("pipe:", d.ListenOptions())
	if err != nil {
		t.Fatal(err)
	}
	f.addr, f.listener = l.Addr(), l
	timeout, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	f.ctx = timeout
	t.Cleanup(cancel)
	return f
}

func (f *fixture) serve() {
	ctx, stop := context.WithCancelCause(context.Background())
	f.stop = stop
	go func() { f.end <- f.d.Serve(ctx, f.listener) }()
	f.Cleanup(func() { f.shutDown(errors.New("the test is over")) })
}

// shutDown stops the dispatcher and waits for its end.
func (f *fixture) shutDown(cause error) {
	f.Helper()
	f.stop(cause)
	if err := <-f.end; err != nil {
		f.Errorf("Serve: %v", err)
	}
	f.end <- nil
}

// peer is one end of a conn.
type peer struct {
	f *fixture
	ipc.Conn
}

// dial connects a peer. A worker tells its device, and is registered or refused behind
// dial if the dispatcher serves already.
func (f *fixture) dial(role ipc.Role, name string) *peer {
	f.Helper()
	return f.dialAs(ipc.Peer{Role: role, Name: name})
}

// dialAs is dial of a peer that says hello.
func (f *fixture) dialAs(hello ipc.Peer) *peer {
	f.Helper()
	before := f.d.Stats()
	c, err := f.net.Dial(f.ctx, f.addr, &ipc.Options{Hello: hello})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	p := &peer{f, c}
	if hello.Role == ipc.RoleWorker {
		p.register(device.Info{Name: "cpu", Kind: device.CPU}, 0)
		for now := before; f.stop != nil && now.Workers+int(now.Refused) == before.Workers+int(before.Refused) && f.ctx.Err() == nil; now = f.d.Stats() {
			runtime.Gosched()
		}
	}
	return p
}

// register tells the dispatcher what a worker computes on, unless it has hung up.
func (p *peer) register(info device.Info, used uint64) {
	p.f.Helper()
	m := wire.Append(nil, &wire.Device{Info: info, Used: used})
	buf, err := p.Reserve(p.f.ctx, wire.KindDevice, len(m))
	if err == nil {
		copy(buf, m)
		err = p.Commit()
	}
	if err != nil && !errors.Is(err, ipc.ErrPeerGone) {
		p.f.Fatal(err)
	}
}

// send sends a message whole.
func (p *peer) send(kind uint32, body []byte, files ...*os.File) {
	p.f.Helper()
	buf, err := p.Reserve(p.f.ctx, kind, len(body))
	if err != nil {
		p.f.Fatal(err)
	}
	copy(buf, body)
	if err := p.Commit(files...); err != nil {
		p.f.Fatal(err)
	}
}

// recv waits for a message of that kind and returns its body and files.
func (p *peer) recv(kind uint32) ([]byte, []*os.File) {
	p.f.Helper()
	m, err := p.Recv(p.f.ctx)
	if err != nil {
		p.f.Fatalf("waiting for %s: %v", wire.KindName(kind), err)
	}
	body := bytes.Clone(m.Body)
	p.Release()
	if m.Kind != kind {
		p.f.Fatalf("%s %q, expected %s", wire.KindName(m.Kind), body, wire.KindName(kind))
	}
	return body, m.Files
}

// fail waits for a Fail.
func (p *peer) fail(code wire.Code, text string) {
	p.f.Helper()
	body, _ := p.recv(wire.KindFail)
	var m wire.Fail
	if err := wire.Parse(body, &m); err != nil {
		p.f.Fatal(err)
	}
	if m.Code != code || !strings.Contains(m.Text, text) {
		p.f.Errorf("Fail %v %q, expected %v with %q", m.Code, m.Text, code, text)
	}
}

// gone waits for the end of the conn.
func (p *peer) gone() {
	p.f.Helper()
	if m, err := p.Recv(p.f.ctx); !errors.Is(err, ipc.ErrPeerGone) {
		p.f.Errorf("%s, %v; expected that the dispatcher hangs up", wire.KindName(m.Kind), err)
	}
}

// message is a body of n bytes after the session's id.
func message(session uint64, n int, fill byte) []byte {
	b := append(make([]byte, wire.SessionBytes), bytes.Repeat([]byte{fill}, n)...)
	wire.SetSession(b, session)
	return b
}

func sessionOf(t testing.TB, body []byte) uint64 {
	t.Helper()
	id, ok := wire.Session(body)
	if !ok {
		t.Fatal("no session")
	}
	return id
}

// open has a client open a session, and its worker answer. It returns the session's
// number.
func (f *fixture) open(c, w *peer, name string) uint64 {
	f.Helper()
	c.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Session: 999, Quota: 77, Name: name}))
	body, _ := w.recv(wire.KindOpenSession)
	var m wire.OpenSession
	if err := wire.Parse(body, &m); err != nil {
		f.Fatal(err)
	}
	if m.Name != name || m.Quota != 77 || m.Session == 0 || m.Session == 999 {
		f.Errorf("the worker is told %+v", m)
	}
	w.send(wire.KindSessionOpened, wire.Append(nil, &wire.SessionOpened{Session: m.Session, PID: 1, Worker: "w"}))
	c.recv(wire.KindSessionOpened)
	return m.Session
}

// closed waits until the worker is told that a session is over.
func (p *peer) closed(session uint64, reason wire.Code) {
	p.f.Helper()
	body, _ := p.recv(wire.KindCloseSession)
	var m wire.CloseSession
	if err := wire.Parse(body, &m); err != nil {
		p.f.Fatal(err)
	}
	if m.Session != session || m.Reason != reason {
		p.f.Errorf("CloseSession %d, %v; expected %d, %v", m.Session, m.Reason, session, reason)
	}
}
