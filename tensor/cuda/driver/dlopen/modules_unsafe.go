package dlopen

import (
	"errors"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

type modules struct{ l *library }

// Options of the compiler for PTX, CUjit_option.
const (
	jitErrorLog      = 5
	jitErrorLogBytes = 6
)

// cbytes returns s as a C string.
func cbytes(s string) []byte { return append([]byte(s), 0) }

func (m modules) ModuleLoad(ptx string) (driver.Module, error) {
	image, log := cbytes(ptx), make([]byte, 8<<10)
	// values holds the log's address as an integer, which doesn't keep the log in place.
	var pin runtime.Pinner
	pin.Pin(unsafe.SliceData(log))
	defer pin.Unpin()
	options := &[2]int32{jitErrorLog, jitErrorLogBytes}
	values := &[2]uintptr{uintptr(unsafe.Pointer(unsafe.SliceData(log))), uintptr(len(log))}
	mod := new(driver.Module)
	err := m.l.call(moduleLoadDataEx, uintptr(unsafe.Pointer(mod)), uintptr(unsafe.Pointer(unsafe.SliceData(image))),
		uintptr(len(options)), uintptr(unsafe.Pointer(options)), uintptr(unsafe.Pointer(values)))
	var e *driver.Error
	if errors.As(err, &e) {
		e.Detail = strings.TrimSpace(cstring(log))
	}
	return *mod, err
}

func (m modules) ModuleUnload(mod driver.Module) error { return m.l.call(moduleUnload, uintptr(mod)) }

func (m modules) ModuleFunction(mod driver.Module, name string) (driver.Function, error) {
	f := new(driver.Function)
	err := m.l.call(moduleGetFunction, uintptr(unsafe.Pointer(f)), uintptr(mod), uintptr(unsafe.Pointer(unsafe.SliceData(cbytes(name)))))
	return *f, err
}

func (m modules) ModuleGlobal(mod driver.Module, name string) (driver.DevicePtr, uint64, error) {
	p, n := new(driver.DevicePtr), new(uint64)
	err := m.l.call(moduleGetGlobal, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(n)), uintptr(mod),
		uintptr(unsafe.Pointer(unsafe.SliceData(cbytes(name)))))
	return *p, *n, err
}

func (m modules) FunctionAttribute(f driver.Function, a driver.FunctionAttribute) (int, error) {
	v, err := get[int32](m.l, funcGetAttribute, uintptr(a), uintptr(f))
	return int(v), err
}

func (m modules) SetFunctionAttribute(f driver.Function, a driver.FunctionAttribute, v int) error {
	return m.l.call(funcSetAttribute, uintptr(f), uintptr(a), uintptr(v))
}

func (m modules) FunctionBlocks(f driver.Function, threads int, shared uint64) (int, error) {
	v, err := get[int32](m.l, occupancyMaxActiveBlocks, uintptr(f), uintptr(threads), uintptr(shared))
	return int(v), err
}

func (m modules) Launch(f driver.Function, l driver.Launch, a *driver.Args) error {
	// The driver takes an array of addresses, one for each parameter. The array is
	// reached from a call, so it and all it points to are on the heap. The driver reads
	// the parameters before it returns.
	at := new([driver.MaxArgs]unsafe.Pointer)
	values := a.Values()
	for i := range values {
		at[i] = unsafe.Pointer(&values[i])
	}
	return m.l.call(launchKernel, uintptr(f),
		uintptr(l.Grid[0]), uintptr(l.Grid[1]), uintptr(l.Grid[2]),
		uintptr(l.Block[0]), uintptr(l.Block[1]), uintptr(l.Block[2]),
		uintptr(l.Shared), uintptr(l.Stream), uintptr(unsafe.Pointer(at)), 0)
}
