package cluster_test

import "github.com/ringside-go/ringside/ipc/worker"

// newDevice makes what the tests' workers run programs on.
func newDevice() (worker.Device, error) { return newReference() }
