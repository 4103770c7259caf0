package dlopen

import (
	"unsafe"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

type virtualMemory struct{ l *library }

// location is CUmemLocation.
type location struct{ kind, id int32 }

// allocationProp is CUmemAllocationProp.
type allocationProp struct {
	kind     int32
	handles  int32
	location location
	windows  uintptr
	flags    [8]byte
}

// accessDesc is CUmemAccessDesc.
type accessDesc struct {
	location location
	access   driver.Access
}

var (
	_ = [1]struct{}{}[32-unsafe.Sizeof(allocationProp{})]
	_ = [1]struct{}{}[12-unsafe.Sizeof(accessDesc{})]
)

const (
	kindPinned       = 1 // the only kind of allocation
	handleDescriptor = 1 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	locationDevice   = 1
)

func propOf(d driver.Device) *allocationProp {
	return &allocationProp{kind: kindPinned, handles: handleDescriptor, location: location{locationDevice, int32(d)}}
}

func (v virtualMemory) VirtualGranularity(d driver.Device) (uint64, error) {
	const minimum = 0
	n := new(uint64)
	err := v.l.call(memGetAllocationGranularity, uintptr(unsafe.Pointer(n)), uintptr(unsafe.Pointer(propOf(d))), minimum)
	return *n, err
}

func (v virtualMemory) VirtualCreate(d driver.Device, bytes uint64) (driver.Memory, error) {
	m := new(driver.Memory)
	err := v.l.call(memCreate, uintptr(unsafe.Pointer(m)), uintptr(bytes), uintptr(unsafe.Pointer(propOf(d))), 0)
	return *m, err
}

func (v virtualMemory) VirtualRelease(m driver.Memory) error {
	return v.l.call(memRelease, uintptr(m))
}

func (v virtualMemory) VirtualExport(m driver.Memory) (int, error) {
	fd, err := get[int32](v.l, memExportToShareableHandle, uintptr(m), handleDescriptor, 0)
	return int(fd), err
}

func (v virtualMemory) VirtualImport(fd int) (driver.Memory, error) {
	return get[driver.Memory](v.l, memImportFromShareableHandle, uintptr(fd), handleDescriptor)
}

func (v virtualMemory) VirtualReserve(bytes uint64) (driver.DevicePtr, error) {
	return get[driver.DevicePtr](v.l, memAddressReserve, uintptr(bytes))
}

func (v virtualMemory) VirtualFree(p driver.DevicePtr, bytes uint64) error {
	return v.l.call(memAddressFree, uintptr(p), uintptr(bytes))
}

func (v virtualMemory) VirtualMap(p driver.DevicePtr, bytes uint64, m driver.Memory) error {
	return v.l.call(memMap, uintptr(p), uintptr(bytes), 0, uintptr(m), 0)
}

func (v virtualMemory) VirtualUnmap(p driver.DevicePtr, bytes uint64) error {
	return v.l.call(memUnmap, uintptr(p), uintptr(bytes))
}

func (v virtualMemory) VirtualAccess(p driver.DevicePtr, bytes uint64, d driver.Device, a driver.Access) error {
	desc := &accessDesc{location{locationDevice, int32(d)}, a}
	return v.l.call(memSetAccess, uintptr(p), uintptr(bytes), uintptr(unsafe.Pointer(desc)), 1)
}
