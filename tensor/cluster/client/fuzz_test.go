package client_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Actions of the other end of a session in a script: a byte of these (modulo their
// number), and what it needs from the bytes after.
const (
	opRaw = iota // a message: kind, length, body
	// an answer to the last Run: off by, code, results of: id, dtype, dims, segment,
	// offset, length
	opDone
	opReturn  // an answer that gives an upload back, or something like it
	opSegment // memory: which file, how large it is said to be
	opLink    // a message on the conn of tensors: kind, block
	// what is sent next on it is other than what was asked for: by how much, and its tag
	// by how much
	opOther
	opFail     // the end, by a code
	opOpened   // the session is opened, once more
	opScribble // over the memory that was announced
	opRun      // wait for the next Run
	ops
)

const (
	// fuzzArena is what a client may take for its own memory.
	fuzzArena = 8 << 20
	// fuzzHeap is far more Go memory than a client needs that runs a script of some
	// hundred bytes.
	fuzzHeap = 64 << 20
)

// script is read byte by byte; after its end it is zeros.
type script []byte

func (s *script) byte() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

func (s *script) bytes(n int) []byte {
	n = min(n, len(*s))
	b := (*s)[:n]
	*s = (*s)[n:]
	return b
}

// number is small, around a power of two, or enormous.
func (s *script) number() uint64 {
	b := s.byte()
	switch b >> 6 {
	case 0:
		return uint64(b)
	case 1:
		return 1 << (b & 63)
	case 2:
		return 1<<(b&63) - 1
	}
	return uint64(b&63) * 8
}

// other is the dispatcher and the worker of one client, in one, and means no good.
type other struct {
	ctx     context.Context
	conn    ipc.Conn
	seg     *shm.Segment
	run     wire.Run // the last
	ran     bool     // there was one
	history wire.History

	far *farWorker // with apart
	// by how much what it gives is other than what was asked for
	longer, otherTag atomic.Uint64
}

// send reports whether there was a connection, and room.
func (o *other) send(kind uint32, body []byte, files ...*os.File) bool {
	buf, err := o.conn.Reserve(o.ctx, kind, len(body))
	if err != nil {
		return false
	}
	copy(buf, body)
	return o.conn.Commit(files...) == nil
}

// patience is how long a script waits for another Run: the client may be waiting for the
// answer to the last.
const patience = 2 * time.Millisecond

// next waits for a Run, the first of which comes in any case, and reports whether the
// conn still works.
func (o *other) next() bool {
	ctx, cancel := o.ctx, context.CancelFunc(func() {})
	if o.ran {
		ctx, cancel = context.WithTimeout(o.ctx, patience)
	}
	defer cancel()
	for {
		m, err := o.conn.Recv(ctx)
		if err != nil {
			return o.conn.Err() == nil && o.ctx.Err() == nil
		}
		o.ran = true
		is := m.Kind == wire.KindRun
		if is && wire.ParseRun(bytes.Clone(m.Body), &o.run, &o.history) == nil {
			o.history.Record(&o.run)
		}
		for _, f := range m.Files {
			f.Close()
		}
		o.conn.Release()
		if is {
			return true
		}
	}
}

func (o *other) segment(s *script) uint64 {
	switch s.byte() % 4 {
	case 0:
		return s.number()
	case 1:
		if len(o.run.Uploads) > 0 {
			return o.run.Uploads[0].Handle.Segment
		}
	}
	return o.seg.ID()
}

func (o *other) handle(s *script) wire.Handle {
	return wire.Handle{Segment: o.segment(s), Off: s.number(), Len: s.number()}
}

func (o *other) done(s *script) *wire.Done {
	m := &wire.Done{Seq: o.run.Seq + uint64(int8(s.byte())/32), Code: wire.Code(s.byte() / 16)}
	for range s.byte() % 4 {
		r := wire.Result{ID: s.number()}
		r.DType = s.byte() % 16
		for range s.byte() % 4 {
			r.Dims = append(r.Dims, int(s.number()))
		}
		if s.byte()%4 == 0 {
			r.Inline = s.bytes(int(s.byte()))
		} else {
			r.Handle = o.handle(s)
		}
		m.Results = append(m.Results, r)
	}
	return m
}

// step does what comes next, and reports whether the conn still works.
func (o *other) step(t *testing.T, s *script, files []*os.File) bool {
	switch s.byte() % ops {
	case opRaw:
		kind := uint32(s.byte())
		return o.send(kind, s.bytes(int(s.byte())))
	case opDone:
		return o.send(wire.KindDone, wire.Append(nil, o.done(s)))
	case opReturn:
		m := o.done(s)
		for range s.byte() % 4 {
			m.Returned = append(m.Returned, o.handle(s))
		}
		if len(o.run.Uploads) > 0 && s.byte()%2 == 0 {
			m.Returned = append(m.Returned, o.run.Uploads[0].Handle)
		}
		return o.send(wire.KindDone, wire.Append(nil, m))
	case opSegment:
		m := wire.Segment{ID: o.segment(s), Bytes: uint64(o.seg.Size()), Memory: s.byte() / 128}
		if s.byte()%4 == 0 {
			m.Bytes = s.number()
		}
		return o.send(wire.KindSegment, wire.Append(nil, &m), files[int(s.byte())%len(files):][:s.byte()%2]...)
	case opLink:
		if o.far != nil {
			_ = o.far.say(wire.KindLink+uint32(s.byte()%5), o.handle(s))
		}
	case opOther:
		o.longer.Store(uint64(s.byte()))
		o.otherTag.Store(uint64(s.byte()))
	case opFail:
		return o.send(wire.KindFail, wire.Append(nil, &wire.Fail{Code: wire.Code(s.byte()), Text: string(s.bytes(8))}))
	case opOpened:
		return o.send(wire.KindSessionOpened, wire.Append(nil, &wire.SessionOpened{Apart: s.byte()%2 == 0, Worker: "again"}))
	case opScribble:
		copy(o.seg.Bytes()[s.number()%uint64(o.seg.Size()):], s.bytes(int(s.byte())))
	case opRun:
		return o.next()
	}
	return true
}

// FuzzWorker is a session whose dispatcher and worker say anything at any time: answers
// that are almost right, memory that is none, parts that were not asked for. The client
// ends the session with an error, or gets values that lie within the memory it was given;
// it does not panic, hang, or take more memory than it may.
func FuzzWorker(f *testing.F) {
	// A good answer: a segment is announced, and value 1 is two f32 in it.
	good := []byte{opSegment, 2, 0, 1, 0, 1, opDone, 0, 0, 1, 1, byte(tensor.F32), 1, 2, 1, 2, 0, 8}
	f.Add(false, append([]byte{opRun}, good...))
	f.Add(true, append([]byte{opRun}, good...))
	f.Add(false, good)
	f.Add(false, []byte{opRun, opReturn, 0, 0, 0, 0, 0, opRun, opDone, 0, 0, 0})
	f.Add(true, []byte{opRun, opDone, 0, 0, 1, 1, byte(tensor.F32), 1, 2, 1, 2, 0, 8, opRun, opLink, 3, 1, 2, 0, 8, opOther, 1, 1})
	f.Add(true, []byte{opOther, 1, 0, opRun, opDone, 0, 0, 1, 1, byte(tensor.F32), 1, 2, 1, 2, 0, 8, opRun})
	f.Add(true, []byte{opLink, 3, 1, 2, 0, 8, opRun})
	f.Add(false, []byte{opRun, opFail, byte(wire.CodeWorkerGone)})
	f.Add(false, []byte{opRun, opSegment, 2, 0, 0, 127, 0, 1})
	f.Add(false, []byte{opRaw, byte(wire.KindDone), 9})
	sealed, err := shm.Create(1<<16, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { sealed.Close() })
	null, err := os.Open(os.DevNull)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { null.Close() })
	plain, err := os.CreateTemp(f.TempDir(), "")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { plain.Close() })
	if err := plain.Truncate(1 << 16); err != nil {
		f.Fatal(err)
	}
	files := []*os.File{sealed.File(), null, plain}

	f.Fuzz(func(t *testing.T, apart bool, b []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		before := allocated()
		var net ipctest.Network
		l, err := net.Listen("pipe:", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		over := make(chan struct{})
		go func() {
			defer close(over)
			conn, err := l.Accept(ctx)
			if err != nil {
				return
			}
			defer conn.Close()
			o := &other{ctx: ctx, conn: conn, seg: sealed}
			s := script(b)
			if apart && !o.link() {
				return
			}
			if o.far != nil {
				defer o.far.conn.Close()
				go o.serve()
			}
			if !o.send(wire.KindSessionOpened, wire.Append(nil, &wire.SessionOpened{Apart: apart, Worker: "w"})) {
				return
			}
			for len(s) > 0 && o.step(t, &s, files) {
			}
		}()
		e, err := client.Dial(ctx, l.Addr(), &client.Options{
			Transport: &net, Name: "c", MaxBytes: fuzzArena, Segment: shm.Options{Backing: shm.Memfd, PeersRead: true},
		})
		if err == nil {
			use(t, ctx, e)
			e.Close()
		}
		<-over
		if ctx.Err() != nil {
			t.Error("the session hung")
		}
		if took := allocated() - before; took > fuzzHeap {
			t.Errorf("%d bytes of Go memory were allocated", took)
		}
	})
}

// link opens the conn of tensors.
func (o *other) link() bool {
	skip := true // what the client said first
	far, err := linkUp(o.ctx, func(ctx context.Context, m *wire.Link) ([]byte, error) {
		if !o.send(wire.KindLink, wire.Append(nil, m)) {
			return nil, ipc.ErrPeerGone
		}
		for {
			msg, err := o.conn.Recv(ctx)
			if err != nil {
				return nil, err
			}
			var answer wire.Link
			err = wire.Parse(msg.Body, &answer)
			kind, data := msg.Kind, bytes.Clone(answer.Data)
			o.conn.Release()
			if skip && kind == wire.KindOpenSession {
				skip = false
				continue
			}
			return data, err
		}
	})
	o.far = far
	return err == nil
}

// serve answers on the conn of tensors, rightly but for what the script wants.
func (o *other) serve() {
	for {
		kind, h, err := o.far.heard()
		switch {
		case err != nil || h.Len > fuzzArena:
			return
		case kind == wire.KindPush:
			if _, err = o.far.take(h.Len); err == nil {
				err = o.far.say(wire.KindPushed, h)
			}
		case kind == wire.KindPull:
			err = o.far.give(o.far.pulled+o.otherTag.Load(), make([]byte, h.Len+o.longer.Load()))
			o.far.pulled++
		}
		if err != nil {
			return
		}
	}
}

// use does what a program does: an upload, a value fetched, a sync, again, until the
// session ends.
func use(t *testing.T, ctx context.Context, e *client.Engine) {
	for i := range 4 {
		var up []tensor.Upload
		buf, err := e.Alloc(1 << 10)
		if err == nil {
			up = []tensor.Upload{{ID: 50 + uint64(i), DType: tensor.U8, Shape: tensor.Shape{1 << 10}, Buf: buf}}
			copy(buf.Bytes(), "what is uploaded")
		}
		got, err := e.Submit(ctx, &tensor.Batch{Base: 100, Uploads: up, Fetch: []uint64{1}})
		if buf != nil {
			buf.Release()
		}
		if err == nil && len(got) != 1 {
			t.Fatalf("%d values for one", len(got))
		}
		for _, v := range got {
			if want := v.Shape.Elems() * v.DType.Size(); len(v.Bytes) != want {
				t.Errorf("%v%v has %d bytes, expected %d", v.DType, v.Shape, len(v.Bytes), want)
			}
			sum := 0
			for _, x := range v.Bytes { // all of it can be read
				sum += int(x)
			}
			if sum < 0 {
				t.Error(sum)
			}
			v.Release()
		}
		if _, err := e.Submit(ctx, &tensor.Batch{Sync: true, Frees: []uint64{50 + uint64(i)}}); errors.Is(err, client.ErrLost) {
			return
		}
	}
}

// allocated is how many bytes of Go memory were ever allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
