package shm

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBarrier: where the kernel has the one call it has the other. What a fence does
// can't be seen from here; package ring has a model of it.
func TestBarrier(t *testing.T) {
	heed, barrier := HeedBarriers(), Barrier()
	if (heed == nil) != (barrier == nil) {
		t.Fatalf("HeedBarriers: %v, Barrier: %v", heed, barrier)
	}
	for _, err := range []error{heed, barrier, HeedBarriers()} {
		if err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			t.Error(err)
		}
	}
}

func BenchmarkBarrier(b *testing.B) {
	if err := HeedBarriers(); err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		if err := Barrier(); err != nil {
			b.Fatal(err)
		}
	}
}
