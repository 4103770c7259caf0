package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestClosedAmidARead closes the engine while a value is read: the worker may use the
// memory for something else then, so the reader gets ErrClosed and no value.
func TestClosedAmidARead(t *testing.T) {
	c := start(t, cluster.Options{Workers: 2})
	for _, workers := range []int{1, 2} {
		for name, read := range map[string]func(x *tensor.Tensor, amid func()) error{
			"View": func(x *tensor.Tensor, amid func()) error {
				return tensor.View(x, func([]int64) error { amid(); return nil })
			},
			"an error of the reader": func(x *tensor.Tensor, amid func()) error {
				return x.ViewBytes(func([]byte) error { amid(); return errors.New("it makes no sense") })
			},
		} {
			e := dial(t, c, &client.Options{Workers: workers})
			x := tensor.Full(tensor.NewSession(e, nil), tensor.I64, 7, 1000)
			if err := read(x, func() {}); errors.Is(err, tensor.ErrClosed) {
				t.Errorf("%s of %d workers before Close: %v", name, workers, err)
			}
			x.Session().ClearErr()
			if err := read(x, func() { e.Close() }); !errors.Is(err, tensor.ErrClosed) {
				t.Errorf("%s of %d workers amid Close: %v, expected ErrClosed", name, workers, err)
			}
			if _, err := tensor.Data[int64](x); !errors.Is(err, tensor.ErrClosed) {
				t.Error(fmt.Errorf("%s of %d workers behind Close: %w, expected ErrClosed", name, workers, err))
			}
		}
	}
}

// interruptible is a context that ends waits alone: its channel stays open.
type interruptible struct {
	context.Context
	over atomic.Bool
}

func (c *interruptible) Err() error {
	if c.over.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// TestInterruptedFlush has waits end, but not programs, while a client is as far ahead of
// its worker as it may be: what it flushes then is not lost.
func TestInterruptedFlush(t *testing.T) {
	c := start(t, cluster.Options{Workers: 1})
	worker := c.Parts()[1].PID
	ctx := &interruptible{Context: testContext(t)}
	e := dial(t, c, nil)
	s := tensor.NewSession(e, &tensor.SessionOptions{Context: ctx})
	x := tensor.Full(s, tensor.I64, 0, 1)
	if _, err := tensor.Data[int64](x); err != nil { // the connection is there
		t.Fatal(err)
	}
	stop(t, worker)
	defer syscall.Kill(worker, syscall.SIGCONT)
	const flushes = 100
	ctx.over.Store(true)
	for i := range flushes {
		if err := errors.Join(x.Assign(x.AddS(1)), s.Flush()); err != nil {
			t.Fatalf("flush %d: %v", i+1, err)
		}
	}
	if _, err := tensor.Data[int64](x); !errors.Is(err, context.Canceled) {
		t.Errorf("a read: %v, expected %v", err, context.Canceled)
	}
	s.ClearErr()
	ctx.over.Store(false)
	if err := syscall.Kill(worker, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got, err := tensor.Data[int64](x); err != nil || got[0] != flushes {
		t.Errorf("%v, %v, expected %d", got, err, flushes)
	}
}

// TestInterruptedWithoutRoom has waits end, but not programs, while the queue to a worker
// is full: what a client flushes then is not lost, and goes before what it flushes later.
func TestInterruptedWithoutRoom(t *testing.T) {
	for _, workers := range []int{1, 2} {
		if testing.Short() && workers != 1 {
			continue
		}
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			c := start(t, cluster.Options{Workers: workers})
			ctx := &interruptible{Context: testContext(t)}
			e := dial(t, c, &client.Options{Workers: workers})
			s := tensor.NewSession(e, &tensor.SessionOptions{Context: ctx})
			x := tensor.Full(s, tensor.I64, 0, 1)
			if _, err := tensor.Data[int64](x); err != nil { // the connection is there
				t.Fatal(err)
			}
			for _, p := range c.Parts()[1:] {
				stop(t, p.PID)
				defer syscall.Kill(p.PID, syscall.SIGCONT)
			}
			var want int64
			ctx.over.Store(true)
			for i := range 50 { // each another program, of 20 KB
				for range 1000 + i {
					if err := x.Assign(x.AddS(1)); err != nil {
						t.Fatal(err)
					}
				}
				want += int64(1000 + i)
				if err := s.Flush(); err != nil {
					t.Fatalf("flush %d: %v", i+1, err)
				}
			}
			if _, err := tensor.Data[int64](x); !errors.Is(err, context.Canceled) {
				t.Errorf("a read: %v, expected %v", err, context.Canceled)
			}
			s.ClearErr()
			dir := t.TempDir()
			saved := []tensor.Named{{Name: "x", T: x}}
			if err := checkpoint.Save(ctx, s, dir, saved, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a save: %v, expected %v", err, context.Canceled)
			}
			s.ClearErr()
			ctx.over.Store(false)
			for _, p := range c.Parts()[1:] {
				if err := syscall.Kill(p.PID, syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := tensor.Data[int64](x.AddS(0)); err != nil || got[0] != want {
				t.Errorf("%v, %v, expected %d", got, err, want)
			}
			if err := checkpoint.Save(ctx, s, dir, saved, nil); err != nil {
				t.Errorf("the save after it: %v", err)
			}
		})
	}
}

// TestInterruptedPush has waits end, but not programs, while tensors are on their way to
// a worker of another host that stands still. They arrive when it goes on. If it dies,
// the session is lost with its name.
func TestInterruptedPush(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGCONT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			c := startFar(t, "tcp")
			ctx := &interruptible{Context: testContext(t)}
			e := c.dial(t, "tcp", client.Options{})
			s := tensor.NewSession(e, &tensor.SessionOptions{Context: ctx})
			x := tensor.Full(s, tensor.I64, 0, 1<<19)
			if _, err := tensor.Data[int64](x); err != nil { // the connection is there
				t.Fatal(err)
			}
			worker := c.workers[0].Process.Pid
			stop(t, worker)
			defer syscall.Kill(worker, syscall.SIGCONT)
			ctx.over.Store(true)
			const uploads = 10
			data := make([]int64, 1<<19)
			for i := range data {
				data[i] = int64(i)
			}
			for i := range uploads {
				if err := errors.Join(x.Assign(x.Add(tensor.From(s, data, len(data)))), s.Flush()); err != nil {
					t.Fatalf("flush %d: %v", i+1, err)
				}
			}
			ctx.over.Store(false)
			if err := syscall.Kill(worker, signal); err != nil {
				t.Fatal(err)
			}
			got, err := tensor.Data[int64](x)
			if signal == syscall.SIGKILL {
				if !errors.Is(err, client.ErrLost) || !strings.Contains(fmt.Sprint(err), `"w"`) {
					t.Errorf("%v, expected the loss of the worker", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				if v != int64(uploads*i) {
					t.Fatalf("element %d is %d, expected %d", i, v, uploads*i)
				}
			}
		})
	}
}
