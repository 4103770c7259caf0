package cluster_test

import (
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// newDevice makes what the tests' workers run programs on. Memory that is released is filled, so that
// every use of it shows.
func newDevice(shmDir string) (device.Device, error) {
	return cpu.New(&cpu.Options{Arena: shm.ArenaOptions{First: 1 << 20, Checked: true, Segment: segments(shmDir)}})
}

// segments are made in dir, which is a tmpfs of the test's own, or, if it is empty, where they belong.
func segments(dir string) shm.Options {
	if dir == "" {
		return worker.Segments()
	}
	return shm.Options{Dir: dir, Backing: shm.Tmpfs}
}
