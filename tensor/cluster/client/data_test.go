package client_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// farValue is a result of n bytes of a worker on another host.
func farValue(id uint64, n int) wire.Result {
	return wire.Result{ID: id, Value: wire.Value{DType: uint8(tensor.U8), Dims: []int{int(n)}, Handle: wire.Handle{Segment: 9, Off: 64, Len: uint64(n)}}}
}

// farWorker is the worker's end of a link.
type farWorker struct {
	ctx            context.Context
	conn           ipc.Conn
	bulk           ipc.Bulk
	sending        sync.Mutex
	pushed, pulled uint64
}

// linkUp opens a link as a worker does: words goes through the dispatcher.
func linkUp(ctx context.Context, words func(ctx context.Context, m *wire.Link) ([]byte, error)) (*farWorker, error) {
	token := bytes.Repeat([]byte{7}, 32)
	m := wire.Link{Token: token}
	c, err := route.Pair(ctx, route.PairOptions{Name: "worker w7", Order: route.Apart(), Secret: token, Bind: "127.0.0.1",
		Exchange: func(ctx context.Context, mine []byte) ([]byte, error) {
			m.Data = mine
			theirs, err := words(ctx, &m)
			m.Round, m.Token = m.Round+1, nil
			return theirs, err
		}})
	if err != nil {
		return nil, err
	}
	return &farWorker{ctx: ctx, conn: c, bulk: c.Features().Bulk}, nil
}

// say sends a message about a block.
func (w *farWorker) say(kind uint32, h wire.Handle) error {
	w.sending.Lock()
	defer w.sending.Unlock()
	return ipc.Send(w.ctx, w.conn, ipc.Message{Kind: kind, Body: wire.Append(nil, &wire.Transfer{Handle: h})})
}

// heard waits for a message about a block.
func (w *farWorker) heard() (kind uint32, h wire.Handle, err error) {
	m, err := w.conn.Recv(w.ctx)
	if err != nil {
		return 0, h, err
	}
	defer w.conn.Release()
	var t wire.Transfer
	err = wire.Parse(m.Body, &t)
	return m.Kind, t.Handle, err
}

// take receives a block.
func (w *farWorker) take(n uint64) ([]byte, error) {
	dst := make([]byte, n)
	err := w.bulk.BeginRecv(w.pushed, dst)
	w.pushed++
	for done := false; err == nil && !done && w.ctx.Err() == nil; {
		_, done, err = w.bulk.ProgressRecv()
	}
	return dst, errors.Join(err, w.ctx.Err())
}

// give sends a block.
func (w *farWorker) give(tag uint64, src []byte) error {
	err := w.bulk.BeginSend(tag, src)
	for done := false; err == nil && !done && w.ctx.Err() == nil; {
		done, err = w.bulk.ProgressSend()
	}
	return errors.Join(err, w.ctx.Err())
}

// push takes an upload and says so.
func (f *fixture) push() (wire.Handle, []byte) {
	f.Helper()
	kind, h, err := f.far.heard()
	if err != nil || kind != wire.KindPush {
		f.Errorf("%s, %v", wire.KindName(kind), err)
		return h, nil
	}
	src, err := f.far.take(h.Len)
	if err != nil {
		f.Error(err)
	}
	if err := f.far.say(wire.KindPushed, h); err != nil {
		f.Error(err)
	}
	return h, src
}

// pull waits until the client wants a result.
func (f *fixture) pull(want wire.Handle) {
	f.Helper()
	if kind, h, err := f.far.heard(); err != nil || kind != wire.KindPull || h != want {
		f.Errorf("%s of %v, %v; expected Pull of %v", wire.KindName(kind), h, err, want)
	}
}

// give sends the client what it pulled.
func (f *fixture) give(src []byte) {
	f.Helper()
	if err := f.far.give(f.far.pulled, src); err != nil {
		f.Error(err)
	}
	f.far.pulled++
}

// TestFar: an upload is there before its Run, a result comes over the same conn and is
// given back with the next Run; no memory is announced, and nothing of a tensor goes
// through the dispatcher.
func TestFar(t *testing.T) {
	f := openApart(t, client.Options{}, true)
	const n = 3<<20 + 5
	src := bytes.Repeat([]byte("abcdefg"), n/7+1)[:n]
	buf, err := f.e.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	copy(buf.Bytes(), src)
	end := make(chan struct{})
	go func() {
		defer close(end)
		h, came := f.push()
		if !bytes.Equal(came, src) {
			t.Error("another upload came")
		}
		run := f.run()
		if len(run.Uploads) != 1 || run.Uploads[0].Handle != h {
			t.Errorf("%+v", run.Uploads)
		}
		r := farValue(1, n)
		f.done(&wire.Done{Seq: run.Seq, Results: []wire.Result{r}, Returned: []wire.Handle{h}})
		f.pull(r.Handle)
		f.give(src)
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
	if s := f.e.Stats(); s.Segments != 0 || s.Bytes > 4<<10 {
		t.Errorf("%d segments were announced, %d bytes sent to the dispatcher", s.Segments, s.Bytes)
	}
}

// TestFarGivenUp: a result whose wait was given up still comes, and then its block is the
// worker's again.
func TestFarGivenUp(t *testing.T) {
	f := openApart(t, client.Options{}, true)
	ctx, cancel := context.WithCancel(f.ctx)
	first, second := farValue(1, 1<<20), farValue(1, 100)
	second.Handle.Off = 1 << 21
	end := make(chan struct{})
	go func() {
		defer close(end)
		f.done(&wire.Done{Seq: f.run().Seq, Results: []wire.Result{first}})
		f.pull(first.Handle)
		cancel()
		run := f.run()
		if len(run.Returns) != 0 {
			t.Errorf("given back while it is on its way: %v", run.Returns)
		}
		f.done(&wire.Done{Seq: run.Seq, Results: []wire.Result{second}})
		f.give(make([]byte, 1<<20))
		f.pull(second.Handle)
		f.give(bytes.Repeat([]byte("x"), 100))
		run = f.run()
		if len(run.Returns) != 2 || run.Returns[0] != first.Handle || run.Returns[1] != second.Handle {
			t.Errorf("given back: %v", run.Returns)
		}
		f.done(&wire.Done{Seq: run.Seq})
	}()
	if _, err := f.e.Submit(ctx, &tensor.Batch{Base: 100, Fetch: []uint64{1}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	got, err := f.e.Submit(f.ctx, &tensor.Batch{Base: 100, Fetch: []uint64{1}})
	if err != nil || string(got[0].Bytes) != strings.Repeat("x", 100) {
		t.Fatalf("%v", err)
	}
	got[0].Release()
	if _, err := f.e.Submit(f.ctx, &tensor.Batch{Base: 100, Sync: true}); err != nil {
		t.Error(err)
	}
	<-end
}

// TestHostileFarWorker: what was not asked for, or is other than was, ends the session
// with an error that names both ends.
func TestHostileFarWorker(t *testing.T) {
	r := farValue(1, 100)
	for what, answer := range map[string]func(f *fixture, m *wire.Run){
		"not pushed": func(f *fixture, m *wire.Run) {
			_ = f.far.say(wire.KindPushed, r.Handle)
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
		},
		"another kind": func(f *fixture, m *wire.Run) {
			_ = f.far.say(wire.KindPull, r.Handle)
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
		},
		"another tag": func(f *fixture, m *wire.Run) {
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
			f.pull(r.Handle)
			_ = f.far.give(5, make([]byte, 100))
		},
		"less": func(f *fixture, m *wire.Run) {
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
			f.pull(r.Handle)
			_ = f.far.give(0, make([]byte, 99))
		},
		"the end": func(f *fixture, m *wire.Run) {
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
			f.pull(r.Handle)
			f.far.conn.Close()
			f.conn.Close()
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := openApart(t, client.Options{}, true)
			_, err := f.fetch(func(m *wire.Run) { answer(f, m) })
			if !errors.Is(err, client.ErrLost) {
				t.Errorf("%v", err)
			}
			if what != "the end" && (!strings.Contains(err.Error(), `"me"`) || !strings.Contains(err.Error(), `"w7"`)) {
				t.Errorf("%v: names not both ends", err)
			}
		})
	}
	t.Run("another length", func(t *testing.T) {
		f := openApart(t, client.Options{}, true)
		_, err := f.fetch(func(m *wire.Run) {
			long := r
			long.Handle.Len = 101
			f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{long}})
		})
		if !errors.Is(err, client.ErrLost) || !errors.Is(err, ipc.ErrCorrupt) {
			t.Errorf("%v", err)
		}
	})
}

// TestFarReason: when the conn of tensors ends, it counts what the dispatcher says about
// it.
func TestFarReason(t *testing.T) {
	f := openApart(t, client.Options{}, true)
	_, err := f.fetch(func(m *wire.Run) {
		r := farValue(1, 100)
		f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
		f.pull(r.Handle)
		f.far.conn.Close()
		f.send(wire.KindFail, wire.Append(nil, &wire.Fail{Code: wire.CodeWorkerGone, Text: "it was killed"}))
	})
	if !errors.Is(err, client.ErrLost) || !errors.Is(err, ipc.ErrPeerGone) || !strings.Contains(err.Error(), "it was killed") {
		t.Errorf("%v", err)
	}
}

// TestFarClosed: Close wakes a goroutine that waits for tensors.
func TestFarClosed(t *testing.T) {
	f := openApart(t, client.Options{}, true)
	_, err := f.fetch(func(m *wire.Run) {
		r := farValue(1, 100)
		f.done(&wire.Done{Seq: m.Seq, Results: []wire.Result{r}})
		f.pull(r.Handle)
		f.e.Close()
	})
	if !errors.Is(err, tensor.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// TestFarUnreachable: when the worker can't be reached and does not reach us, opening
// fails and says what is needed.
func TestFarUnreachable(t *testing.T) {
	_, err := dialApart(t, client.Options{}, func(ctx context.Context, words func(context.Context, *wire.Link) ([]byte, error)) error {
		card := `{"Label":"worker w7","Nonce":"abc","Offers":[{"Transport":"tcp","Addrs":["127.0.0.1:1"]}]}`
		for round, say := range []string{card, `{}`, `{"Why":"from \"worker w7\": no way"}`} {
			m := &wire.Link{Round: uint32(round), Data: []byte(say)}
			if round == 0 {
				m.Token = []byte("0123456789abcdef")
			}
			if _, err := words(ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, route.ErrPair) {
		t.Fatal(err)
	}
	for _, part := range []string{`"client me"`, `"worker w7"`, "127.0.0.1:1", "no way", "open TCP connections"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v: nothing of %s", err, part)
		}
	}
}

// TestHostileWords: what a worker says before the conn stands is data.
func TestHostileWords(t *testing.T) {
	for what, m := range map[string]*wire.Link{
		"a later round":  {Round: 1},
		"another worker": {Rank: 1},
		"no addresses":   {Token: []byte("0123456789abcdef"), Data: []byte("x")},
		"no token":       {Data: []byte(`{}`)},
	} {
		t.Run(what, func(t *testing.T) {
			e, err := dialApart(t, client.Options{}, func(ctx context.Context, words func(context.Context, *wire.Link) ([]byte, error)) error {
				_, _ = words(ctx, m)
				return nil
			})
			if err == nil {
				e.Close()
				t.Error("opened")
			}
		})
	}
	// A worker that says it is apart, and nothing before.
	e, err := dialApart(t, client.Options{}, func(context.Context, func(context.Context, *wire.Link) ([]byte, error)) error { return nil })
	if !errors.Is(err, client.ErrLost) {
		e.Close()
		t.Errorf("%v", err)
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
		f.pull(r.Handle)
		f.give([]byte("yes"))
	})
	if err != nil || string(got[0].Bytes) != "yes" {
		t.Errorf("%v", err)
	}
}
