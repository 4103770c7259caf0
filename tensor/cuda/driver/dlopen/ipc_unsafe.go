package dlopen

import (
	"encoding/binary"
	"runtime"
	"unsafe"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

type ipc struct{ l *library }

// lazyPeer is CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag there is.
const lazyPeer = 1

func (i ipc) IPCGetMemory(p driver.DevicePtr) (driver.IPCHandle, error) {
	return get[driver.IPCHandle](i.l, ipcGetMemHandle, uintptr(p))
}

func (i ipc) IPCOpenMemory(h driver.IPCHandle) (driver.DevicePtr, error) {
	p := new(driver.DevicePtr)
	err := i.open(ipcOpenMemHandle, unsafe.Pointer(p), &h, lazyPeer)
	return *p, err
}

func (i ipc) IPCCloseMemory(p driver.DevicePtr) error {
	return i.l.call(ipcCloseMemHandle, uintptr(p))
}

func (i ipc) IPCGetEvent(e driver.Event) (driver.IPCHandle, error) {
	return get[driver.IPCHandle](i.l, ipcGetEventHandle, uintptr(e))
}

func (i ipc) IPCOpenEvent(h driver.IPCHandle) (driver.Event, error) {
	e := new(driver.Event)
	err := i.open(ipcOpenEventHandle, unsafe.Pointer(e), &h, 0)
	return *e, err
}

// open calls f(out, *h, flags), where the C function takes the handle by value.
//
// On amd64 the System V ABI puts a structure of 64 bytes on the stack, after the
// arguments in registers: six words fill these. On arm64 the AAPCS64 passes a pointer to
// a copy.
func (i ipc) open(f symbol, out unsafe.Pointer, h *driver.IPCHandle, flags uintptr) error {
	if runtime.GOARCH == "arm64" {
		return i.l.call(f, uintptr(out), uintptr(unsafe.Pointer(h)), flags)
	}
	var w [8]uintptr
	for k := range w {
		w[k] = uintptr(binary.NativeEndian.Uint64(h[8*k:]))
	}
	return i.l.call(f, uintptr(out), flags, 0, 0, 0, 0, w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
}
