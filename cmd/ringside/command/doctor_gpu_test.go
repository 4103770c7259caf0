package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// gpus is a driver with so many devices, or one whose Init fails.
type gpus struct {
	driver.API
	n    int
	init error
}

func (g gpus) Init() error                                  { return g.init }
func (g gpus) Version() (int, error)                        { return 12040, nil }
func (g gpus) DeviceCount() (int, error)                    { return g.n, nil }
func (g gpus) DeviceGet(i int) (driver.Device, error)       { return driver.Device(i), nil }
func (g gpus) DeviceName(d driver.Device) (string, error)   { return fmt.Sprintf("model %d", d), nil }
func (g gpus) DeviceMemory(d driver.Device) (uint64, error) { return uint64(d+1) * gib, nil }

func TestDoctorGPU(t *testing.T) {
	node := map[string]string{"dev/nvidia0": "", "dev/nvidiactl": ""}
	missing := fmt.Errorf("%w: not found", errNoLibrary)
	noDevice := gpus{init: &driver.Error{Call: "cuInit", Result: driver.NoDevice}}
	for _, c := range []struct {
		name   string
		files  map[string]string
		driver driver.API
		err    error
		want   verdict
		says   []string // in found or do
	}{
		{"none", nil, nil, missing, good, []string{"none; workers use the cores"}},
		{"built without", node, nil, errWithoutGPU, good, []string{"nogpu"}},
		{"a GPU without its library", node, nil, missing, poor, []string{"1 device(s), but no driver", "--gpus all"}},
		{"a library without its GPU", nil, noDevice, nil, poor, []string{"CUDA_ERROR_NO_DEVICE", "modprobe"}},
		{"a hidden GPU", node, noDevice, nil, poor, []string{"CUDA_VISIBLE_DEVICES"}},
		{"too old", node, nil, errors.New("too old: install driver 525"), poor, []string{"install driver 525"}},
		{"broken", node, gpus{init: &driver.Error{Call: "cuInit", Result: driver.DriverMismatch}}, nil, poor, []string{"(803)", "restart"}},
		{"two GPUs", map[string]string{"dev/nvidia0": "", "dev/nvidia1": "", "sys/module/nvidia/version": "550.1\n"}, gpus{n: 2}, nil, good,
			[]string{"CUDA 12.4, 2 device(s); model 0, 1.0 GiB; model 1, 2.0 GiB; kernel module 550.1", "no engine"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &host{root: tree(t, c.files), openDriver: func() (driver.API, error) { return c.driver, c.err }}
			f := h.gpu(context.Background())
			if f.Status != c.want {
				t.Errorf("%+v, want %s", f, c.want)
			}
			for _, s := range c.says {
				if !strings.Contains(f.Found+" "+f.Do, s) {
					t.Errorf("%+v does not say %q", f, s)
				}
			}
		})
	}
}
