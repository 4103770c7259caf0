package dlopen

import (
	"errors"
	"fmt"

	"github.com/ebitengine/purego"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// minVersion is the oldest CUDA version whose driver has all symbols: 12.0.
const minVersion = 12000

var (
	// ErrNoLibrary is returned where no driver library can be loaded.
	ErrNoLibrary = errors.New("no CUDA driver library")
	// ErrTooOld is returned for a driver of a CUDA version before 12.0.
	ErrTooOld = errors.New("the CUDA driver is too old")
	// ErrIncomplete is returned for a library that lacks a function.
	ErrIncomplete = errors.New("not a complete CUDA driver library")
)

// places are where a driver's library is looked for: by the loader's own rules, and in
// folders that containers and WSL mount without telling the loader.
var places = []string{
	"libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
}

// Driver is driver.API over a loaded library.
type Driver struct {
	*library
	devices
	contexts
	allocations
	copies
	hostMemory
	streams
	events
	ipc
	modules
	graphs
	virtualMemory
}

var _ driver.API = (*Driver)(nil)

// Open loads the library at path, or the machine's driver if path is empty, and checks
// that it is new enough and has every function. It doesn't call Init: a library can be
// there without a device, which Init reports. A library stays loaded until the process
// ends.
func Open(path string) (*Driver, error) {
	handle, path, err := load(path)
	if err != nil {
		return nil, err
	}
	l := &library{}
	if err := l.resolve(handle, path, driverGetVersion); err != nil {
		return nil, err
	}
	d := &Driver{
		l, devices{l}, contexts{l}, allocations{l}, copies{l}, hostMemory{l}, streams{l}, events{l},
		ipc{l}, modules{l}, graphs{l}, virtualMemory{l},
	}
	// The version comes before the other symbols: an old driver lacks some of them, and
	// its age is the better message.
	v, err := d.Version()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if v < minVersion {
		return nil, fmt.Errorf("%w: %s supports CUDA %d.%d, want %d.%d or newer (install driver 525 or newer)",
			ErrTooOld, path, v/1000, v%1000/10, minVersion/1000, minVersion%1000/10)
	}
	for f := range symbolCount {
		if err := l.resolve(handle, path, f); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// load returns the first library that can be loaded, and its path.
func load(path string) (uintptr, string, error) {
	candidates := places
	if path != "" {
		candidates = []string{path}
	}
	var first error
	for _, c := range candidates {
		handle, err := purego.Dlopen(c, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return handle, c, nil
		}
		if first == nil {
			first = err
		}
	}
	return 0, "", fmt.Errorf("%w: %w (install the driver's user library, on Debian libcuda1; start a container with --gpus all)", ErrNoLibrary, first)
}

func (l *library) resolve(handle uintptr, path string, f symbol) error {
	fn, err := purego.Dlsym(handle, symbols[f])
	if err != nil {
		return fmt.Errorf("%w: %s has no %s (reinstall the driver; remove stubs of the toolkit from LD_LIBRARY_PATH)", ErrIncomplete, path, symbols[f])
	}
	l.fn[f] = fn
	return nil
}

// Init calls cuInit, which comes before all calls but Version.
func (d *Driver) Init() error { return d.call(initialize, 0) }

// Version returns the version of CUDA that the driver supports, 12040 for 12.4.
func (d *Driver) Version() (int, error) {
	v, err := get[int32](d.library, driverGetVersion)
	return int(v), err
}
