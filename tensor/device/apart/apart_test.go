package apart_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/apart"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// TestMain lets this test binary also be a process that touches a value's memory.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Arg(0) != "touch" {
		os.Exit(m.Run())
	}
	if err := touch(flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// seeds returns the number of seeds to run a suite with: all, or one with -short.
func seeds(all uint64) uint64 {
	if testing.Short() {
		return 1
	}
	return all
}

// small are the options of devices that tests open by the hundred: the first segment of
// their host memory is one that the kernel has cleared sooner than 16 MiB.
var small = cpu.Options{Arena: shm.ArenaOptions{First: 1 << 20}}

// TestConformance runs the suite of engines for several seeds.
func TestConformance(t *testing.T) {
	for seed := range seeds(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) tensor.Engine {
				d, err := apart.New(&apart.Options{Seed: seed, CPU: small})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					// The device keeps a block for temporaries.
					if s := d.Stats(); s.Values.Blocks > 1 || s.Arena.Blocks > 0 {
						t.Errorf("%d values and %d blocks are left when every engine is closed", s.Values.Blocks, s.Arena.Blocks)
					}
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				})
				return device.NewEngine(d)
			}, &enginetest.Options{
				Programs: 40,
				Grad: func(loss *tensor.Tensor, xs ...*tensor.Tensor) ([]*tensor.Tensor, error) {
					return autograd.Grad(loss, xs...)
				},
				PlanHits: func(e tensor.Engine) uint64 { return device.Of(e).Stats().Hits },
			})
		})
	}
}

// TestTouchFaults checks that a load and a store at the address of a value end a process
// that doesn't keep to the contract, and that the same process lives if it does.
func TestTouchFaults(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for how, faults := range map[string]bool{"host": false, "load": true, "store": true} {
		out, err := exec.Command(exe, "touch", how).CombinedOutput()
		if fault := strings.Contains(string(out), "SIGSEGV"); (err != nil) != faults || fault != faults {
			t.Errorf("%s: %v, expected a fault: %v\n%s", how, err, faults, out)
		}
	}
}

// touch makes a value and reads it through Host, or loads or stores a byte of it.
func touch(how string) error {
	d, err := apart.New(nil)
	if err != nil {
		return err
	}
	defer d.Close()
	s := d.Open()
	defer s.Close()
	want := []byte{1, 2, 3, 4}
	if err := s.Make(1, tensor.U8, tensor.Shape{4}); err != nil {
		return err
	}
	if err := s.Fill(1, want); err != nil {
		return err
	}
	values := d.Values().Segments()[0].Bytes()
	switch how {
	case "load":
		if values[0] == want[0] {
			return errors.New("the value was read")
		}
	case "store":
		values[0] = 9
	}
	got, err := s.Host(1)
	if err != nil {
		return err
	}
	defer got[0].Release()
	if !bytes.Equal(got[0].Bytes(), want) {
		return fmt.Errorf("Host has %v, expected %v", got[0].Bytes(), want)
	}
	return nil
}

// TestDevice runs the suite of devices for several seeds.
func TestDevice(t *testing.T) {
	for seed := range seeds(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device {
				d, err := apart.New(&apart.Options{Seed: seed, CPU: small})
				if err != nil {
					t.Fatal(err)
				}
				return d
			})
		})
	}
}
