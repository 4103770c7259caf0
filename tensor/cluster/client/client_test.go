package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// TestHostileWorker: an answer that makes no sense ends the session with a word of what
// was wrong.
func TestHostileWorker(t *testing.T) {
	for what, c := range map[string]struct {
		answer func(f *fixture, m *wire.Run)
		text   string
	}{
		"kind": {func(f *fixture, m *wire.Run) { f.send(99, make([]byte, 8)) }, "kind 99"},
		"run":  {func(f *fixture, m *wire.Run) { f.send(wire.KindRun, make([]byte, 8)) }, "Run"},
		"opened twice": {func(f *fixture, m *wire.Run) {
			f.send(wire.KindSessionOpened, wire.Append(nil, &wire.SessionOpened{Worker: "w8"}))
		}, `"w8"`},
		"half an answer": {func(f *fixture, m *wire.Run) { f.send(wire.KindDone, make([]byte, 9)) }, "Done"},
		"half a fail":    {func(f *fixture, m *wire.Run) { f.send(wire.KindFail, make([]byte, 9)) }, "Fail"},
		"future":         {func(f *fixture, m *wire.Run) { f.done(&wire.Done{Seq: m.Seq + 1}) }, "run 2"},
		"no result":      {func(f *fixture, m *wire.Run) { f.done(&wire.Done{Seq: m.Seq}) }, "0 results for 1"},
		"another result": {func(f *fixture, m *wire.Run) {
			f.announce()
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{f.value(2, 0)}})
		}, "value 2, expected 1"},
		"unknown segment": {func(f *fixture, m *wire.Run) {
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{f.value(1, 0)}})
		}, "unknown segment"},
		"beyond the end": {func(f *fixture, m *wire.Run) {
			f.announce()
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{f.value(1, 1<<16)}})
		}, "out of bounds"},
		"not aligned": {func(f *fixture, m *wire.Run) {
			f.announce()
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{f.value(1, 12)}})
		}, "aligned"},
		"too short": {func(f *fixture, m *wire.Run) {
			f.announce()
			v := f.value(1, 0)
			v.Dims = []int{3}
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{v}})
		}, "8 bytes, expected 12"},
		"dtype": {func(f *fixture, m *wire.Run) {
			f.announce()
			v := f.value(1, 0)
			v.DType = 99
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{v}})
		}, "dtype 99"},
		"too many elements": {func(f *fixture, m *wire.Run) {
			f.announce()
			v := f.value(1, 0)
			v.Dims = []int{1 << 61}
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{v}})
		}, "too large"},
		"gives back what it has not": {func(f *fixture, m *wire.Run) {
			f.done(&wire.Done{Seq: m.Seq, Code: wire.CodeEngine, Returned: []wire.Handle{{Segment: 5, Len: 1}}})
		}, "given back"},
		"segment without descriptor": {func(f *fixture, m *wire.Run) {
			f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{ID: 1, Bytes: 4096}))
		}, "0 descriptors"},
		"segment twice": {func(f *fixture, m *wire.Run) { f.announce(); f.announce() }, "exists"},
	} {
		t.Run(what, func(t *testing.T) {
			f := open(t, client.Options{})
			got, err := f.fetch(func(m *wire.Run) { c.answer(f, m) })
			if !errors.Is(err, client.ErrLost) || !errors.Is(err, ipc.ErrCorrupt) || !strings.Contains(err.Error(), c.text) || len(got) > 0 {
				t.Errorf("%d values, %v", len(got), err)
			}
			if _, again := f.e.Submit(f.ctx, &tensor.Batch{Sync: true}); again != err {
				t.Errorf("then %v", again)
			}
			if _, err := f.conn.Recv(f.ctx); !errors.Is(err, ipc.ErrPeerGone) {
				t.Errorf("the other end sees %v", err)
			}
		})
	}
}

// TestErrors: what the worker says is what it is here.
func TestErrors(t *testing.T) {
	for code, want := range map[wire.Code]error{
		wire.CodeIndex: tensor.ErrIndex, wire.CodeUnknownID: tensor.ErrUnknown, wire.CodeNoMemory: tensor.ErrNoSpace,
		wire.CodeQuota: tensor.ErrNoSpace, wire.CodeShape: tensor.ErrShape, wire.CodeDType: tensor.ErrDType,
		wire.CodeBadProgram: tensor.ErrProgram, wire.CodeEngine: client.ErrRemote, 4711: client.ErrRemote,
	} {
		f := open(t, client.Options{})
		_, err := f.fetch(func(m *wire.Run) { f.done(&wire.Done{Seq: m.Seq, Code: code, Text: "just so"}) })
		if !errors.Is(err, want) || err.Error() != "just so" {
			t.Errorf("%v: %v", code, err)
		}
		_, err = f.fetch(func(m *wire.Run) {
			f.done(&wire.Done{Seq: m.Seq, Code: code, Text: "just so", At: 5, Op: "add", Inputs: "f32[2]"})
		})
		failed, ok := err.(*tensor.Failure) // as it is: a session looks for its type
		at := new(tensor.RunError)
		if !ok || !errors.As(failed.Err, &at) || !errors.Is(err, want) || at.Instr != 4 || at.Op != "add" || at.Inputs != "f32[2]" {
			t.Errorf("%v: %#v", code, err)
		}
	}
}

// TestLost: the end of a session has a reason, and stays.
func TestLost(t *testing.T) {
	for what, c := range map[string]struct {
		end  func(f *fixture)
		want []error
		text string
	}{
		"worker died": {func(f *fixture) {
			f.send(wire.KindFail, wire.Append(nil, &wire.Fail{Code: wire.CodeWorkerGone, Text: "w7 is no more"}))
		}, []error{ipc.ErrPeerGone}, "w7 is no more"},
		"dispatcher stops": {func(f *fixture) {
			f.send(wire.KindFail, wire.Append(nil, &wire.Fail{Code: wire.CodeShutdown, Text: "tea time"}))
			f.conn.Close()
		}, []error{ipc.ErrPeerGone}, "tea time"},
		"no worker": {func(f *fixture) {
			f.send(wire.KindFail, wire.Append(nil, &wire.Fail{Code: wire.CodeNoWorker, Text: "start one"}))
		}, []error{client.ErrNoWorker}, "start one"},
		"protocol": {func(f *fixture) {
			f.send(wire.KindFail, wire.Append(nil, &wire.Fail{Code: wire.CodeProtocol, Text: "you are odd"}))
		}, nil, "you are odd"},
		"dispatcher died": {func(f *fixture) { f.conn.Close() }, []error{ipc.ErrPeerGone}, "dispatcher at pipe:"},
	} {
		t.Run(what, func(t *testing.T) {
			for _, waiting := range []bool{true, false} {
				f := open(t, client.Options{})
				var err error
				if waiting {
					_, err = f.fetch(func(*wire.Run) { c.end(f) })
				} else {
					c.end(f)
					// it is found without a wait
					for err == nil && f.ctx.Err() == nil {
						_, err = f.e.Submit(f.ctx, &tensor.Batch{Frees: []uint64{1}})
					}
				}
				for _, want := range append(c.want, client.ErrLost) {
					if !errors.Is(err, want) {
						t.Errorf("%v is not %v", err, want)
					}
				}
				if !strings.Contains(err.Error(), c.text) {
					t.Errorf("%v, expected a word of %q", err, c.text)
				}
				if _, again := f.e.Submit(f.ctx, &tensor.Batch{Sync: true}); again != err {
					t.Errorf("then %v", again)
				}
			}
		})
	}
}

// TestGiveUp: the answer to a wait that was given up is not taken for another's, and what
// it brings goes back.
func TestGiveUp(t *testing.T) {
	f := open(t, client.Options{})
	ctx, cancel := context.WithCancel(f.ctx)
	first := make(chan *wire.Run, 1)
	go func() {
		first <- f.run()
		cancel()
	}()
	if _, err := f.e.Submit(ctx, &tensor.Batch{Base: 100, Fetch: []uint64{1}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	late := f.value(1, 64)
	f.announce()
	f.done(&wire.Done{Seq: (<-first).Seq, Results: []wire.Result{late}})
	got, err := f.fetch(func(m *wire.Run) {
		if len(m.Returns) != 1 || m.Returns[0] != late.Handle {
			t.Errorf("given back: %v", m.Returns)
		}
		f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{f.value(1, 128)}})
	})
	if err != nil {
		t.Fatal(err)
	}
	got[0].Release()
	got[0].Release()
	_, err = f.fetch(func(m *wire.Run) {
		if len(m.Returns) != 1 || m.Returns[0].Off != 128 {
			t.Errorf("given back: %v", m.Returns)
		}
		f.done(&wire.Done{Seq: m.Seq, Code: wire.CodeEngine, Text: "x"})
	})
	if err == nil || err.Error() != "x" {
		t.Error(err)
	}
}

// TestNotSent: a batch that could not be sent loses nothing: its frees go with the next
// one, and its uploads' memory is free again.
func TestNotSent(t *testing.T) {
	f := open(t, client.Options{})
	buf, err := f.e.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	upload := tensor.Upload{ID: 5, DType: tensor.U8, Shape: tensor.Shape{1 << 20}, Buf: buf}
	gone, cancel := context.WithCancel(f.ctx)
	cancel()
	// As far ahead as a client goes.
	sent := 0
	for err == nil {
		_, err = f.e.Submit(gone, &tensor.Batch{Frees: []uint64{1}})
		sent++
	}
	if !errors.Is(err, context.Canceled) || sent != 65 {
		t.Fatalf("batch %d: %v", sent, err)
	}
	p := &tensor.Program{Externals: []tensor.External{{DType: tensor.F32, Donated: true}, {DType: tensor.F32}}, Shapes: []tensor.Shape{{}}}
	enc := p.Append(nil)
	if _, err := f.e.Submit(gone, &tensor.Batch{Base: 10, Program: p, Encoded: enc, Hash: tensor.HashOf(enc), Inputs: []uint64{77, 78},
		Uploads: []tensor.Upload{upload}, Frees: []uint64{79}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	buf.Release()
	for range sent - 1 {
		if m := f.run(); m.Flags&wire.RunSync != 0 {
			f.done(&wire.Done{Seq: m.Seq})
		}
	}
	end := make(chan error, 1)
	go func() {
		_, err := f.e.Submit(f.ctx, &tensor.Batch{Sync: true})
		end <- err
	}()
	m := f.run()
	f.done(&wire.Done{Seq: m.Seq})
	if err := <-end; err != nil {
		t.Error(err)
	}
	if len(m.Uploads) > 0 || !slices.Equal(m.Frees, []uint64{1, 79, 77}) {
		t.Errorf("%d uploads, freed %v", len(m.Uploads), m.Frees)
	}
}

// TestForget: the worker is told once of each program that it need not remember, and sent
// those again that are used again.
func TestForget(t *testing.T) {
	f := open(t, client.Options{})
	submit := func(i int) *wire.Run {
		p := &tensor.Program{NumScalars: i}
		enc := p.Append(nil)
		end := make(chan error, 1)
		go func() {
			_, err := f.e.Submit(f.ctx, &tensor.Batch{Base: 10, Program: p, Encoded: enc, Hash: tensor.HashOf(enc), Scalars: make([]float64, i), Sync: true})
			end <- err
		}()
		m := f.run()
		f.done(&wire.Done{Seq: m.Seq})
		if err := <-end; err != nil {
			t.Fatal(err)
		}
		return m
	}
	told := map[wire.Hash]int{}
	hashes := make([]wire.Hash, 300)
	for i := range hashes {
		m := submit(i)
		hashes[i] = m.Hash
		for _, h := range m.Forget {
			told[h]++
		}
	}
	for i, h := range hashes {
		if want := map[bool]int{true: 1, false: 0}[i < 300-256]; told[h] != want {
			t.Errorf("told %d times to forget program %d", told[h], i)
		}
	}
	bodies := f.e.Stats().Bodies
	submit(299)
	submit(44) // the one used longest ago
	if n := f.e.Stats().Bodies; n != bodies {
		t.Errorf("%d programs were sent again", n-bodies)
	}
	if m := submit(0); f.e.Stats().Bodies != bodies+1 || len(m.Forget) != 1 || m.Forget[0] != hashes[45] {
		t.Errorf("program 0 was sent %d times, and %d forgotten for it", f.e.Stats().Bodies-bodies, len(m.Forget))
	}
}

// TestOpenWithout: no dispatcher is an error at an address that was given, else the
// programs run here.
func TestOpenWithout(t *testing.T) {
	ctx := context.Background()
	_, err := client.Open(ctx, &client.Options{Addr: "/nowhere/at/all"})
	if !errors.Is(err, ipc.ErrNoListener) {
		t.Error(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	s, err := client.Open(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := client.Open(ctx, &client.Options{Workers: 2}); !errors.Is(err, ipc.ErrNoListener) || !strings.Contains(err.Error(), "ringside up -n 2") {
		t.Errorf("two workers in this process: %v", err)
	}
	if v, err := tensor.Scalar(s, 2.5).MulS(2).Item(); err != nil || v != 5 || !strings.HasPrefix(s.Engine().Name(), "cpu") {
		t.Errorf("%v, %v on %s", v, err, s.Engine().Name())
	}
	asked := errors.New("asked")
	if _, err := client.Open(ctx, &client.Options{Local: func() (tensor.Engine, error) { return nil, asked }}); err != asked {
		t.Errorf("Options.Local: %v, expected its error", err)
	}
}

// TestName tests that Name names the worker.
func TestName(t *testing.T) {
	f := open(t, client.Options{Quota: 12345})
	if n := f.e.Name(); !strings.HasPrefix(n, "worker w7 (pid 12) by pipe:") {
		t.Error(n)
	}
	if name, pid := f.e.Worker(); name != "w7" || pid != 12 {
		t.Error(name, pid)
	}
	if _, err := client.Dial(f.ctx, "pipe:x", &client.Options{Name: strings.Repeat("x", 1000)}); !errors.Is(err, ipc.ErrBadOption) {
		t.Error(err)
	}
}
