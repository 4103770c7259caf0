package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
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
	// The only possible error is a bad pattern.
	nodes, _ := filepath.Glob(h.path("dev/nvidia[0-9]*"))
	d, err := h.openDriver()
	switch {
	case errors.Is(err, errWithoutGPU):
		return found("%v", err)
	case errors.Is(err, errNoLibrary) && len(nodes) == 0:
		return found("none; workers use the cores (this program is linked with glibc to look for one; make build TAGS=nogpu makes a static one)")
	case errors.Is(err, errNoLibrary):
		return warned("install the driver's user library (Debian: libcuda1), or run the container with --gpus all",
			"%d device(s), but no driver library: %v", len(nodes), err)
	case err != nil: // too old, or incomplete; the text says what to do
		return warned("", "%v", err)
	}
	text, err := devices(d)
	if err != nil {
		do := ""
		if errors.Is(err, driver.NoDevice) && len(nodes) == 0 {
			do = "there is no /dev/nvidia*: load the module: modprobe nvidia; in a container: --gpus all"
		}
		return warned(do, "there is a driver, but: %v", err)
	}
	if version := strings.Fields(h.read("sys/module/nvidia/version")); len(version) > 0 {
		text += "; kernel module " + version[0]
	}
	f, err := trySharing(ctx, d)
	if err != nil {
		return warned("", "%s; the first can't be used: %v", text, err)
	}
	f.Found = text + "; " + f.Found + "; no command runs programs on them yet"
	return f
}

// devices initializes a driver and describes its devices.
func devices(d driver.API) (string, error) {
	if err := d.Init(); err != nil {
		return "", err
	}
	v, err := d.Version()
	if err != nil {
		return "", err
	}
	n, err := d.DeviceCount()
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("CUDA %d.%d, %d device(s)", v/1000, v%1000/10, n)
	for i := range n {
		dev, err := d.DeviceGet(i)
		if err != nil {
			return "", err
		}
		name, err := d.DeviceName(dev)
		if err != nil {
			return "", err
		}
		bytes, err := d.DeviceMemory(dev)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("; %s, %s", name, size(bytes))
	}
	return text, nil
}
