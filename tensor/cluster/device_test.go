package cluster_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/apart"
)

// onDevice is the device of the tests' workers.
var onDevice = flag.String("device", "cpu", "the device of the tests' workers: cpu or apart")

// newDevice returns a device for a worker. Memory that it releases is filled, so that
// every use of it shows. Segments of its host memory are made in shmDir.
func newDevice(shmDir string) (device.Device, error) {
	o := cpu.Options{Arena: shm.ArenaOptions{First: 1 << 20, Checked: true, Segment: segments(shmDir)}}
	switch *onDevice {
	case "cpu":
		return cpu.New(&o)
	case "apart":
		return apart.New(&apart.Options{Seed: 1, CPU: o})
	}
	return nil, fmt.Errorf("device %q, expected cpu or apart", *onDevice)
}

// segments returns options for segments in dir, a tmpfs of the test's own, or for
// segments of the usual kind if dir is empty.
func segments(dir string) shm.Options {
	if dir == "" {
		return worker.Segments()
	}
	return shm.Options{Dir: dir, Backing: shm.Tmpfs}
}

// apartTests are the tests that TestApart runs with -short: a session of one worker, of
// several and of stages, on one host and over TCP, with errors and saving.
const apartTests = "Conformance|Together|Far|Stage|Pipeline|Save|Restore|LateError|NoSpace|SameBits"

// TestApart runs the tests again with workers on a device whose values no other code can
// touch, and that runs programs late.
func TestApart(t *testing.T) {
	if *onDevice == "apart" {
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-device=apart", "-test.timeout=20m"}
	if testsize.Sampled() || testing.Short() {
		args = append(args, "-test.short", "-test.run="+apartTests)
	}
	if out, err := exec.CommandContext(t.Context(), exe, args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
