package worker_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// fixture is a worker and the dispatcher's end of its connection, which a test plays.
type fixture struct {
	*testing.T
	ctx  context.Context
	stop context.CancelCauseFunc
	w    *worker.Worker
	dev  device.Device
	conn ipc.Conn
	end  chan error
	run  map[uint64]*wire.History // of each session
	done wire.Done
	far  *farClient // of a session that shares no memory
}

func start(t *testing.T, o worker.Options) *fixture {
	t.Helper()
	return startWith(t, o, 0)
}

// startWith starts a worker whose tensors have at most so many bytes; 0 is no limit but
// the machine's.
func startWith(t *testing.T, o worker.Options, bytes int64) *fixture {
	t.Helper()
	var net ipctest.Network
	l, err := net.Listen("pipe:", nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Transport = &net
	return startAt(t, l, o, bytes)
}

// startAt starts a worker whose dispatcher listens at l.
func startAt(t *testing.T, l ipc.Listener, o worker.Options, bytes int64) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	f := &fixture{T: t, ctx: ctx, end: make(chan error, 1), run: map[uint64]*wire.History{}}
	if o.Device == nil {
		o.Device = worker.NewTestDevice(t, cpu.Options{MaxBytes: bytes, Arena: worker.Checked()})
	}
	o.Name, f.dev = "w", o.Device
	var err error
	if f.w, err = worker.New(&o); err != nil {
		t.Fatal(err)
	}
	serve, stop := context.WithCancelCause(context.Background())
	f.stop = stop
	go func() { f.end <- f.w.Serve(serve, l.Addr()) }()
	if f.conn, err = l.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	var dev wire.Device
	if err := wire.Parse(f.recv(wire.KindDevice), &dev); err != nil || dev.Info != o.Device.Info() {
		t.Fatalf("the worker's first message: %+v, %v", dev, err)
	}
	t.Cleanup(func() {
		stop(errors.New("the test is over"))
		<-f.end
		f.conn.Close()
		cancel()
	})
	return f
}

func (f *fixture) send(kind uint32, body []byte, files ...*os.File) {
	f.Helper()
	buf, err := f.conn.Reserve(f.ctx, kind, len(body))
	if err != nil {
		f.Fatal(err)
	}
	copy(buf, body)
	if err := f.conn.Commit(files...); err != nil {
		f.Fatal(err)
	}
}

// recv waits for a message of that kind, and skips Flow and Device.
func (f *fixture) recv(kind uint32) []byte {
	f.Helper()
	m, err := f.conn.Recv(f.ctx)
	for ; err == nil && (m.Kind == wire.KindFlow || m.Kind == wire.KindDevice) && kind != m.Kind; m, err = f.conn.Recv(f.ctx) {
		f.conn.Release()
	}
	if err != nil {
		f.Fatalf("waiting for %s: %v", wire.KindName(kind), err)
	}
	defer f.conn.Release()
	for _, file := range m.Files {
		file.Close()
	}
	if m.Kind != kind {
		f.Fatalf("%s %q, expected %s", wire.KindName(m.Kind), m.Body, wire.KindName(kind))
	}
	return bytes.Clone(m.Body)
}

// tryRecv returns the worker's next message to the dispatcher, if there is one. It skips
// Device, by which a worker on a loaded machine says that it is busy.
func (f *fixture) tryRecv() (ipc.Message, bool) {
	f.Helper()
	for {
		m, ok, err := f.conn.TryRecv()
		if err != nil {
			f.Fatal(err)
		}
		if !ok || m.Kind != wire.KindDevice {
			return m, ok
		}
		f.conn.Release()
	}
}

// open opens a session.
func (f *fixture) open(id, quota uint64) {
	f.Helper()
	f.openSession(wire.OpenSession{Session: id, Quota: quota, Name: "s"})
}

func (f *fixture) openSession(open wire.OpenSession) {
	f.Helper()
	id := open.Session
	f.send(wire.KindOpenSession, wire.Append(nil, &open))
	var m wire.SessionOpened
	if err := wire.Parse(f.recv(wire.KindSessionOpened), &m); err != nil {
		f.Fatal(err)
	}
	if m.Session != id || m.Worker != "w" || m.PID != uint32(os.Getpid()) || m.Apart != open.Apart {
		f.Errorf("%+v", m)
	}
	f.run[id] = &wire.History{}
}

// batch sends a Run as a client would.
func (f *fixture) batch(m *wire.Run) {
	f.Helper()
	h := f.run[m.Session]
	f.send(wire.KindRun, wire.AppendRun(nil, m, h))
	h.Record(m)
}

// answer waits for a Done, and skips Segment, Flow and Device.
func (f *fixture) answer(code wire.Code, text string) *wire.Done {
	f.Helper()
	for {
		m, err := f.conn.Recv(f.ctx)
		if err != nil {
			f.Fatal(err)
		}
		body := bytes.Clone(m.Body)
		f.conn.Release()
		for _, file := range m.Files {
			file.Close()
		}
		if m.Kind == wire.KindSegment || m.Kind == wire.KindFlow || m.Kind == wire.KindDevice {
			continue
		}
		if m.Kind != wire.KindDone {
			f.Fatalf("%s %q, expected an answer", wire.KindName(m.Kind), body)
		}
		f.done = wire.Done{}
		if err := wire.Parse(body, &f.done); err != nil {
			f.Fatal(err)
		}
		if f.done.Code != code || !strings.Contains(f.done.Text, text) {
			f.Errorf("%v %q, expected %v with %q", f.done.Code, f.done.Text, code, text)
		}
		return &f.done
	}
}

// failed waits for the end of a session.
func (f *fixture) failed(session uint64, code wire.Code, text string) {
	f.Helper()
	var m wire.Fail
	if err := wire.Parse(f.recv(wire.KindFail), &m); err != nil {
		f.Fatal(err)
	}
	if m.Session != session || m.Code != code || !strings.Contains(m.Text, text) {
		f.Errorf("session %d: %v %q, expected session %d: %v with %q", m.Session, m.Code, m.Text, session, code, text)
	}
}

// floats returns an upload that travels in the message.
func floats(id uint64, x ...float32) wire.Upload {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return wire.Upload{ID: id, Value: wire.Value{DType: uint8(tensor.F32), Dims: []int{int(len(x))}, Inline: b}}
}

// program records one on values of two elements: input 0 donated as asked, the one result
// kept.
type program struct {
	hash    wire.Hash
	encoded []byte
}

func (f *fixture) program(donated bool, record func(x *tensor.Tensor) *tensor.Tensor) program {
	f.Helper()
	return (&recorder{}).program(f, donated, record)
}

func (rec *recorder) program(t testing.TB, donated bool, record func(x *tensor.Tensor) *tensor.Tensor) program {
	t.Helper()
	s := tensor.NewSession(rec, nil)
	x := tensor.From(s, []float32{1, 2})
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	y := record(x)
	if donated {
		x.Free()
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if y.Err() != nil {
		t.Fatal(y.Err())
	}
	return program{wire.Hash(tensor.HashOf(rec.encoded)), rec.encoded}
}

// recorder is an engine that keeps the last program.
type recorder struct{ encoded []byte }

type heap []byte

func (h heap) Bytes() []byte { return h }
func (h heap) Release()      {}

func (r *recorder) Name() string                       { return "recorder" }
func (r *recorder) Alloc(n int) (tensor.Buffer, error) { return heap(make([]byte, n)), nil }
func (r *recorder) Close() error                       { return nil }
func (r *recorder) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	r.encoded = bytes.Clone(b.Encoded)
	return nil, nil
}

func (f *fixture) body(session uint64, p program) {
	f.Helper()
	f.send(wire.KindBody, wire.Append(nil, &wire.Body{Session: session, Hash: p.hash, Total: uint32(len(p.encoded)), Part: p.encoded}))
}

// segment makes memory as a client has it, and announces it.
func (f *fixture) segment(session uint64, size int64) *shm.Segment {
	f.Helper()
	seg, err := shm.Create(size, &shm.Options{Backing: shm.Memfd, PeersRead: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { seg.Close() })
	f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{Session: session, ID: seg.ID(), Bytes: uint64(seg.Size())}), seg.File())
	return seg
}

// byHandle returns an upload of n f32 that lie in a segment.
func byHandle(id uint64, seg *shm.Segment, off, n uint64) wire.Upload {
	return wire.Upload{ID: id, Value: wire.Value{DType: uint8(tensor.F32), Dims: []int{int(n)}, Handle: wire.Handle{Segment: seg.ID(), Off: off, Len: 4 * n}}}
}

// healthy checks that a new session works.
func (f *fixture) healthy(id uint64) {
	f.Helper()
	f.open(id, 0)
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	f.body(id, p)
	f.batch(&wire.Run{Session: id, Seq: 1, Hash: p.hash, Base: 100, Uploads: []wire.Upload{floats(1, 5, 6)},
		Inputs: []uint64{1}, Scalars: []float64{1}, Fetch: []uint64{100}})
	if d := f.answer(wire.CodeOK, ""); len(d.Results) != 1 || d.Results[0].ID != 100 || d.Results[0].Handle.Len != 8 {
		f.Errorf("%+v", d)
	}
	f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: id}))
}
