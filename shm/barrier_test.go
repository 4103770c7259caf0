package shm

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBarrier: where the kernel has the one call it has the other. The effect of a fence
// can't be seen from here; package ring has a model of it.
func TestBarrier(t *testing.T) {
	heed, barrier := HeedBarriers(), Barrier()
	if (heed == nil) != (barrier == nil) {
		t.Fatalf("HeedBarriers: %v, Barrier: %v", heed, barrier)
	}
	for _, err := range []error{heed, barrier, HeedBarriers()} {
		if err != nil && !lacks(err) {
			t.Error(err)
		}
	}
}

// lacks reports whether err is that of a kernel without such a call, or that forbids it.
func lacks(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM)
}

func BenchmarkBarrier(b *testing.B) {
	if err := HeedBarriers(); err != nil && lacks(err) {
		b.Skip(err)
	} else if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := Barrier(); err != nil {
			b.Fatal(err)
		}
	}
}
