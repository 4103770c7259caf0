package worker

import (
	"flag"
	"os"
	"os/exec"
	"testing"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/apart"
)

var (
	onDevice = flag.String("device", "cpu", "the device of the tests' workers: cpu or apart")
	seed     = flag.Uint64("seed", 1, "decides how late programs run on the device apart")
)

// NewTestDevice returns a device of the kind that the flag names.
func NewTestDevice(t testing.TB, o cpu.Options) device.Device {
	t.Helper()
	var dev device.Device
	var err error
	switch *onDevice {
	case "cpu":
		dev, err = cpu.New(&o)
	case "apart":
		o.Arena.MaxBytes = o.MaxBytes
		dev, err = apart.New(&apart.Options{Seed: *seed, CPU: o})
	default:
		t.Fatalf("device %q, expected cpu or apart", *onDevice)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

// InPlace reports whether the tests' device leaves uploads in the client's memory. One
// that does not gives the memory back when it has copied them.
func InPlace() bool { return *onDevice == "cpu" }

// Checked returns the arena of the tests' devices: memory that is released is filled.
func Checked() shm.ArenaOptions { return shm.ArenaOptions{First: 1 << 20, Checked: true} }

// TestApart runs all tests again on a device whose values no other code can touch, and
// that runs programs late.
func TestApart(t *testing.T) {
	if *onDevice == "apart" {
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range []string{"1", "2"} {
		args := []string{"-device=apart", "-seed=" + seed, "-test.timeout=10m"}
		if testing.Short() {
			args = append(args, "-test.short")
		}
		if out, err := exec.CommandContext(t.Context(), exe, args...).CombinedOutput(); err != nil {
			t.Errorf("seed %s: %v\n%s", seed, err, out)
		}
	}
}
