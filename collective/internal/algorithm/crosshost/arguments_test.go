package crosshost

import (
	"context"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// TestNew: options that differ, conns of other ranks, wrong arguments.
func TestNew(t *testing.T) {
	for name, change := range map[string]func(r int, o *Options, conns []ipc.Conn){
		"OneShot": func(r int, o *Options, _ []ipc.Conn) { o.OneShot = 1000 + r },
		"Fold": func(r int, o *Options, _ []ipc.Conn) {
			if r == 2 {
				o.Fold = protocol.Fold{1, 2}
			}
		},
		"order of ranks": func(r int, o *Options, conns []ipc.Conn) {
			if r == 0 {
				conns[1], conns[2] = conns[2], conns[1]
			}
		},
	} {
		conns, waiters := mesh(t, 3, 1000, nil)
		errs := all(t, 3, func(ctx context.Context, r int) error {
			o := Options{Waiter: waiters[r]}
			change(r, &o, conns[r])
			c, err := New(ctx, r, conns[r], &o)
			if err == nil { // it need not be one of those that differ
				_ = c.Barrier(ctx, protocol.Call{Seq: 1, Kind: protocol.Barrier})
				err = c.Err()
				c.Close()
			}
			return err
		})
		named := 0
		for r, err := range errs {
			if err == nil {
				t.Errorf("%s: rank %d: no error", name, r)
			}
			if errors.Is(err, protocol.ErrMismatch) {
				named++
			}
		}
		if named < 2 {
			t.Errorf("%s: %v", name, errs)
		}
	}

	w := ipc.NewWaiter()
	for name, f := range map[string]func() (*Comm, error){
		"no waiter":    func() (*Comm, error) { return New(t.Context(), 0, make([]ipc.Conn, 1), nil) },
		"rank":         func() (*Comm, error) { return New(t.Context(), 1, make([]ipc.Conn, 1), &Options{Waiter: w}) },
		"missing conn": func() (*Comm, error) { return New(t.Context(), 0, make([]ipc.Conn, 2), &Options{Waiter: w}) },
		"chunk": func() (*Comm, error) {
			return New(t.Context(), 0, make([]ipc.Conn, 1), &Options{Waiter: w, Chunk: 100})
		},
		"timeout": func() (*Comm, error) {
			return New(t.Context(), 0, make([]ipc.Conn, 1), &Options{Waiter: w, Timeout: -1})
		},
		"fold": func() (*Comm, error) {
			return New(t.Context(), 0, make([]ipc.Conn, 1), &Options{Waiter: w, Fold: protocol.Fold{2}})
		},
		"messages only": func() (*Comm, error) {
			conns, _ := mesh(t, 2, 10, nil)
			return New(t.Context(), 0, []ipc.Conn{nil, conns[0][1].(*fake).Conn}, &Options{Waiter: w})
		},
	} {
		if c, err := f(); !errors.Is(err, protocol.ErrBadCall) || c != nil {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

// TestBadCalls: refused before anything is sent; the comm goes on.
func TestBadCalls(t *testing.T) {
	comms := fakeWorld(t, 2, Options{})
	c, ctx := comms[0], t.Context()
	call := protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 2}
	and, scaled := call, call
	and.Op, scaled.DType = element.And, element.I32
	b8, b4, counts := make([]byte, 8), make([]byte, 4), []int{4, 4}
	for name, err := range map[string]error{
		"lengths":       c.AllReduce(ctx, call, 1, b8, b4),
		"no elements":   c.AllReduce(ctx, call, 1, make([]byte, 6), make([]byte, 6)),
		"op":            c.AllReduce(ctx, and, 1, b8, b8),
		"scale":         c.AllReduce(ctx, scaled, 0.5, b8, b8),
		"root":          c.Reduce(ctx, call, 1, b8, b8, 2),
		"reduce":        c.Reduce(ctx, call, 1, b4, b8, 0),
		"counts":        c.ReduceScatter(ctx, call, 1, b4, b8, []int{8}),
		"part":          c.ReduceScatter(ctx, call, 1, b8, b8, counts),
		"parts":         c.ReduceScatter(ctx, call, 1, b4, b4, counts),
		"halves":        c.ReduceScatter(ctx, call, 1, b8[:2], b4, []int{2, 2}),
		"gathered":      c.AllGather(ctx, call, b4, b4, counts),
		"negative":      c.AllGather(ctx, call, b4, nil, []int{-4, 8}),
		"broadcast":     c.Broadcast(ctx, call, b4, -1),
		"scatter":       c.Scatter(ctx, call, b4, b4, counts, 0),
		"gather":        c.Gather(ctx, call, b4, b4, counts, 0),
		"all-to-all":    c.AllToAll(ctx, call, b8, b8, []int{4, 4}, []int{5, 3}),
		"to all":        c.AllToAll(ctx, call, b8, b4, counts, counts),
		"self":          c.Send(ctx, call, 0, b4),
		"nobody":        c.Recv(ctx, call, 2, b4),
		"gather's root": c.Gather(ctx, call, b8, b4, counts, 5),
	} {
		if !errors.Is(err, protocol.ErrBadCall) {
			t.Errorf("%s: %v", name, err)
		}
	}
	each(t, 2, func(ctx context.Context, r int) error { return calling{call: call}.do(ctx, comms[r]) })
}
