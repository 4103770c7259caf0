//go:build cgo

package gorgonia

// #cgo LDFLAGS: -lcuda
// #include "calls.h"
import "C"

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// as returns a handle as another type of the same 8 bytes.
func as[T, U any](v U) T {
	var t T
	if unsafe.Sizeof(t) != unsafe.Sizeof(v) {
		panic("handles of different sizes")
	}
	return *(*T)(unsafe.Pointer(&v))
}

// at returns where b begins.
func at(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// call calls the function f, whose name is for errors. An argument that is a Go pointer
// must be converted to uintptr in the argument list itself.
//
//go:uintptrescapes
func call(name string, f unsafe.Pointer, args ...uintptr) error {
	var a [6]C.uint64_t
	for i, v := range args {
		a[i] = C.uint64_t(v)
	}
	return result(name, C.call(f, &a[0]))
}

func result(name string, r C.int) error {
	if r == 0 {
		return nil
	}
	return &driver.Error{Call: name, Result: driver.Result(r)}
}

func (devices) DeviceUUID(d driver.Device) (driver.UUID, error) {
	u := new(driver.UUID)
	err := call("cuDeviceGetUuid_v2", C.cuDeviceGetUuid_v2, uintptr(unsafe.Pointer(u)), uintptr(d))
	return *u, err
}

func (devices) DevicePCIBus(d driver.Device) (string, error) {
	b := make([]byte, 64)
	err := call("cuDeviceGetPCIBusId", C.cuDeviceGetPCIBusId, uintptr(at(b)), uintptr(len(b)), uintptr(d))
	return text(b), err
}

// text returns the C string in b.
func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}

func (devices) DeviceCanAccessPeer(d, peer driver.Device) (bool, error) {
	v := new(int32)
	err := call("cuDeviceCanAccessPeer", C.cuDeviceCanAccessPeer, uintptr(unsafe.Pointer(v)), uintptr(d), uintptr(peer))
	return *v != 0, err
}

func (contexts) EnablePeer(c driver.Context) error {
	return call("cuCtxEnablePeerAccess", C.cuCtxEnablePeerAccess, uintptr(c), 0)
}

func (contexts) DisablePeer(c driver.Context) error {
	return call("cuCtxDisablePeerAccess", C.cuCtxDisablePeerAccess, uintptr(c))
}

func (allocations) PointerAttribute(p driver.DevicePtr, a driver.PointerAttribute) (uint64, error) {
	v := new(uint64)
	err := call("cuPointerGetAttribute", C.cuPointerGetAttribute, uintptr(unsafe.Pointer(v)), uintptr(a), uintptr(p))
	return *v, err
}

// Copy2D is here because package cu follows a nil pointer where no array is copied.
func (copies) Copy2D(c *driver.Copy2D) error {
	return copy2D("cuMemcpy2D_v2", C.cuMemcpy2D_v2, c, 0)
}

func (copies) Copy2DAsync(c *driver.Copy2D, s driver.Stream) error {
	return copy2D("cuMemcpy2DAsync_v2", C.cuMemcpy2DAsync_v2, c, s)
}

func copy2D(name string, f unsafe.Pointer, c *driver.Copy2D, s driver.Stream) error {
	if err := c.Check(); err != nil {
		return &driver.Error{Call: name, Result: driver.InvalidValue, Detail: err.Error()}
	}
	var pin runtime.Pinner // p holds the host's addresses as integers
	defer pin.Unpin()
	side := func(host []byte, d driver.DevicePtr, pitch int) [7]uint64 {
		if host == nil {
			return [7]uint64{0, 0, uint64(cu.DeviceMemory), 0, uint64(d), 0, uint64(pitch)}
		}
		pin.Pin(unsafe.SliceData(host))
		return [7]uint64{0, 0, uint64(cu.HostMemory), uint64(uintptr(at(host))), 0, 0, uint64(pitch)}
	}
	p := &struct { // CUDA_MEMCPY2D: x, y, kind, host, device, array, pitch of each side
		src, dst      [7]uint64
		width, height uint64
	}{
		side(c.SrcHost, c.SrcDevice, c.SrcPitch), side(c.DstHost, c.DstDevice, c.DstPitch),
		uint64(c.Width), uint64(c.Height),
	}
	return call(name, f, uintptr(unsafe.Pointer(p)), uintptr(s))
}

func (hostMemory) HostAlloc(n int, flags driver.HostFlags) ([]byte, error) {
	p := new(unsafe.Pointer)
	if err := call("cuMemHostAlloc", C.cuMemHostAlloc, uintptr(unsafe.Pointer(p)), uintptr(n), uintptr(flags)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(*p), n), nil
}

func (hostMemory) HostFree(b []byte) error {
	return call("cuMemFreeHost", C.cuMemFreeHost, uintptr(at(b)))
}

func (hostMemory) HostRegister(b []byte, flags driver.HostFlags) error {
	return call("cuMemHostRegister_v2", C.cuMemHostRegister_v2, uintptr(at(b)), uintptr(len(b)), uintptr(flags))
}

func (hostMemory) HostUnregister(b []byte) error {
	return call("cuMemHostUnregister", C.cuMemHostUnregister, uintptr(at(b)))
}

func (hostMemory) HostDevicePointer(b []byte) (driver.DevicePtr, error) {
	p := new(driver.DevicePtr)
	err := call("cuMemHostGetDevicePointer_v2", C.cuMemHostGetDevicePointer_v2, uintptr(unsafe.Pointer(p)), uintptr(at(b)), 0)
	return *p, err
}

func (hostMemory) HostFlags(b []byte) (driver.HostFlags, error) {
	f := new(driver.HostFlags)
	err := call("cuMemHostGetFlags", C.cuMemHostGetFlags, uintptr(unsafe.Pointer(f)), uintptr(at(b)))
	return *f, err
}

func (streams) StreamWriteValue32(s driver.Stream, p driver.DevicePtr, v uint32) error {
	return call("cuStreamWriteValue32_v2", C.cuStreamWriteValue32_v2, uintptr(s), uintptr(p), uintptr(v), 0)
}

func (streams) StreamWaitValue32(s driver.Stream, p driver.DevicePtr, v uint32) error {
	const greaterOrEqual = 0
	return call("cuStreamWaitValue32_v2", C.cuStreamWaitValue32_v2, uintptr(s), uintptr(p), uintptr(v), greaterOrEqual)
}

func (events) EventElapsed(start, end driver.Event) (float32, error) {
	ms := new(float32)
	err := call("cuEventElapsedTime", C.cuEventElapsedTime, uintptr(unsafe.Pointer(ms)), uintptr(start), uintptr(end))
	return *ms, err
}

func (ipc) IPCGetMemory(p driver.DevicePtr) (driver.IPCHandle, error) {
	h := new(driver.IPCHandle)
	err := call("cuIpcGetMemHandle", C.cuIpcGetMemHandle, uintptr(unsafe.Pointer(h)), uintptr(p))
	return *h, err
}

func (ipc) IPCOpenMemory(h driver.IPCHandle) (driver.DevicePtr, error) {
	var p C.uint64_t
	err := result("cuIpcOpenMemHandle_v2", C.open_memory(&p, (*C.Handle)(unsafe.Pointer(&h))))
	return driver.DevicePtr(p), err
}

func (ipc) IPCCloseMemory(p driver.DevicePtr) error {
	return call("cuIpcCloseMemHandle", C.cuIpcCloseMemHandle, uintptr(p))
}

func (ipc) IPCGetEvent(e driver.Event) (driver.IPCHandle, error) {
	h := new(driver.IPCHandle)
	err := call("cuIpcGetEventHandle", C.cuIpcGetEventHandle, uintptr(unsafe.Pointer(h)), uintptr(e))
	return *h, err
}

func (ipc) IPCOpenEvent(h driver.IPCHandle) (driver.Event, error) {
	var e C.uint64_t
	err := result("cuIpcOpenEventHandle", C.open_event(&e, (*C.Handle)(unsafe.Pointer(&h))))
	return driver.Event(e), err
}

// ModuleLoad is here because package cu drops the compiler's log.
func (modules) ModuleLoad(ptx string) (driver.Module, error) {
	const errorLog, errorLogBytes = 5, 6 // of CUjit_option
	image, log, m := append([]byte(ptx), 0), make([]byte, 8<<10), new(driver.Module)
	var pin runtime.Pinner // values holds the log's address as an integer
	pin.Pin(at(log))
	defer pin.Unpin()
	options, values := &[2]int32{errorLog, errorLogBytes}, &[2]uintptr{uintptr(at(log)), uintptr(len(log))}
	err := call("cuModuleLoadDataEx", C.cuModuleLoadDataEx, uintptr(unsafe.Pointer(m)), uintptr(at(image)),
		uintptr(len(options)), uintptr(unsafe.Pointer(options)), uintptr(unsafe.Pointer(values)))
	var e *driver.Error
	if errors.As(err, &e) {
		e.Detail = strings.TrimSpace(text(log))
	}
	return *m, err
}

func (modules) ModuleUnload(m driver.Module) error {
	return call("cuModuleUnload", C.cuModuleUnload, uintptr(m))
}

func (modules) SetFunctionAttribute(f driver.Function, a driver.FunctionAttribute, v int) error {
	return call("cuFuncSetAttribute", C.cuFuncSetAttribute, uintptr(f), uintptr(a), uintptr(v))
}

func (graphs) CaptureBegin(s driver.Stream, m driver.CaptureMode) error {
	return call("cuStreamBeginCapture_v2", C.cuStreamBeginCapture_v2, uintptr(s), uintptr(m))
}

func (graphs) CaptureEnd(s driver.Stream) (driver.Graph, error) {
	g := new(driver.Graph)
	err := call("cuStreamEndCapture", C.cuStreamEndCapture, uintptr(s), uintptr(unsafe.Pointer(g)))
	return *g, err
}

func (graphs) Capturing(s driver.Stream) (bool, error) {
	status := new(int32)
	err := call("cuStreamIsCapturing", C.cuStreamIsCapturing, uintptr(s), uintptr(unsafe.Pointer(status)))
	return *status != 0, err
}

func (graphs) GraphNodes(g driver.Graph) (int, error) {
	n := new(uint64)
	err := call("cuGraphGetNodes", C.cuGraphGetNodes, uintptr(g), 0, uintptr(unsafe.Pointer(n)))
	return int(*n), err
}

func (graphs) GraphInstantiate(g driver.Graph) (driver.GraphExec, error) {
	x := new(driver.GraphExec)
	err := call("cuGraphInstantiateWithFlags", C.cuGraphInstantiateWithFlags, uintptr(unsafe.Pointer(x)), uintptr(g), 0)
	return *x, err
}

func (graphs) GraphUpdate(x driver.GraphExec, g driver.Graph) error {
	info := new([3]uint64) // CUgraphExecUpdateResultInfo
	return call("cuGraphExecUpdate_v2", C.cuGraphExecUpdate_v2, uintptr(x), uintptr(g), uintptr(unsafe.Pointer(info)))
}

func (graphs) GraphUpload(x driver.GraphExec, s driver.Stream) error {
	return call("cuGraphUpload", C.cuGraphUpload, uintptr(x), uintptr(s))
}

func (graphs) GraphLaunch(x driver.GraphExec, s driver.Stream) error {
	return call("cuGraphLaunch", C.cuGraphLaunch, uintptr(x), uintptr(s))
}

func (graphs) GraphExecDestroy(x driver.GraphExec) error {
	return call("cuGraphExecDestroy", C.cuGraphExecDestroy, uintptr(x))
}

func (graphs) GraphDestroy(g driver.Graph) error {
	return call("cuGraphDestroy", C.cuGraphDestroy, uintptr(g))
}

// Numbers of cuda.h for memory of a device with a descriptor.
const (
	pinned     = 1
	descriptor = 1
	onDevice   = 1
)

// prop returns CUmemAllocationProp: kind, kind of handle, kind and number of the place.
func prop(d driver.Device) *[8]int32 { return &[8]int32{pinned, descriptor, onDevice, int32(d)} }

func (virtualMemory) VirtualGranularity(d driver.Device) (uint64, error) {
	n := new(uint64)
	err := call("cuMemGetAllocationGranularity", C.cuMemGetAllocationGranularity, uintptr(unsafe.Pointer(n)), uintptr(unsafe.Pointer(prop(d))), 0)
	return *n, err
}

func (virtualMemory) VirtualCreate(d driver.Device, n uint64) (driver.Memory, error) {
	m := new(driver.Memory)
	err := call("cuMemCreate", C.cuMemCreate, uintptr(unsafe.Pointer(m)), uintptr(n), uintptr(unsafe.Pointer(prop(d))), 0)
	return *m, err
}

func (virtualMemory) VirtualRelease(m driver.Memory) error {
	return call("cuMemRelease", C.cuMemRelease, uintptr(m))
}

func (virtualMemory) VirtualExport(m driver.Memory) (int, error) {
	fd := new(int32)
	err := call("cuMemExportToShareableHandle", C.cuMemExportToShareableHandle, uintptr(unsafe.Pointer(fd)), uintptr(m), descriptor, 0)
	return int(*fd), err
}

func (virtualMemory) VirtualImport(fd int) (driver.Memory, error) {
	m := new(driver.Memory)
	err := call("cuMemImportFromShareableHandle", C.cuMemImportFromShareableHandle, uintptr(unsafe.Pointer(m)), uintptr(fd), descriptor)
	return *m, err
}

func (virtualMemory) VirtualReserve(n uint64) (driver.DevicePtr, error) {
	p := new(driver.DevicePtr)
	err := call("cuMemAddressReserve", C.cuMemAddressReserve, uintptr(unsafe.Pointer(p)), uintptr(n), 0, 0, 0)
	return *p, err
}

func (virtualMemory) VirtualFree(p driver.DevicePtr, n uint64) error {
	return call("cuMemAddressFree", C.cuMemAddressFree, uintptr(p), uintptr(n))
}

func (virtualMemory) VirtualMap(p driver.DevicePtr, n uint64, m driver.Memory) error {
	return call("cuMemMap", C.cuMemMap, uintptr(p), uintptr(n), 0, uintptr(m), 0)
}

func (virtualMemory) VirtualUnmap(p driver.DevicePtr, n uint64) error {
	return call("cuMemUnmap", C.cuMemUnmap, uintptr(p), uintptr(n))
}

func (virtualMemory) VirtualAccess(p driver.DevicePtr, n uint64, d driver.Device, a driver.Access) error {
	desc := &[3]int32{onDevice, int32(d), int32(a)} // CUmemAccessDesc
	return call("cuMemSetAccess", C.cuMemSetAccess, uintptr(p), uintptr(n), uintptr(unsafe.Pointer(desc)), 1)
}
