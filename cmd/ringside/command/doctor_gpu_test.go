package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
)

// failing is a driver whose Init fails.
type failing struct {
	driver.API
	init error
}

func (f failing) Init() error { return f.init }

func TestDoctorGPU(t *testing.T) {
	node := map[string]string{"dev/nvidia0": "", "dev/nvidiactl": ""}
	missing := fmt.Errorf("%w: not found", errNoLibrary)
	noDevice := failing{init: &driver.Error{Call: "cuInit", Result: driver.NoDevice}}
	for _, c := range []struct {
		name   string
		files  map[string]string
		driver driver.API
		err    error
		want   verdict
		says   []string // in found or do
	}{
		{"none", nil, nil, missing, good, []string{"none: no libcuda.so.1", "glibc", "TAGS=nogpu"}},
		{"built without", node, nil, errWithoutGPU, good, []string{"static", "nogpu", "make build "}},
		{"a GPU without its library", node, nil, missing, poor, []string{"1 device(s), but no driver", "--gpus all"}},
		{"a library without its GPU", nil, noDevice, nil, poor, []string{"CUDA_ERROR_NO_DEVICE", "modprobe"}},
		{"a hidden GPU", node, noDevice, nil, poor, []string{"CUDA_VISIBLE_DEVICES"}},
		{"too old", node, nil, errors.New("too old: install driver 525"), poor, []string{"install driver 525"}},
		{"broken", node, failing{init: &driver.Error{Call: "cuInit", Result: driver.DriverMismatch}}, nil, poor, []string{"(803)", "restart"}},
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

// TestDoctorStandIn runs doctor's check over the stand-in, with another process that
// opens it too.
func TestDoctorStandIn(t *testing.T) {
	files := map[string]string{"dev/nvidia0": "", "dev/nvidia1": "", "sys/module/nvidia/version": "550.1\n"}
	devices := []string{"CUDA 12.4, 2 device(s); ", "1.0 GiB", "kernel module 550.1", "reaches the memory", "--device cuda"}
	for _, c := range []struct {
		name     string
		key, set string
		want     verdict
		says     []string // in found or do
		products string   // a value of --cublas; empty for the stand-in's
	}{
		{"two GPUs", "FAKECUDA_DEVICES", "2", good, append(devices, "share memory by handles and descriptors", "registered"), ""},
		{"no device", "FAKECUDA_DEVICES", "0", poor, []string{"CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"}, ""},
		{"too old", "FAKECUDA_VERSION", "11040", poor, []string{"CUDA 11.4, want 12.0", "install driver 525"}, ""},
		{"a device that can't be used", "FAKECUDA_FAIL", "cuDevicePrimaryCtxRetain:1=999", poor, append(devices[:2:2], "can't be used", "(999)"), ""},
		{"a kernel that is refused", "FAKECUDA_FAIL", "cuModuleLoadDataEx:1=218", poor, append(devices[:2:2], "the first can't be used: the driver's compiler, on a kernel", "CUDA_ERROR_INVALID_PTX (218)"), ""},
		{"a device that is lost", "FAKECUDA_FAIL", "cuModuleLoadDataEx:1=700", poor, append(devices[:2:2], "the first can't be used", "CUDA_ERROR_ILLEGAL_ADDRESS (700)"), ""},
		{"no memory left", "FAKECUDA_MEMORY_MIB", "1", poor, append(devices[:1:1], "CUDA_ERROR_OUT_OF_MEMORY (2)", "nvidia-smi lists the processes"), ""},
		{"no handles", "FAKECUDA_FAIL", "cuIpcGetMemHandle:1=801", poor, append(devices, "by descriptors alone: by handles: ", "(801)"), ""},
		{"handles that another process can't open", "FAKECUDA_FAIL", "cuIpcOpenMemHandle_v2:1=201", poor, append(devices, "by descriptors alone: by handles: another process", "(201)"), ""},
		{"descriptors that another process can't open", "FAKECUDA_FAIL", "cuMemImportFromShareableHandle:1=801", poor, append(devices, "by handles alone: by descriptors: another process"), ""},
		{"no IPC", "FAKECUDA_FAIL", "cuIpcGetMemHandle:1=801,cuMemExportToShareableHandle:1=801", poor, append(devices, "can't share memory: by handles", "--ipc=host", "gVisor"), ""},
		{"a library of products", "FAKECUDA_DEVICES", "1", good, []string{"cuBLASLt 12.4.5 (/", fakecuda.Products + ") computes matrix products"}, ""},
		{"a library that can't be used", "FAKECUDA_FAIL", "cuCtxGetDevice:1=999", good, []string{"kernels of its own compute matrix products: /", "CUBLAS_STATUS_NOT_INITIALIZED"}, ""},
		{"no library", "FAKECUDA_DEVICES", "1", good, []string{"kernels of its own compute matrix products: ", "/none.so"}, "/none.so"},
		{"a library that is refused", "FAKECUDA_DEVICES", "1", good, []string{"kernels of its own compute matrix products: --cublas off"}, "off"},
		{"no registration", "FAKECUDA_FAIL", "cuMemHostRegister_v2:1=801", good, append(devices, "copies are staged", "(801)"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := standIn(t)
			t.Setenv(c.key, c.set)
			h := &host{root: tree(t, files), openDriver: func() (driver.API, error) { return dlopen.Open(own) }, openProducts: openProducts, products: c.products, openCollectives: openCollectives}
			if c.products == "" {
				h.products = filepath.Join(filepath.Dir(own), fakecuda.Products)
			}
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
