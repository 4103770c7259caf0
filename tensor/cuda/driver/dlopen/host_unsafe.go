package dlopen

import (
	"unsafe"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

type hostMemory struct{ l *library }

func (h hostMemory) HostAlloc(bytes int, flags driver.HostFlags) ([]byte, error) {
	p, err := get[unsafe.Pointer](h.l, memHostAlloc, uintptr(bytes), uintptr(flags))
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

func (h hostMemory) HostFree(b []byte) error {
	return h.l.call(memFreeHost, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

func (h hostMemory) HostRegister(b []byte, flags driver.HostFlags) error {
	return h.l.call(memHostRegister, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags))
}

func (h hostMemory) HostUnregister(b []byte) error {
	return h.l.call(memHostUnregister, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

func (h hostMemory) HostDevicePointer(b []byte) (driver.DevicePtr, error) {
	p := new(driver.DevicePtr)
	err := h.l.call(memHostGetDevicePointer, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(unsafe.SliceData(b))), 0)
	return *p, err
}

func (h hostMemory) HostFlags(b []byte) (driver.HostFlags, error) {
	f := new(driver.HostFlags)
	err := h.l.call(memHostGetFlags, uintptr(unsafe.Pointer(f)), uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	return *f, err
}
