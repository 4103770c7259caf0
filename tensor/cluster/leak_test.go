package cluster_test

import (
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestNoLeaks: clusters and sessions that are over leave no descriptor and no goroutine
// here, whether they ended well or not.
func TestNoLeaks(t *testing.T) {
	ctx := testContext(t)
	round := func(i int) {
		o := cluster.Options{Dir: socketDir(t), InProcess: i%2 == 0, Workers: 2, Args: childArgs("")}
		c, err := cluster.Start(ctx, &o)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			e, err := client.Dial(ctx, c.Addr(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := newModel(tensor.NewSession(e, nil)).train(2); err != nil {
				t.Fatal(err)
			}
			if k > 0 {
				e.Close()
			} else {
				defer e.Close() // after its cluster
			}
		}
		if i%4 == 1 {
			kill(t, c.Parts()[0].PID)
			<-c.Done()
		}
		c.Close()
		empty(t, o.Dir)
	}
	count := func() (fds, goroutines int) {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list), runtime.NumGoroutine()
	}
	for i := range 4 {
		round(i)
	}
	fds, goroutines := settled(ctx, count, func(int, int) bool { return false })
	for i := range 12 {
		round(i)
	}
	f, g := settled(ctx, count, func(f, g int) bool { return f <= fds && g <= goroutines })
	if f > fds || g > goroutines {
		buf := make([]byte, 1<<20)
		t.Errorf("%d descriptors and %d goroutines, %d and %d before\n%s", f, g, fds, goroutines, buf[:runtime.Stack(buf, true)])
	}
}

// settled counts until it is enough, or nothing has changed for a while: what is not
// reachable any more is closed in the collector's own time.
func settled(ctx context.Context, count func() (int, int), enough func(fds, goroutines int) bool) (fds, goroutines int) {
	for same := 0; same < 200 && ctx.Err() == nil; same++ {
		runtime.GC()
		f, g := count()
		if f != fds || g != goroutines {
			fds, goroutines, same = f, g, 0
		}
		if enough(f, g) {
			break
		}
	}
	return fds, goroutines
}
