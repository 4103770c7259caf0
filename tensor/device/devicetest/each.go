package devicetest

import (
	"cmp"
	"testing"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/apart"
)

// devices are those of this process.
var devices = []struct {
	name string
	open func(o cpu.Options) (device.Device, error)
}{
	{"cpu", func(o cpu.Options) (device.Device, error) { return cpu.New(&o) }},
	{"apart", func(o cpu.Options) (device.Device, error) {
		return apart.New(&apart.Options{Seed: 1, CPU: o})
	}},
}

// T is a test on one device.
type T struct {
	*testing.T
	open func(o cpu.Options) (device.Device, error)
}

// Each runs a test once on each device of this process.
func Each(t *testing.T, f func(t *T)) {
	for _, d := range devices {
		t.Run(d.name, func(t *testing.T) { f(&T{t, d.open}) })
	}
}

// Run runs a subtest on the same device.
func (t *T) Run(name string, f func(t *T)) bool {
	return t.T.Run(name, func(sub *testing.T) { f(&T{sub, t.open}) })
}

// Open returns a device with that host memory, which the caller closes. Its first segment
// is small unless the caller says otherwise: the kernel clears it before a test uses it.
func (t *T) Open(arena shm.ArenaOptions) (device.Device, error) {
	arena.First = cmp.Or(arena.First, 1<<20)
	return t.open(cpu.Options{Arena: arena})
}

// Device returns a device, which is closed when the test has ended.
func (t *T) Device() device.Device {
	t.Helper()
	d, err := t.Open(shm.ArenaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Session returns a session on a device of its own, which is closed when the test has
// ended.
func (t *T) Session(o *tensor.SessionOptions) *tensor.Session {
	t.Helper()
	s := tensor.NewSession(device.NewEngine(t.Device()), o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
