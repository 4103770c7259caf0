package client_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// fixture is a client and the other end of its conn, which says what a test wants.
type fixture struct {
	*testing.T
	ctx  context.Context
	e    *client.Engine
	conn ipc.Conn
	seg  *shm.Segment // the worker's
	h    wire.History
	far  *farWorker // with apart

	waiter *local.Waiter // of the conn, with openHere
	addr   string        // of the dispatcher, with openHere
}

func open(t *testing.T, o client.Options) *fixture {
	t.Helper()
	return openApart(t, o, false)
}

// openApart opens a session whose worker may be on another host.
func openApart(t *testing.T, o client.Options, apart bool) *fixture {
	t.Helper()
	f := newFixture(t)
	var err error
	f.e, err = f.dial(o, apart, func(words func(context.Context, *wire.Link) ([]byte, error)) (err error) {
		f.far, err = linkUp(f.ctx, words)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// dialApart has a client open a session of which the test plays the worker on another
// host, up to the point where it says that it is open.
func dialApart(t *testing.T, o client.Options, worker func(context.Context, func(context.Context, *wire.Link) ([]byte, error)) error) (*client.Engine, error) {
	t.Helper()
	f := newFixture(t)
	e, err := f.dial(o, true, func(words func(context.Context, *wire.Link) ([]byte, error)) error { return worker(f.ctx, words) })
	if err != nil && f.ctx.Err() != nil {
		t.Fatal(err)
	}
	return e, err
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	f := &fixture{T: t, ctx: ctx}
	var err error
	if f.seg, err = shm.Create(1<<16, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if f.e != nil {
			f.e.Close()
		}
		if f.far != nil {
			f.far.conn.Close()
		}
		if f.conn != nil {
			f.conn.Close()
		}
		f.seg.Close()
		cancel()
	})
	return f
}

// dial opens a session. A worker on another host says before that how it is reached:
// link, which talks to the client by words.
func (f *fixture) dial(o client.Options, apart bool, link func(words func(context.Context, *wire.Link) ([]byte, error)) error) (*client.Engine, error) {
	f.Helper()
	var net ipctest.Network
	l, err := net.Listen("pipe:", nil)
	if err != nil {
		f.Fatal(err)
	}
	o.Transport, o.Name = &net, "me"
	type opened struct {
		e   *client.Engine
		err error
	}
	end := make(chan opened, 1)
	go func() {
		e, err := client.Dial(f.ctx, l.Addr(), &o)
		end <- opened{e, err}
	}()
	if f.conn, err = l.Accept(f.ctx); err != nil {
		f.Fatal(err)
	}
	var m wire.OpenSession
	if err := wire.Parse(f.recv(wire.KindOpenSession), &m); err != nil || m.Name != "me" || m.Quota != o.Quota {
		f.Errorf("%+v, %v", m, err)
	}
	if apart {
		if err := link(f.words); err != nil {
			f.Fatal(err)
		}
	}
	answer := wire.Append(nil, &wire.SessionOpened{PID: 12, Apart: apart, Worker: "w7"})
	// else the client is gone already
	if buf, err := f.conn.Reserve(f.ctx, wire.KindSessionOpened, len(answer)); err == nil {
		copy(buf, answer)
		_ = f.conn.Commit()
	}
	got := <-end
	return got.e, got.err
}

// words has the client hear a worker's word and returns its answer, or nil when there is
// none any more.
func (f *fixture) words(ctx context.Context, m *wire.Link) ([]byte, error) {
	f.send(wire.KindLink, wire.Append(nil, m))
	msg, err := f.conn.Recv(ctx)
	if err != nil {
		return nil, err
	}
	defer f.conn.Release()
	var answer wire.Link
	if err := wire.Parse(msg.Body, &answer); err != nil || msg.Kind != wire.KindLink || answer.Round != m.Round || len(answer.Token) > 0 {
		return nil, fmt.Errorf("%s %+v: %w", wire.KindName(msg.Kind), answer, err)
	}
	return bytes.Clone(answer.Data), nil
}

func (f *fixture) send(kind uint32, body []byte, files ...*os.File) {
	f.Helper()
	buf, err := f.conn.Reserve(f.ctx, kind, len(body))
	if err != nil {
		f.Error(err)
		return
	}
	copy(buf, body)
	if err := f.conn.Commit(files...); err != nil {
		f.Error(err)
	}
}

func (f *fixture) recv(kind uint32) []byte {
	f.Helper()
	m, err := f.conn.Recv(f.ctx)
	if err != nil {
		f.Errorf("waiting for %s: %v", wire.KindName(kind), err)
		return nil
	}
	defer f.conn.Release()
	for _, file := range m.Files {
		file.Close()
	}
	if m.Kind != kind {
		f.Errorf("%s, expected %s", wire.KindName(m.Kind), wire.KindName(kind))
	}
	return bytes.Clone(m.Body)
}

// run waits for a Run, and skips what goes ahead of one.
func (f *fixture) run() *wire.Run {
	f.Helper()
	for {
		msg, err := f.conn.Recv(f.ctx)
		if err != nil {
			f.Errorf("waiting for a Run: %v", err)
			return &wire.Run{}
		}
		m := &wire.Run{}
		if msg.Kind == wire.KindRun {
			if err := wire.ParseRun(bytes.Clone(msg.Body), m, &f.h); err != nil {
				f.Error(err)
			}
			f.h.Record(m)
		}
		kind := msg.Kind
		for _, file := range msg.Files {
			file.Close()
		}
		f.conn.Release()
		switch kind {
		case wire.KindRun:
			return m
		case wire.KindSegment, wire.KindBody, wire.KindStop:
		default:
			f.Errorf("%s, expected a Run", wire.KindName(kind))
		}
	}
}

func (f *fixture) done(m *wire.Done) {
	f.Helper()
	f.send(wire.KindDone, wire.Append(nil, m))
}

// announce gives the client the worker's memory.
func (f *fixture) announce() {
	f.Helper()
	f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{ID: f.seg.ID(), Bytes: uint64(f.seg.Size())}), f.seg.File())
}

// value is a result of two f32 that lie at off of the worker's memory.
func (f *fixture) value(id, off uint64) wire.Result {
	return wire.Result{ID: id, Value: wire.Value{DType: uint8(tensor.F32), Dims: []int{2}, Handle: wire.Handle{Segment: f.seg.ID(), Off: off, Len: 8}}}
}

// fetch has the client fetch value 1 while answer plays the worker.
func (f *fixture) fetch(answer func(m *wire.Run)) ([]tensor.Fetched, error) {
	f.Helper()
	end := make(chan struct{})
	go func() {
		defer close(end)
		answer(f.run())
	}()
	got, err := f.e.Submit(f.ctx, &tensor.Batch{Base: 100, Fetch: []uint64{1}})
	<-end
	return got, err
}
