package shm

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/testneeds"
)

// TestBarrier: where the kernel has the one call it has the other. It may have neither,
// unless the environment promises a whole kernel. The effect of a fence can't be seen
// from here; package ring has a model of it.
func TestBarrier(t *testing.T) {
	heed, barrier := HeedBarriers(), Barrier()
	if (heed == nil) != (barrier == nil) {
		t.Fatalf("HeedBarriers: %v, Barrier: %v", heed, barrier)
	}
	for _, err := range []error{heed, barrier, HeedBarriers()} {
		switch {
		case lacks(err):
			testneeds.Root.Skipf(t, os.Getenv, "%v", err)
		case err != nil:
			t.Error(err)
		}
	}
}

// lacks reports whether err is that of a kernel without such a call, or that forbids it.
func lacks(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM)
}

func BenchmarkBarrier(b *testing.B) {
	if err := HeedBarriers(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := Barrier(); err != nil {
			b.Fatal(err)
		}
	}
}
