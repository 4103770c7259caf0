package local_test

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc/local"
)

// TestBind: each of many has one core, neighbours have different ones, and all is as
// before in the end.
func TestBind(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cores := local.Cores()
	if cores == 0 {
		t.Fatal("the kernel does not say on which cores this may run")
	}
	seen := map[unix.CPUSet]int{}
	for n := range 2 * cores {
		unbind, err := local.Bind(n)
		if err != nil {
			t.Fatal(err)
		}
		var on unix.CPUSet
		if err := unix.SchedGetaffinity(0, &on); err != nil || on.Count() != 1 {
			t.Errorf("bound to %d cores, %v", on.Count(), err)
		}
		seen[on]++
		unbind()
		if got := local.Cores(); got != cores {
			t.Fatalf("%d cores afterwards, %d before", got, cores)
		}
	}
	if len(seen) != cores {
		t.Errorf("%d of %d cores were had", len(seen), cores)
	}
}

// TestSetTimerSlack: it is what the kernel says afterwards.
func TestSetTimerSlack(t *testing.T) {
	done := make(chan error)
	var got int
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := local.SetTimerSlack(123 * time.Microsecond)
		if err == nil {
			got, err = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		}
		done <- err
	}()
	if err := <-done; err != nil || got != 123000 {
		t.Errorf("%d ns, %v", got, err)
	}
}

// TestMove: a thread goes where it may run, and may run everywhere afterwards.
func TestMove(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	moved := 0
	for core := range 64 * len(all) {
		if local.Move(core) != all.IsSet(core) {
			t.Errorf("core %d: moved: %v; may run there: %v", core, !all.IsSet(core), all.IsSet(core))
		}
		var now unix.CPUSet
		if err := unix.SchedGetaffinity(0, &now); err != nil || now != all {
			t.Fatalf("after core %d it may run on %v, %v; before on %v", core, now, err, all)
		}
		if all.IsSet(core) {
			moved++
		}
	}
	if moved != all.Count() || local.Move(-1) {
		t.Errorf("moved to %d of %d cores, or to core -1", moved, all.Count())
	}
}
