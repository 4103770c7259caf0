//go:build cgo

package gorgonia

import (
	"errors"
	"reflect"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// Driver is driver.API over the library that the program is linked with.
type Driver struct {
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

var _ driver.API = Driver{}

// The groups of driver.API. Each holds the methods that call package cu here, and those
// that package cu lacks in call_unsafe.go.
type (
	devices       struct{}
	contexts      struct{}
	allocations   struct{}
	copies        struct{}
	hostMemory    struct{}
	streams       struct{}
	events        struct{}
	ipc           struct{}
	modules       struct{}
	graphs        struct{}
	virtualMemory struct{}
)

// wrap returns an error of package cu, whose type is not exported, as a *driver.Error.
func wrap(call string, err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if v := reflect.ValueOf(e); v.Kind() == reflect.Int {
			return &driver.Error{Call: call, Result: driver.Result(v.Int())}
		}
	}
	return err
}

// ready turns the error of a query into an answer.
func ready(err error) (bool, error) {
	if errors.Is(err, driver.NotReady) {
		return false, nil
	}
	return err == nil, err
}

// Init does nothing: package cu called cuInit when it was imported.
func (Driver) Init() error { return nil }

func (Driver) Version() (int, error) {
	if v := cu.Version(); v >= 0 {
		return v, nil
	}
	return 0, &driver.Error{Call: "cuDriverGetVersion", Result: driver.NotInitialized}
}

func (devices) DeviceCount() (int, error) {
	n, err := cu.NumDevices()
	return n, wrap("cuDeviceGetCount", err)
}

func (devices) DeviceGet(ordinal int) (driver.Device, error) {
	d, err := cu.GetDevice(ordinal)
	return driver.Device(d), wrap("cuDeviceGet", err)
}

func (devices) DeviceName(d driver.Device) (string, error) {
	s, err := cu.Device(d).Name()
	return s, wrap("cuDeviceGetName", err)
}

func (devices) DeviceMemory(d driver.Device) (uint64, error) {
	n, err := cu.Device(d).TotalMem()
	return uint64(n), wrap("cuDeviceTotalMem_v2", err)
}

func (devices) DeviceAttribute(d driver.Device, a driver.DeviceAttribute) (int, error) {
	v, err := cu.Device(d).Attribute(cu.DeviceAttribute(a))
	return v, wrap("cuDeviceGetAttribute", err)
}

func (devices) PrimaryRetain(d driver.Device) (driver.Context, error) {
	c, err := cu.Device(d).RetainPrimaryCtx()
	return as[driver.Context](c), wrap("cuDevicePrimaryCtxRetain", err)
}

func (devices) PrimaryRelease(d driver.Device) error {
	return wrap("cuDevicePrimaryCtxRelease_v2", cu.Device(d).ReleasePrimaryCtx())
}

func (devices) PrimaryState(d driver.Device) (uint32, bool, error) {
	flags, active, err := cu.Device(d).PrimaryCtxState()
	return uint32(flags), active != 0, wrap("cuDevicePrimaryCtxGetState", err)
}

func (contexts) SetCurrent(c driver.Context) error {
	return wrap("cuCtxSetCurrent", cu.SetCurrentContext(as[cu.CUContext](c)))
}

func (contexts) Current() (driver.Context, error) {
	c, err := cu.CurrentContext()
	return as[driver.Context](c), wrap("cuCtxGetCurrent", err)
}

func (contexts) CurrentDevice() (driver.Device, error) {
	d, err := cu.CurrentDevice()
	return driver.Device(d), wrap("cuCtxGetDevice", err)
}

func (contexts) Synchronize() error { return wrap("cuCtxSynchronize", cu.Synchronize()) }

func (contexts) StreamPriorityRange() (least, greatest int, err error) {
	least, greatest, err = cu.StreamPriorityRange()
	return least, greatest, wrap("cuCtxGetStreamPriorityRange", err)
}

func (allocations) MemInfo() (free, total uint64, err error) {
	f, t, err := cu.MemInfo()
	return uint64(f), uint64(t), wrap("cuMemGetInfo_v2", err)
}

func (allocations) Alloc(bytes uint64) (driver.DevicePtr, error) {
	p, err := cu.MemAlloc(int64(bytes))
	return driver.DevicePtr(p), wrap("cuMemAlloc_v2", err)
}

func (allocations) Free(p driver.DevicePtr) error {
	return wrap("cuMemFree_v2", cu.MemFree(cu.DevicePtr(p)))
}

func (allocations) AddressRange(p driver.DevicePtr) (driver.DevicePtr, uint64, error) {
	n, base, err := cu.DevicePtr(p).AddressRange()
	return driver.DevicePtr(base), uint64(n), wrap("cuMemGetAddressRange_v2", err)
}

func (allocations) Fill8Async(dst driver.DevicePtr, v uint8, n uint64, s driver.Stream) error {
	return wrap("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(dst), v, int64(n), as[cu.Stream](s)))
}

func (allocations) Fill32Async(dst driver.DevicePtr, v uint32, n uint64, s driver.Stream) error {
	return wrap("cuMemsetD32Async", cu.MemsetD32Async(cu.DevicePtr(dst), uint(v), int64(n), as[cu.Stream](s)))
}

func (copies) CopyHtoD(dst driver.DevicePtr, src []byte) error {
	return wrap("cuMemcpyHtoD_v2", cu.MemcpyHtoD(cu.DevicePtr(dst), at(src), int64(len(src))))
}

func (copies) CopyDtoH(dst []byte, src driver.DevicePtr) error {
	return wrap("cuMemcpyDtoH_v2", cu.MemcpyDtoH(at(dst), cu.DevicePtr(src), int64(len(dst))))
}

func (copies) CopyDtoD(dst, src driver.DevicePtr, bytes uint64) error {
	return wrap("cuMemcpyDtoD_v2", cu.MemcpyDtoD(cu.DevicePtr(dst), cu.DevicePtr(src), int64(bytes)))
}

func (copies) CopyHtoDAsync(dst driver.DevicePtr, src []byte, s driver.Stream) error {
	return wrap("cuMemcpyHtoDAsync_v2", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), at(src), int64(len(src)), as[cu.Stream](s)))
}

func (copies) CopyDtoHAsync(dst []byte, src driver.DevicePtr, s driver.Stream) error {
	return wrap("cuMemcpyDtoHAsync_v2", cu.MemcpyDtoHAsync(at(dst), cu.DevicePtr(src), int64(len(dst)), as[cu.Stream](s)))
}

func (copies) CopyDtoDAsync(dst, src driver.DevicePtr, bytes uint64, s driver.Stream) error {
	return wrap("cuMemcpyDtoDAsync_v2", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), int64(bytes), as[cu.Stream](s)))
}

func (copies) CopyPeerAsync(dst driver.DevicePtr, to driver.Context, src driver.DevicePtr, from driver.Context, bytes uint64, s driver.Stream) error {
	return wrap("cuMemcpyPeerAsync", cu.MemcpyPeerAsync(cu.DevicePtr(dst), as[cu.CUContext](to),
		cu.DevicePtr(src), as[cu.CUContext](from), int64(bytes), as[cu.Stream](s)))
}

func (streams) StreamCreate(flags driver.StreamFlags, priority int) (driver.Stream, error) {
	s, err := cu.MakeStreamWithPriority(priority, cu.StreamFlags(flags))
	return as[driver.Stream](s), wrap("cuStreamCreateWithPriority", err)
}

func (streams) StreamDestroy(s driver.Stream) error {
	st := as[cu.Stream](s)
	return wrap("cuStreamDestroy_v2", st.Destroy())
}

func (streams) StreamSynchronize(s driver.Stream) error {
	return wrap("cuStreamSynchronize", as[cu.Stream](s).Synchronize())
}

func (streams) StreamQuery(s driver.Stream) (bool, error) {
	return ready(wrap("cuStreamQuery", as[cu.Stream](s).Query()))
}

func (streams) StreamWaitEvent(s driver.Stream, e driver.Event) error {
	return wrap("cuStreamWaitEvent", as[cu.Stream](s).Wait(as[cu.Event](e), 0))
}

func (events) EventCreate(flags driver.EventFlags) (driver.Event, error) {
	e, err := cu.MakeEvent(cu.EventFlags(flags))
	return as[driver.Event](e), wrap("cuEventCreate", err)
}

func (events) EventDestroy(e driver.Event) error {
	ev := as[cu.Event](e)
	return wrap("cuEventDestroy_v2", cu.DestroyEvent(&ev))
}

func (events) EventRecord(e driver.Event, s driver.Stream) error {
	return wrap("cuEventRecord", as[cu.Event](e).Record(as[cu.Stream](s)))
}

func (events) EventQuery(e driver.Event) (bool, error) {
	return ready(wrap("cuEventQuery", as[cu.Event](e).Query()))
}

func (events) EventSynchronize(e driver.Event) error {
	return wrap("cuEventSynchronize", as[cu.Event](e).Synchronize())
}

func (modules) ModuleFunction(m driver.Module, name string) (driver.Function, error) {
	f, err := as[cu.Module](m).Function(name)
	return as[driver.Function](f), wrap("cuModuleGetFunction", err)
}

func (modules) ModuleGlobal(m driver.Module, name string) (driver.DevicePtr, uint64, error) {
	p, n, err := as[cu.Module](m).Global(name)
	return driver.DevicePtr(p), uint64(n), wrap("cuModuleGetGlobal_v2", err)
}

func (modules) FunctionAttribute(f driver.Function, a driver.FunctionAttribute) (int, error) {
	v, err := as[cu.Function](f).Attribute(cu.FunctionAttribute(a))
	return v, wrap("cuFuncGetAttribute", err)
}

func (modules) FunctionBlocks(f driver.Function, threads int, shared uint64) (int, error) {
	n, err := as[cu.Function](f).MaxActiveBlocksPerMultiProcessor(threads, int64(shared))
	return n, wrap("cuOccupancyMaxActiveBlocksPerMultiprocessor", err)
}

// Launch passes each parameter in 8 bytes, which is as many as package cu reads.
func (modules) Launch(f driver.Function, l driver.Launch, a *driver.Args) error {
	values := a.Values()
	params := make([]unsafe.Pointer, len(values))
	for i := range values {
		params[i] = unsafe.Pointer(&values[i])
	}
	return wrap("cuLaunchKernel", as[cu.Function](f).Launch(int(l.Grid[0]), int(l.Grid[1]), int(l.Grid[2]),
		int(l.Block[0]), int(l.Block[1]), int(l.Block[2]), int(l.Shared), as[cu.Stream](l.Stream), params))
}
