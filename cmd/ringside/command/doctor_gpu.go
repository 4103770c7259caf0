package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/kernels"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
)

var (
	// errNoLibrary is returned by openDriver where there is no driver.
	errNoLibrary = errors.New("no libcuda.so.1")
	// errWithoutGPU is returned by openDriver in a program built without GPUs.
	errWithoutGPU = errors.New("this program is static, built without GPUs (tag nogpu); make build makes one that looks for a driver")
)

// gpu reports whether a GPU engine would find what it needs. A machine without a GPU is
// in order.
func (h *host) gpu(ctx context.Context) finding {
	d, text, n, none := h.driver()
	if d == nil {
		return none
	}
	if version := strings.Fields(h.read("sys/module/nvidia/version")); len(version) > 0 {
		text += "; kernel module " + version[0]
	}
	f, err := trySharing(ctx, d)
	if err == nil {
		err = tryKernel(d)
	}
	if err != nil {
		return warned("", "%s; the first can't be used: %v", text, err)
	}
	f.Found = fmt.Sprintf("%s; %s; %s; %s; %s; ringside up --device cuda has workers on them", text, f.Found, peersOf(d, n), h.productsOn(d), h.collectivesBy())
	return f
}

// tryKernel has the driver compile a kernel for the first device.
func tryKernel(api driver.API) error {
	text, err := kernels.Kernel("move", "transpose_b32")
	if err != nil {
		return err
	}
	d, err := memory.Open(api, 0, trialOptions)
	if err != nil {
		return err
	}
	err = d.Do(func() error {
		m, err := api.ModuleLoad(text)
		if err != nil {
			return fmt.Errorf("the driver's compiler, on a kernel: %w", err)
		}
		return api.ModuleUnload(m)
	})
	return errors.Join(err, d.Close())
}

// driver returns the CUDA driver after Init, what it says of its devices, and how many
// these are, of which there is at least one. Without a driver or a device it returns nil
// and says why.
func (h *host) driver() (d driver.API, text string, n int, none finding) {
	// The only possible error is a bad pattern.
	nodes, _ := filepath.Glob(h.path("dev/nvidia[0-9]*"))
	d, err := h.openDriver()
	switch {
	case errors.Is(err, errWithoutGPU):
		none = found("%v", err)
	case errors.Is(err, errNoLibrary) && len(nodes) == 0:
		none = found("none: no libcuda.so.1 (this program is linked with glibc to look for one; make build TAGS=nogpu makes a static one)")
	case errors.Is(err, errNoLibrary):
		none = warned("install the driver's user library (Debian: libcuda1), or run the container with --gpus all",
			"%d device(s), but no driver library: %v", len(nodes), err)
	case err != nil: // too old, or incomplete; the text says what to do
		none = warned("", "%v", err)
	default:
		if text, n, err = describe(d); err == nil {
			return d, text, n, finding{}
		}
		do := ""
		if errors.Is(err, driver.NoDevice) && len(nodes) == 0 {
			do = "there is no /dev/nvidia*: load the module: modprobe nvidia; in a container: --gpus all"
		}
		none = warned(do, "there is a driver, but: %v", err)
	}
	return nil, "", 0, none
}

// describe initializes a driver, describes its devices and counts them.
func describe(d driver.API) (text string, n int, err error) {
	if err := d.Init(); err != nil {
		return "", 0, err
	}
	v, err := d.Version()
	if err != nil {
		return "", 0, err
	}
	if n, err = d.DeviceCount(); err != nil {
		return "", 0, err
	}
	if n == 0 { // Init says so before, unless they went away
		return "", 0, &driver.Error{Call: "cuDeviceGetCount", Result: driver.NoDevice}
	}
	text = fmt.Sprintf("CUDA %d.%d, %d device(s)", v/1000, v%1000/10, n)
	for i := range n {
		dev, err := d.DeviceGet(i)
		if err != nil {
			return "", 0, err
		}
		name, err := d.DeviceName(dev)
		if err != nil {
			return "", 0, err
		}
		bytes, err := d.DeviceMemory(dev)
		if err != nil {
			return "", 0, err
		}
		text += fmt.Sprintf("; %s, %s", name, size(bytes))
	}
	return text, n, nil
}

// productsOn says which library computes matrix products on the first device.
func (h *host) productsOn(d driver.API) string {
	const none = "kernels of its own compute matrix products: "
	l, err := h.library(d, h.products)
	switch {
	case err != nil:
		return none + err.Error()
	case l == nil:
		return none + "--cublas off"
	}
	dev, err := memory.Open(d, 0, trialOptions)
	if err != nil {
		return none + err.Error()
	}
	var handle blas.Handle
	err = dev.Do(func() (err error) { handle, err = l.Open(); return err })
	if err == nil {
		err = dev.Do(handle.Close)
	}
	if e := dev.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Sprintf("%s%s can't be used: %v", none, l.Info().Path, err)
	}
	return fmt.Sprintf("%s (%s) computes matrix products", l.Info().Name, l.Info().Path)
}

// collectivesBy says which library of collectives there is.
func (h *host) collectivesBy() string {
	l, err := h.collectivesLibrary(cmp.Or(h.collectives, collectivesNCCL))
	switch {
	case err == nil:
		return fmt.Sprintf("%s (%s) runs collectives with --collectives nccl", l.Info().Name, l.Info().Path)
	case h.collectives == "" && errors.Is(err, comm.ErrNoLibrary):
		return "no NCCL for --collectives nccl"
	}
	return "no NCCL for --collectives nccl: " + err.Error()
}
