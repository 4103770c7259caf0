package client_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/client"
	"github.com/ringside-go/ringside/ipc/wire"
	"github.com/ringside-go/ringside/tensor"
)

// farValue is a result of n bytes of a worker on another host.
func farValue(id uint64, n int) wire.Result {
	return wire.Result{ID: id, Value: wire.Value{DType: uint8(tensor.U8), Dims: []int64{int64(n)}, Handle: wire.Handle{Segment: 9, Off: 64, Len: uint64(n)}}}
}

// read waits for a Read.
func (f *fixture) read() (m wire.Read) {
	f.Helper()
	if err := wire.ParseRead(f.recv(wire.KindRead), &m); err != nil {
		f.Error(err)
	}
	return m
}

func (f *fixture) data(h wire.Handle, off uint64, part []byte) {
	f.Helper()
	f.send(wire.KindData, wire.AppendData(nil, &wire.Data{Handle: h, Off: off, Part: part}))
}

// TestFar: an upload goes ahead of its Run in parts, a result is asked for in parts, not too many at a time, and given
// back with the next Run; no memory is announced.
func TestFar(t *testing.T) {
	f := openApart(t, client.Options{}, true)
	const n = 10*wire.MaxPart + 5
	src := bytes.Repeat([]byte("abcdefg"), n/7+1)[:n]
	buf, err := f.e.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	copy(buf.Bytes(), src)
	end := make(chan struct{})
	go func() {
		defer close(end)
		var came []byte
		for len(came) < n {
			var m wire.Data
			if err := wire.ParseData(f.recv(wire.KindData), &m); err != nil || m.Off != uint64(len(came)) || m.Handle.Len != n {
				t.Errorf("a part at %d of %d, %v; expected %d of %d", m.Off, m.Handle.Len, err, len(came), n)
				return
			}
			came = append(came, m.Part...)
		}
		if !bytes.Equal(came, src) {
			t.Error("another upload came")
		}
		run := f.run()
		r := farValue(1, n)
		f.done(&wire.Done{Seq: run.Seq, Results: []wire.Result{r}, Returned: []wire.Handle{run.Uploads[0].Handle}})
		for off := 0; off < n; {
			m := f.read()
			if m.Handle != r.Handle || m.Off != uint64(off) {
				t.Errorf("asked for %d at %d", m.Bytes, m.Off)
				return
			}
			f.data(r.Handle, m.Off, src[m.Off:m.Off+uint64(m.Bytes)])
			off += int(m.Bytes)
		}
		run = f.run()
		if len(run.Returns) != 1 || run.Returns[0] != r.Handle {
			t.Errorf("given back: %v", run.Returns)
		}
		f.done(&wire.Done{Seq: run.Seq})
	}()
	got, err := f.e.Submit(f.ctx, &tensor.Batch{Base: 100, Fetch: []uint64{1},
		Uploads: []tensor.Upload{{ID: 1, DType: tensor.U8, Shape: tensor.Shape{n}, Buf: buf}}})
	if err != nil || len(got) != 1 || !bytes.Equal(got[0].Bytes, src) {
		t.Fatalf("%d results, %v", len(got), err)
	}
	got[0].Release()
	if _, err := f.e.Submit(f.ctx, &tensor.Batch{Base: 100, Sync: true}); err != nil {
		t.Error(err)
	}
	<-end
	if s := f.e.Stats(); s.Segments != 0 {
		t.Errorf("%d segments were announced", s.Segments)
	}
}

// TestHostileFarWorker: parts that were not asked for, or others than were, end the session.
func TestHostileFarWorker(t *testing.T) {
	r := farValue(1, 100)
	other := r.Handle
	other.Off = 128
	for what, answer := range map[string]func(f *fixture, m *wire.Run){
		"not asked for": func(f *fixture, m *wire.Run) { f.data(r.Handle, 0, make([]byte, 100)) },
		"another block": func(f *fixture, m *wire.Run) {
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
			f.read()
			f.data(other, 0, make([]byte, 100))
		},
		"another place": func(f *fixture, m *wire.Run) {
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
			f.read()
			f.data(r.Handle, 1, make([]byte, 99))
		},
		"less": func(f *fixture, m *wire.Run) {
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
			f.read()
			f.data(r.Handle, 0, make([]byte, 99))
		},
		"another length": func(f *fixture, m *wire.Run) {
			long := r
			long.Handle.Len = 101
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{long}})
		},
		"malformed": func(f *fixture, m *wire.Run) { f.send(wire.KindData, make([]byte, 11)) },
	} {
		t.Run(what, func(t *testing.T) {
			f := openApart(t, client.Options{}, true)
			_, err := f.fetch(func(m *wire.Run) { answer(f, m) })
			if !errors.Is(err, client.ErrLost) || !errors.Is(err, ipc.ErrCorrupt) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestFarNoMemory: a result for which there is no memory here is an error of its batch.
func TestFarNoMemory(t *testing.T) {
	f := openApart(t, client.Options{MaxBytes: 4 << 20}, true)
	_, err := f.fetch(func(m *wire.Run) {
		f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{farValue(1, 1<<30)}})
	})
	if !errors.Is(err, tensor.ErrNoSpace) || !strings.Contains(err.Error(), "space") {
		t.Errorf("%v", err)
	}
	got, err := f.fetch(func(m *wire.Run) {
		if len(m.Returns) != 1 || m.Returns[0].Len != 1<<30 {
			t.Errorf("given back: %v", m.Returns)
		}
		r := farValue(1, 3)
		f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
		f.read()
		f.data(r.Handle, 0, []byte("yes"))
	})
	if err != nil || string(got[0].Bytes) != "yes" {
		t.Errorf("%v", err)
	}
}
