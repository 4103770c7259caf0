package dlopen

import (
	"bytes"
	"unsafe"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

type devices struct{ l *library }

func (d devices) DeviceCount() (int, error) {
	n, err := get[int32](d.l, deviceGetCount)
	return int(n), err
}

func (d devices) DeviceGet(ordinal int) (driver.Device, error) {
	return get[driver.Device](d.l, deviceGet, uintptr(ordinal))
}

func (d devices) DeviceName(dev driver.Device) (string, error) {
	return d.text(deviceGetName, dev)
}

func (d devices) DevicePCIBus(dev driver.Device) (string, error) {
	return d.text(deviceGetPCIBusID, dev)
}

// text calls a function that fills a buffer with a C string.
func (d devices) text(f symbol, dev driver.Device) (string, error) {
	b := new([256]byte)
	err := d.l.call(f, uintptr(unsafe.Pointer(b)), uintptr(len(b)), uintptr(dev))
	return cstring(b[:]), err
}

func cstring(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

func (d devices) DeviceMemory(dev driver.Device) (uint64, error) {
	return get[uint64](d.l, deviceTotalMem, uintptr(dev))
}

func (d devices) DeviceAttribute(dev driver.Device, a driver.DeviceAttribute) (int, error) {
	v, err := get[int32](d.l, deviceGetAttribute, uintptr(a), uintptr(dev))
	return int(v), err
}

func (d devices) DeviceUUID(dev driver.Device) (driver.UUID, error) {
	return get[driver.UUID](d.l, deviceGetUUID, uintptr(dev))
}

func (d devices) DeviceCanAccessPeer(dev, peer driver.Device) (bool, error) {
	v, err := get[int32](d.l, deviceCanAccessPeer, uintptr(dev), uintptr(peer))
	return v != 0, err
}

func (d devices) PrimaryRetain(dev driver.Device) (driver.Context, error) {
	return get[driver.Context](d.l, primaryRetain, uintptr(dev))
}

func (d devices) PrimaryRelease(dev driver.Device) error {
	return d.l.call(primaryRelease, uintptr(dev))
}

func (d devices) PrimaryState(dev driver.Device) (uint32, bool, error) {
	flags, active := new(uint32), new(int32)
	err := d.l.call(primaryGetState, uintptr(dev), uintptr(unsafe.Pointer(flags)), uintptr(unsafe.Pointer(active)))
	return *flags, *active != 0, err
}
