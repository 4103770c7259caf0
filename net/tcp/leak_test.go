package tcp_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
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
// goroutines.
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
	round := func(i int) {
		connect(t, ctx, &a, &b, nil)
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
	for open(t) > before || len(ours()) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d descriptors, %d before, and these goroutines:\n%s", open(t), before, strings.Join(ours(), "\n\n"))
		}
	}
}
