package cluster_test

import (
	"github.com/ringside-go/ringside/ipc/worker"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// newDevice makes what the tests' workers run programs on. Memory that is released is filled, so that
// every use of it shows.
func newDevice() (worker.Device, error) {
	dev, err := cpu.New(&cpu.Options{Arena: shm.ArenaOptions{First: 1 << 20, Checked: true}})
	if err != nil {
		return nil, err
	}
	return worker.CPU(dev), nil
}
