package cpu_test

import (
	"flag"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// The long form of the tests of random programs: make random.
var (
	randomPrograms = flag.Uint64("random.programs", 0, "so many random programs instead of the test's own number")
	randomSeed     = flag.Uint64("random.seed", 1, "the first one's seed; the others' follow")
)

// programs returns the number of random programs of a test: short with -short, a quarter
// of that under the race detector, else long, or the flag's number.
func programs(short, long uint64) uint64 {
	switch {
	case *randomPrograms > 0:
		return *randomPrograms
	case testsize.Raced:
		return short / 4
	case testing.Short():
		return short
	}
	return long
}

// small is the host memory of devices that tests open by the hundred: a first segment
// that the kernel has cleared sooner than 16 MiB.
var small = shm.ArenaOptions{First: 1 << 20}

// levels returns the levels of kernels that this machine has, or the best of them in a
// short run, and under the race detector, which sees none of their assembly.
func levels() []kernel.Level {
	all := kernel.Levels()
	if testsize.Raced || testing.Short() {
		return all[len(all)-1:]
	}
	return all
}

// TestConformance runs the suite of engines on every level of kernels, and with threads
// that share every step.
func TestConformance(t *testing.T) {
	for _, level := range levels() {
		t.Run(level.String(), func(t *testing.T) {
			conform(t, func() (*cpu.Device, error) { return cpu.New(&cpu.Options{Level: &level, Arena: small}) })
		})
	}
	t.Run("3 threads", func(t *testing.T) {
		conform(t, func() (*cpu.Device, error) { return cpu.NewEager(&cpu.Options{Threads: 3, Arena: small}) })
	})
}

func conform(t *testing.T, open func() (*cpu.Device, error)) {
	enginetest.Run(t, func(t *testing.T) tensor.Engine {
		d, err := open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if s := d.Stats().Arena; s.Blocks > 1 { // the temporaries are the device's
				t.Errorf("%d blocks are left when every engine is closed", s.Blocks)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return device.NewEngine(d)
	}, &enginetest.Options{
		Seed:     *randomSeed,
		Programs: int(programs(40, 100)),
		Grad: func(loss *tensor.Tensor, xs ...*tensor.Tensor) ([]*tensor.Tensor, error) {
			return autograd.Grad(loss, xs...)
		},
		PlanHits: func(e tensor.Engine) uint64 { return device.Of(e).Stats().Hits },
	})
}
