package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
	"github.com/ringside-go/ringside/tensor/device"
)

// standIn gives the test a stand-in with state of its own, which processes that it starts
// find as the driver, and returns its path.
func standIn(t *testing.T) string {
	t.Helper()
	lib := cudatest.Library(t, os.Getenv)
	// The loader of another process looks there first.
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(lib))
	return lib
}

func TestParseDevices(t *testing.T) {
	for text, want := range map[string]devices{
		"": {"", device.CPU, nil}, "cpu": {"cpu", device.CPU, nil}, "auto": {"auto", 0, nil},
		"cuda": {"cuda", device.CUDA, nil}, "cuda:1": {"cuda:1", device.CUDA, []int{1}}, "cuda:2,0": {"cuda:2,0", device.CUDA, []int{2, 0}},
	} {
		if got, err := parseDevices(text); err != nil || got.text != want.text || got.kind != want.kind || !slices.Equal(got.numbers, want.numbers) {
			t.Errorf("%q is %+v, %v, expected %+v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"gpu": "expected auto, cpu, cuda", "cpu:0": "expected auto", "CUDA": "expected auto", "cuda:": `GPU ""`, "cuda:0,": `GPU ""`, "cuda:-1": `GPU "-1"`,
		"cuda:64": "from 0 to 63", "cuda:1,1": "twice", "cuda:x": `GPU "x"`,
	} {
		var use *usageError
		if _, err := parseDevices(text); !errors.As(err, &use) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, expected a usage error with %q", text, err, says)
		}
	}
}

// TestFindDevices has GPUs that can't be used. With auto it is said once that it is the
// cores and why; where GPUs are named it is an error.
func TestFindDevices(t *testing.T) {
	node := map[string]string{"dev/nvidia0": ""}
	missing := fmt.Errorf("%w: not found", errNoLibrary)
	for _, c := range []struct {
		name   string
		files  map[string]string
		driver driver.API
		err    error
		says   string
	}{
		{"none", nil, nil, missing, "none: no libcuda.so.1"},
		{"built without", nil, nil, errWithoutGPU, "tag nogpu"},
		{"a GPU without its library", node, nil, missing, "--gpus all"},
		{"no device", nil, failing{init: &driver.Error{Call: "cuInit", Result: driver.NoDevice}}, nil, "modprobe nvidia"},
		{"too old", node, nil, fmt.Errorf("%w: install driver 525", dlopen.ErrTooOld), "install driver 525"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &host{root: tree(t, c.files), openDriver: func() (driver.API, error) { return c.driver, c.err }}
			var said strings.Builder
			if _, numbers, err := (devices{text: "auto"}).find(&said, h); err != nil || len(numbers) > 0 {
				t.Errorf("auto: %v, %v, expected the cores", numbers, err)
			}
			if got := said.String(); !strings.HasPrefix(got, "workers use the cores; GPU driver: ") || !strings.Contains(got, c.says) || strings.Count(got, "\n") != 1 {
				t.Errorf("auto says %q, expected one line with %q", got, c.says)
			}
			said.Reset()
			_, _, err := (devices{text: "cuda", kind: device.CUDA}).find(&said, h)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "without --device") || said.Len() > 0 {
				t.Errorf("cuda: %v and %q, expected an error with %q", err, &said, c.says)
			}
			if _, numbers, err := (devices{kind: device.CPU}).find(&said, h); err != nil || len(numbers) > 0 || said.Len() > 0 {
				t.Errorf("cpu: %v, %v, says %q", numbers, err, &said)
			}
		})
	}
}

// TestFindStandIn has two GPUs, of which the second may be broken.
func TestFindStandIn(t *testing.T) {
	for _, c := range []struct {
		device, fail string
		numbers      []int
		says         string // said, or in the error
	}{
		{"auto", "", []int{0, 1}, ""},
		{"cuda", "", []int{0, 1}, ""},
		{"cuda:1", "", []int{1}, ""},
		{"cuda:1,0", "", []int{1, 0}, ""},
		{"cuda:0,2", "", nil, "no GPU 2: expected 0 to 1"},
		{"auto", "cuDevicePrimaryCtxRetain:2=999", []int{0}, "GPU 1 can't be used"},
		{"cuda", "cuDevicePrimaryCtxRetain:2=999", nil, "GPU 1 can't be used"},
		{"cuda:0", "cuDevicePrimaryCtxRetain:2=999", []int{0}, ""},
	} {
		t.Run(c.device+" "+c.fail, func(t *testing.T) {
			lib := standIn(t)
			t.Setenv("FAKECUDA_FAIL", c.fail)
			h := &host{root: t.TempDir(), openDriver: func() (driver.API, error) { return dlopen.Open(lib) }}
			d, err := parseDevices(c.device)
			if err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			_, numbers, err := d.find(&said, h)
			if !slices.Equal(numbers, c.numbers) || (err != nil) != (c.numbers == nil) {
				t.Errorf("%v, %v, expected %v", numbers, err, c.numbers)
			}
			if text := fmt.Sprint(said.String(), err); !strings.Contains(text, c.says) || c.says == "" && said.Len() > 0 {
				t.Errorf("says %q, expected %q", text, c.says)
			}
		})
	}
}
