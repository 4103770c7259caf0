package dlopen

import (
	"unsafe"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

type copies struct{ l *library }

func (c copies) CopyHtoD(dst driver.DevicePtr, src []byte) error {
	return c.l.call(memcpyHtoD, uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)))
}

func (c copies) CopyDtoH(dst []byte, src driver.DevicePtr) error {
	return c.l.call(memcpyDtoH, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), uintptr(len(dst)))
}

func (c copies) CopyDtoD(dst, src driver.DevicePtr, bytes uint64) error {
	return c.l.call(memcpyDtoD, uintptr(dst), uintptr(src), uintptr(bytes))
}

func (c copies) CopyHtoDAsync(dst driver.DevicePtr, src []byte, s driver.Stream) error {
	return c.l.call(memcpyHtoDAsync, uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)), uintptr(s))
}

func (c copies) CopyDtoHAsync(dst []byte, src driver.DevicePtr, s driver.Stream) error {
	return c.l.call(memcpyDtoHAsync, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), uintptr(len(dst)), uintptr(s))
}

func (c copies) CopyDtoDAsync(dst, src driver.DevicePtr, bytes uint64, s driver.Stream) error {
	return c.l.call(memcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
}

func (c copies) CopyPeerAsync(dst driver.DevicePtr, to driver.Context, src driver.DevicePtr, from driver.Context, bytes uint64, s driver.Stream) error {
	return c.l.call(memcpyPeerAsync, uintptr(dst), uintptr(to), uintptr(src), uintptr(from), uintptr(bytes), uintptr(s))
}

func (c copies) Copy2D(p *driver.Copy2D) error {
	m, err := newMemcpy2D(memcpy2D, p)
	if err != nil {
		return err
	}
	return c.l.call(memcpy2D, uintptr(unsafe.Pointer(m)))
}

func (c copies) Copy2DAsync(p *driver.Copy2D, s driver.Stream) error {
	m, err := newMemcpy2D(memcpy2DAsync, p)
	if err != nil {
		return err
	}
	return c.l.call(memcpy2DAsync, uintptr(unsafe.Pointer(m)), uintptr(s))
}

// side is a half of CUDA_MEMCPY2D. Its host is a pointer, so that the collector sees it.
type side struct {
	xInBytes, y uint64
	memoryType  uint32
	_           uint32
	host        unsafe.Pointer
	device      uint64
	array       uintptr
	pitch       uint64
}

// memcpy2DParams is CUDA_MEMCPY2D.
type memcpy2DParams struct {
	src, dst      side
	width, height uint64
}

var _ = [1]struct{}{}[128-unsafe.Sizeof(memcpy2DParams{})]

const (
	memoryHost   = 1
	memoryDevice = 2
)

func newMemcpy2D(f symbol, c *driver.Copy2D) (*memcpy2DParams, error) {
	if err := c.Check(); err != nil {
		return nil, &driver.Error{Call: symbols[f], Result: driver.InvalidValue, Detail: err.Error()}
	}
	src, dst := newSide(c.SrcHost, c.SrcDevice, c.SrcPitch), newSide(c.DstHost, c.DstDevice, c.DstPitch)
	return &memcpy2DParams{src, dst, uint64(c.Width), uint64(c.Height)}, nil
}

func newSide(host []byte, dev driver.DevicePtr, pitch int) side {
	if host == nil {
		return side{memoryType: memoryDevice, device: uint64(dev), pitch: uint64(pitch)}
	}
	return side{memoryType: memoryHost, host: unsafe.Pointer(unsafe.SliceData(host)), pitch: uint64(pitch)}
}
