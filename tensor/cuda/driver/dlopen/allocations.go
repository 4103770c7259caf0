package dlopen

import "github.com/ringside-go/ringside/tensor/cuda/driver"

type allocations struct{ l *library }

func (a allocations) MemInfo() (free, total uint64, err error) {
	return get2[uint64, uint64](a.l, memGetInfo)
}

func (a allocations) Alloc(bytes uint64) (driver.DevicePtr, error) {
	return get[driver.DevicePtr](a.l, memAlloc, uintptr(bytes))
}

func (a allocations) Free(p driver.DevicePtr) error { return a.l.call(memFree, uintptr(p)) }

func (a allocations) AddressRange(p driver.DevicePtr) (driver.DevicePtr, uint64, error) {
	return get2[driver.DevicePtr, uint64](a.l, memGetAddressRange, uintptr(p))
}

// PointerAttribute returns 64 bits: the driver writes 32 or 64 of them, and the rest
// stays zero.
func (a allocations) PointerAttribute(p driver.DevicePtr, at driver.PointerAttribute) (uint64, error) {
	return get[uint64](a.l, pointerGetAttribute, uintptr(at), uintptr(p))
}

func (a allocations) Fill8Async(dst driver.DevicePtr, v uint8, n uint64, s driver.Stream) error {
	return a.l.call(memsetD8Async, uintptr(dst), uintptr(v), uintptr(n), uintptr(s))
}

func (a allocations) Fill32Async(dst driver.DevicePtr, v uint32, n uint64, s driver.Stream) error {
	return a.l.call(memsetD32Async, uintptr(dst), uintptr(v), uintptr(n), uintptr(s))
}
