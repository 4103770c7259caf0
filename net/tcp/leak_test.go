package tcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/tcp"
)

// open is how many descriptors this process has.
func open(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// ours are the stacks of goroutines that are in this package or were started by it. Those
// that netpoll keeps for its callbacks go after a minute.
func ours() (stacks []string) {
	all := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if strings.Contains(stack, "/net/tcp.") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// TestLeaks: conns that were closed, by either end or both, leave neither descriptors nor
// goroutines, nor the memory of their queues.
func TestLeaks(t *testing.T) {
	ctx := testContext(t)
	var a, b end
	var err error
	if a.w, err = waiters["polling"](); err != nil {
		t.Fatal(err)
	}
	if b.w, err = waiters["polling"](); err != nil {
		t.Fatal(err)
	}
	var all []ipc.Conn
	round := func(i int) {
		connect(t, ctx, &a, &b, nil)
		all = append(all, a.Conn, b.Conn)
		for _, e := range []end{a, b} {
			if _, err := e.Reserve(ctx, 1, 1000); err != nil {
				t.Fatal(err)
			}
			if err := e.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := e.BeginSend(1, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		for k, e := range []ipc.Conn{a.Conn, b.Conn} {
			if i%3 != k {
				e.Close()
			}
		}
		for _, e := range []ipc.Conn{a.Conn, b.Conn} {
			e.Close()
		}
	}
	round(0) // netpoll keeps a goroutine and two descriptors for ever
	// the first round may be on its way out still, so that less would do
	before := open(t)
	for range 50 {
		round(0)
		round(1)
		round(2)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		all = slices.DeleteFunc(all, tcp.Unmapped)
		if open(t) <= before && len(ours()) == 0 && len(all) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d descriptors, %d before, %d conns with memory, and these goroutines:\n%s", open(t), before,
				len(all), strings.Join(ours(), "\n\n"))
		}
	}
}

// TestHeldBytes: a message that is held and bytes that are reserved stay where they are
// when the conn has ended on both sides, until Release and Abort.
func TestHeldBytes(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, ctx, waiters["sleeping"])
	body := bytes.Repeat([]byte{7}, 100_000)
	if err := ipc.Send(ctx, a.Conn, ipc.Message{Kind: 1, Body: body}); err != nil {
		t.Fatal(err)
	}
	m, err := b.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	reserved, err := b.Reserve(ctx, 1, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	b.Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(ours()) > 0 { // until both have finished
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(strings.Join(ours(), "\n\n"))
		}
	}
	copy(reserved, m.Body)
	if !bytes.Equal(m.Body, body) || !bytes.Equal(reserved, body) {
		t.Error("bytes have changed while they were held")
	}
	b.Release()
	b.Abort()
	if _, err := b.TryReserve(1, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed conn takes a message: %v", err)
	}
	if _, ok, err := b.TryRecv(); ok || !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed conn gives a message: %v, %v", ok, err)
	}
}

// TestHeldForEver: the memory of a conn whose caller never gives a message back goes when
// the conn can no longer be reached.
func TestHeldForEver(t *testing.T) {
	ctx := testContext(t)
	at := hold(t, ctx)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for mapped(t, at) {
		select {
		case <-tick.C:
			runtime.GC()
		case <-ctx.Done():
			t.Fatal("it is mapped")
		}
	}
}

// hold makes two conns and closes them while one holds a message, whose address it
// returns.
//
//go:noinline
func hold(t *testing.T, ctx context.Context) (at uint64) {
	t.Helper()
	var a, b end
	var err error
	if a.w, err = waiters["sleeping"](); err == nil {
		b.w, err = waiters["sleeping"]()
	}
	if err != nil {
		t.Fatal(err)
	}
	connect(t, ctx, &a, &b, nil)
	if err := ipc.Send(ctx, a.Conn, ipc.Message{Kind: 1, Body: []byte("held")}); err != nil {
		t.Fatal(err)
	}
	m, err := b.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(fmt.Sprintf("%p", m.Body), "0x%x", &at); err != nil || !mapped(t, at) {
		t.Fatalf("the message at %#x: %v", at, err)
	}
	a.Close()
	b.Close()
	return at
}

// mapped reports whether there is memory at an address.
func mapped(t *testing.T, at uint64) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err == nil && from <= at && at < to {
			return true
		}
	}
	return false
}
