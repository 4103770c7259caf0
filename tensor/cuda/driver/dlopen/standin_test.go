package dlopen

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/drivertest"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
)

// asChild is the first argument of the processes that the suite starts; the second is the
// library.
const asChild = "drivertest-child"

var given = flag.String("library", "", "run the suite over this libcuda.so.1 instead of the stand-in")

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asChild {
		d, err := Open(os.Args[2])
		if err == nil {
			err = drivertest.Child(d, os.Stdin)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 4 && os.Args[1] == "attributes" {
		if err := attributes(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// attributes writes what lib says of its devices to a file, as JSON.
func attributes(lib, file string) error {
	d, err := Open(lib)
	if err != nil {
		return err
	}
	all, err := drivertest.Facts(d)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	for _, f := range all {
		fmt.Printf("%s, %d bytes, %d attributes\n", f.Name, f.Bytes, len(f.Attributes))
	}
	return os.WriteFile(file, b, 0o644)
}

// standIn returns a copy of the stand-in, which has state and settings of its own.
func standIn(t *testing.T) string {
	t.Helper()
	testneeds.GCC.Program(t, os.Getenv, fakecuda.Compiler())
	lib, err := fakecuda.Copy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

func opened(t *testing.T, lib string) *Driver {
	t.Helper()
	d, err := Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func suite(t *testing.T, lib string) {
	drivertest.Run(t, opened(t, lib), drivertest.Options{
		Child: func() *exec.Cmd { return exec.Command(os.Args[0], asChild, lib) },
	})
}

// TestSuite runs the suite over the stand-in, as it is and with late streams and frequent
// collections, and checks that nothing is left.
func TestSuite(t *testing.T) {
	if *given != "" {
		suite(t, *given)
		return
	}
	for _, delay := range []string{"0", "20000"} {
		t.Run("late by "+delay+" us", func(t *testing.T) {
			counters := filepath.Join(t.TempDir(), "counters")
			t.Setenv("FAKECUDA_DELAY_US", delay)
			t.Setenv("FAKECUDA_COUNTERS", counters)
			lib := standIn(t)
			if delay != "0" {
				// Memory that is not held until the work is done is lost at once.
				t.Setenv("GOGC", "1") // of children
				defer debug.SetGCPercent(debug.SetGCPercent(1))
			}
			suite(t, lib)
			if c, err := fakecuda.ReadCounters(counters); err != nil || c != (fakecuda.Counters{}) {
				t.Errorf("left: %+v, %v", c, err)
			}
		})
	}
}

// TestFacts reads the facts of the stand-in's devices.
func TestFacts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "attributes.json")
	if err := attributes(standIn(t), file); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []drivertest.DeviceFacts
	if err := json.Unmarshal(b, &all); err != nil || len(all) != 2 || all[1].Name == "" || all[0].UUID == all[1].UUID ||
		all[0].Attributes[driver.WarpSize] != 32 || len(all[0].Peers) != 1 {
		t.Errorf("%v; %s", err, b)
	}
}

func TestDriverWithoutDevices(t *testing.T) {
	t.Setenv("FAKECUDA_DEVICES", "0")
	err := opened(t, standIn(t)).Init()
	if !errors.Is(err, driver.NoDevice) || !strings.Contains(err.Error(), "cuInit") || !strings.Contains(err.Error(), "nvidia-smi") {
		t.Errorf("%v, want %v of cuInit with advice", err, driver.NoDevice)
	}
}

func TestOldDriver(t *testing.T) {
	t.Setenv("FAKECUDA_VERSION", "11040")
	if _, err := Open(standIn(t)); !errors.Is(err, ErrTooOld) || !strings.Contains(err.Error(), "CUDA 11.4, want 12.0") {
		t.Errorf("%v, want %v", err, ErrTooOld)
	}
}

// TestMissingSymbol builds a library that has the version and nothing else.
func TestMissingSymbol(t *testing.T) {
	standIn(t) // skips without gcc
	dir := t.TempDir()
	src, lib := filepath.Join(dir, "few.c"), filepath.Join(dir, "few.so")
	if err := os.WriteFile(src, []byte("int cuDriverGetVersion(int *v) { *v = 12040; return 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(fakecuda.Compiler(), "-shared", "-fPIC", "-o", lib, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := Open(lib); !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), lib+" has no cuInit") {
		t.Errorf("%v, want %v that names cuInit", err, ErrIncomplete)
	}
}

// inContext runs f in a context of the first device of lib.
func inContext(t *testing.T, lib string, f func(d *Driver)) {
	t.Helper()
	d := opened(t, lib)
	if err := d.Init(); err != nil {
		t.Fatal(err)
	}
	c, err := d.PrimaryRetain(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := driver.Bind(d, c, func() error { f(d); return d.PrimaryRelease(0) }); err != nil {
		t.Error(err)
	}
}

func TestFaults(t *testing.T) {
	t.Setenv("FAKECUDA_FAIL", "cuMemAlloc_v2:2=2,cuStreamCreateWithPriority:1=700")
	inContext(t, standIn(t), func(d *Driver) {
		for i, want := range []driver.Result{driver.Success, driver.OutOfMemory, driver.Success} {
			p, err := d.Alloc(512)
			if (want == driver.Success) != (err == nil) || err != nil && !errors.Is(err, want) {
				t.Errorf("allocation %d: %v, want %v", i+1, err, want)
			}
			if err == nil && d.Free(p) != nil {
				t.Errorf("allocation %d can't be freed", i+1)
			}
		}
		for range 2 { // the first is asked for; then the context is lost
			if _, err := d.StreamCreate(0, 0); !errors.Is(err, driver.IllegalAddress) || !driver.IllegalAddress.Lost() {
				t.Errorf("%v, want %v, after which the context is lost", err, driver.IllegalAddress)
			}
		}
	})
}

func TestMemoryLimit(t *testing.T) {
	counters := filepath.Join(t.TempDir(), "counters")
	t.Setenv("FAKECUDA_COUNTERS", counters)
	t.Setenv("FAKECUDA_MEMORY_MIB", "4")
	inContext(t, standIn(t), func(d *Driver) {
		p, err := d.Alloc(3 << 20)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := fakecuda.ReadCounters(counters); err != nil || c != (fakecuda.Counters{Allocations: 1}) {
			t.Errorf("counted %+v, %v, want one allocation", c, err)
		}
		if _, err := d.Alloc(2 << 20); !errors.Is(err, driver.OutOfMemory) {
			t.Errorf("5 of 4 MiB: %v", err)
		}
		if err := d.Free(p); err != nil {
			t.Error(err)
		}
		if p, err = d.Alloc(4 << 20); err != nil {
			t.Fatalf("4 of 4 MiB: %v", err)
		}
		if err := d.Free(p); err != nil {
			t.Error(err)
		}
		m, err := d.VirtualCreate(0, 4<<20)
		if err != nil {
			t.Fatalf("4 of 4 MiB, virtual: %v", err)
		}
		if _, err := d.Alloc(1); !errors.Is(err, driver.OutOfMemory) {
			t.Errorf("beside 4 MiB of virtual memory: %v", err)
		}
		if err := d.VirtualRelease(m); err != nil {
			t.Error(err)
		}
		if free, _, err := d.MemInfo(); err != nil || free != 4<<20 {
			t.Errorf("%d bytes are free in the end, %v", free, err)
		}
	})
}

// mapping returns two pages of mapped memory.
func mapping(t *testing.T, prot int) []byte {
	t.Helper()
	b, err := syscall.Mmap(-1, 0, 2*os.Getpagesize(), prot, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestRegister registers memory that the process may write, and memory that it may only
// read: the device must then be told so, and may only read it too.
func TestRegister(t *testing.T) {
	inContext(t, standIn(t), func(d *Driver) {
		p, err := d.Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		both, only := mapping(t, syscall.PROT_READ|syscall.PROT_WRITE), mapping(t, syscall.PROT_READ)
		for _, c := range []struct {
			name string
			call func() error
			want driver.Result
		}{
			{"half a page", func() error { return d.HostRegister(both[:100], 0) }, driver.InvalidValue},
			{"writable", func() error { return d.HostRegister(both, driver.HostPortable) }, driver.Success},
			{"again", func() error { return d.HostRegister(both[4096:], 0) }, driver.AlreadyRegistered},
			{"read-only, not told", func() error { return d.HostRegister(only, 0) }, driver.InvalidValue},
			{"read-only", func() error { return d.HostRegister(only, driver.HostReadOnly) }, driver.Success},
			{"copy from read-only", func() error { return d.CopyHtoD(p, only[:4096]) }, driver.Success},
			{"copy to read-only", func() error { return d.CopyDtoH(only[:4096], p) }, driver.InvalidValue},
			{"copy to writable", func() error { return d.CopyDtoH(both[:4096], p) }, driver.Success},
			{"unregister inside", func() error { return d.HostUnregister(both[4096:]) }, driver.NotRegistered},
			{"unregister", func() error { return d.HostUnregister(both) }, driver.Success},
			{"unregister read-only", func() error { return d.HostUnregister(only) }, driver.Success},
			{"free", func() error { return d.Free(p) }, driver.Success},
		} {
			err := c.call()
			if got := errors.Is(err, c.want); got != (c.want != driver.Success) || err != nil && !got {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
	})
}

// TestNoFunction checks that a launch of no function is refused. A driver may crash.
func TestNoFunction(t *testing.T) {
	inContext(t, standIn(t), func(d *Driver) {
		err := d.Launch(1, driver.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}}, new(driver.Args).Uint32(1))
		if !errors.Is(err, driver.InvalidHandle) {
			t.Errorf("%v, want %v", err, driver.InvalidHandle)
		}
	})
}

// TestChildRefusesOrders checks the child's own error, which the suite relies on.
func TestChildRefusesOrders(t *testing.T) {
	if err := drivertest.Child(nil, strings.NewReader("")); !errors.Is(err, io.EOF) {
		t.Errorf("no order: %v", err)
	}
}

// TestCalls counts calls by name, and together those that reach the device and are not
// questions.
func TestCalls(t *testing.T) {
	d := opened(t, standIn(t))
	before := d.Calls()
	if err := d.Init(); err != nil {
		t.Fatal(err)
	}
	g, err := d.DeviceGet(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.PrimaryRetain(g)
	if err != nil {
		t.Fatal(err)
	}
	err = driver.Bind(d, c, func() error {
		e, err := d.EventCreate(driver.EventDisableTiming)
		for range 3 {
			if err == nil {
				_, err = d.EventQuery(e)
			}
		}
		return errors.Join(err, d.EventDestroy(e))
	})
	if err := errors.Join(err, d.PrimaryRelease(g)); err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{
		"cuInit": 1, "cuDriverGetVersion": 1, "cuDeviceGet": 1, "cuDevicePrimaryCtxRetain": 1, "cuDevicePrimaryCtxRelease_v2": 1,
		"cuCtxGetCurrent": 1, "cuCtxSetCurrent": 2, "cuEventCreate": 1, "cuEventDestroy_v2": 1, "cuEventQuery": 3,
	}
	if got := d.CallsByName(); !maps.Equal(got, want) {
		t.Errorf("calls %v, expected %v", got, want)
	}
	if n := d.Calls() - before; n != 6 {
		t.Errorf("%d calls that count, expected 6", n)
	}
}
