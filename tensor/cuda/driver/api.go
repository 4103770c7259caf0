package driver

// API is the CUDA driver. All its methods may be called concurrently. A method returns an
// *Error or nil, unless it says otherwise.
type API interface {
	// Init must come before all other calls but Version (cuInit).
	Init() error
	// Version returns the newest CUDA version that the driver supports, as 12040 for 12.4
	// (cuDriverGetVersion).
	Version() (int, error)

	Devices
	Contexts
	Allocations
	Copies
	HostMemory
	Streams
	Events
	IPC
	Modules
	Graphs
	VirtualMemory
}

// Counted is implemented by an API that counts its calls.
type Counted interface {
	// Calls returns how many calls were made so far. SetCurrent and Current don't count:
	// they belong to the thread and reach no device. Nor do EventQuery and StreamQuery,
	// which a waiting process repeats for as long as the device computes.
	Calls() uint64

	// CallsByName returns how many calls of each C function were made so far, without
	// exceptions. Functions that were not called are left out.
	CallsByName() map[string]uint64
}

// Devices are the calls about devices. They need no context.
type Devices interface {
	// DeviceCount calls cuDeviceGetCount.
	DeviceCount() (int, error)
	// DeviceGet calls cuDeviceGet.
	DeviceGet(ordinal int) (Device, error)
	// DeviceName calls cuDeviceGetName.
	DeviceName(d Device) (string, error)
	// DeviceMemory calls cuDeviceTotalMem_v2.
	DeviceMemory(d Device) (uint64, error)
	// DeviceAttribute calls cuDeviceGetAttribute.
	DeviceAttribute(d Device, a DeviceAttribute) (int, error)
	// DeviceUUID calls cuDeviceGetUuid_v2.
	DeviceUUID(d Device) (UUID, error)
	// DevicePCIBus calls cuDeviceGetPCIBusId.
	DevicePCIBus(d Device) (string, error)
	// DeviceCanAccessPeer calls cuDeviceCanAccessPeer.
	DeviceCanAccessPeer(d, peer Device) (bool, error)
	// PrimaryRetain calls cuDevicePrimaryCtxRetain.
	PrimaryRetain(d Device) (Context, error)
	// PrimaryRelease calls cuDevicePrimaryCtxRelease_v2.
	PrimaryRelease(d Device) error
	// PrimaryState calls cuDevicePrimaryCtxGetState.
	PrimaryState(d Device) (flags uint32, active bool, err error)
}

// Contexts are the calls about the context of the calling thread. See Bind.
type Contexts interface {
	// SetCurrent calls cuCtxSetCurrent.
	SetCurrent(c Context) error
	// Current calls cuCtxGetCurrent.
	Current() (Context, error)
	// CurrentDevice calls cuCtxGetDevice.
	CurrentDevice() (Device, error)
	// Synchronize calls cuCtxSynchronize.
	Synchronize() error
	// StreamPriorityRange calls cuCtxGetStreamPriorityRange.
	StreamPriorityRange() (least, greatest int, err error)
	// EnablePeer calls cuCtxEnablePeerAccess.
	EnablePeer(peer Context) error
	// DisablePeer calls cuCtxDisablePeerAccess.
	DisablePeer(peer Context) error
}

// Allocations are the calls about a device's memory.
type Allocations interface {
	// MemInfo calls cuMemGetInfo_v2.
	MemInfo() (free, total uint64, err error)
	// Alloc calls cuMemAlloc_v2.
	Alloc(bytes uint64) (DevicePtr, error)
	// Free calls cuMemFree_v2.
	Free(p DevicePtr) error
	// AddressRange calls cuMemGetAddressRange_v2.
	AddressRange(p DevicePtr) (base DevicePtr, bytes uint64, err error)
	// PointerAttribute calls cuPointerGetAttribute.
	PointerAttribute(p DevicePtr, a PointerAttribute) (uint64, error)
	// Fill8Async calls cuMemsetD8Async.
	Fill8Async(dst DevicePtr, v uint8, n uint64, s Stream) error
	// Fill32Async calls cuMemsetD32Async.
	Fill32Async(dst DevicePtr, v uint32, n uint64, s Stream) error
}

// Copies are the calls that copy. Their names read as in C: H is the host, D a device.
type Copies interface {
	// CopyHtoD calls cuMemcpyHtoD_v2.
	CopyHtoD(dst DevicePtr, src []byte) error
	// CopyDtoH calls cuMemcpyDtoH_v2.
	CopyDtoH(dst []byte, src DevicePtr) error
	// CopyDtoD calls cuMemcpyDtoD_v2.
	CopyDtoD(dst, src DevicePtr, bytes uint64) error
	// CopyHtoDAsync calls cuMemcpyHtoDAsync_v2.
	CopyHtoDAsync(dst DevicePtr, src []byte, s Stream) error
	// CopyDtoHAsync calls cuMemcpyDtoHAsync_v2.
	CopyDtoHAsync(dst []byte, src DevicePtr, s Stream) error
	// CopyDtoDAsync calls cuMemcpyDtoDAsync_v2.
	CopyDtoDAsync(dst, src DevicePtr, bytes uint64, s Stream) error
	// CopyPeerAsync calls cuMemcpyPeerAsync.
	CopyPeerAsync(dst DevicePtr, to Context, src DevicePtr, from Context, bytes uint64, s Stream) error
	// Copy2D calls cuMemcpy2D_v2.
	Copy2D(c *Copy2D) error
	// Copy2DAsync calls cuMemcpy2DAsync_v2.
	Copy2DAsync(c *Copy2D, s Stream) error
}

// HostMemory are the calls about pinned memory of the host.
type HostMemory interface {
	// HostAlloc returns memory outside of the Go heap, which is pinned until HostFree.
	// It calls cuMemHostAlloc.
	HostAlloc(bytes int, flags HostFlags) ([]byte, error)
	// HostFree calls cuMemFreeHost.
	HostFree(b []byte) error
	// HostRegister pins mapped memory. The first byte must begin a page.
	// It calls cuMemHostRegister_v2.
	HostRegister(b []byte, flags HostFlags) error
	// HostUnregister calls cuMemHostUnregister.
	HostUnregister(b []byte) error
	// HostDevicePointer calls cuMemHostGetDevicePointer_v2.
	HostDevicePointer(b []byte) (DevicePtr, error)
	// HostFlags calls cuMemHostGetFlags.
	HostFlags(b []byte) (HostFlags, error)
}

// Streams are the calls about queues of work.
type Streams interface {
	// StreamCreate calls cuStreamCreateWithPriority.
	StreamCreate(flags StreamFlags, priority int) (Stream, error)
	// StreamDestroy calls cuStreamDestroy_v2.
	StreamDestroy(s Stream) error
	// StreamSynchronize calls cuStreamSynchronize.
	StreamSynchronize(s Stream) error
	// StreamQuery reports whether all work of s is done; it never returns NotReady.
	// It calls cuStreamQuery.
	StreamQuery(s Stream) (bool, error)
	// StreamWaitEvent calls cuStreamWaitEvent.
	StreamWaitEvent(s Stream, e Event) error
	// StreamWriteValue32 stores v at p when s gets there.
	// It calls cuStreamWriteValue32_v2.
	StreamWriteValue32(s Stream, p DevicePtr, v uint32) error
	// StreamWaitValue32 holds s until the value at p is v or above, as signed difference.
	// It calls cuStreamWaitValue32_v2.
	StreamWaitValue32(s Stream, p DevicePtr, v uint32) error
}

// Events are the calls about marks in streams.
type Events interface {
	// EventCreate calls cuEventCreate.
	EventCreate(flags EventFlags) (Event, error)
	// EventDestroy calls cuEventDestroy_v2.
	EventDestroy(e Event) error
	// EventRecord calls cuEventRecord.
	EventRecord(e Event, s Stream) error
	// EventQuery reports whether the work before e is done; it never returns NotReady.
	// It calls cuEventQuery.
	EventQuery(e Event) (bool, error)
	// EventSynchronize calls cuEventSynchronize.
	EventSynchronize(e Event) error
	// EventElapsed returns the milliseconds between two recorded events.
	// It calls cuEventElapsedTime.
	EventElapsed(start, end Event) (float32, error)
}

// IPC are the calls about memory and events of other processes. A handle names a whole
// allocation: the offset of a pointer inside it travels beside the handle. A process
// can't open its own handles.
type IPC interface {
	// IPCGetMemory calls cuIpcGetMemHandle.
	IPCGetMemory(p DevicePtr) (IPCHandle, error)
	// IPCOpenMemory calls cuIpcOpenMemHandle_v2, with lazy peer access.
	IPCOpenMemory(h IPCHandle) (DevicePtr, error)
	// IPCCloseMemory calls cuIpcCloseMemHandle.
	IPCCloseMemory(p DevicePtr) error
	// IPCGetEvent calls cuIpcGetEventHandle.
	IPCGetEvent(e Event) (IPCHandle, error)
	// IPCOpenEvent calls cuIpcOpenEventHandle.
	IPCOpenEvent(h IPCHandle) (Event, error)
}

// Modules are the calls about code.
type Modules interface {
	// ModuleLoad compiles PTX text for the context's device. The Error of PTX that the
	// driver refuses holds the compiler's log as Detail.
	// It calls cuModuleLoadDataEx.
	ModuleLoad(ptx string) (Module, error)
	// ModuleUnload calls cuModuleUnload.
	ModuleUnload(m Module) error
	// ModuleFunction calls cuModuleGetFunction.
	ModuleFunction(m Module, name string) (Function, error)
	// ModuleGlobal calls cuModuleGetGlobal_v2.
	ModuleGlobal(m Module, name string) (p DevicePtr, bytes uint64, err error)
	// FunctionAttribute calls cuFuncGetAttribute.
	FunctionAttribute(f Function, a FunctionAttribute) (int, error)
	// SetFunctionAttribute calls cuFuncSetAttribute.
	SetFunctionAttribute(f Function, a FunctionAttribute, v int) error
	// FunctionBlocks returns how many blocks fit a multiprocessor at once.
	// It calls cuOccupancyMaxActiveBlocksPerMultiprocessor.
	FunctionBlocks(f Function, threads int, shared uint64) (int, error)
	// Launch calls cuLaunchKernel.
	Launch(f Function, l Launch, a *Args) error
}

// Graphs are the calls about work that is recorded once and launched many times.
type Graphs interface {
	// CaptureBegin calls cuStreamBeginCapture_v2.
	CaptureBegin(s Stream, m CaptureMode) error
	// CaptureEnd calls cuStreamEndCapture.
	CaptureEnd(s Stream) (Graph, error)
	// Capturing calls cuStreamIsCapturing.
	Capturing(s Stream) (bool, error)
	// GraphNodes calls cuGraphGetNodes.
	GraphNodes(g Graph) (int, error)
	// GraphInstantiate calls cuGraphInstantiateWithFlags.
	GraphInstantiate(g Graph) (GraphExec, error)
	// GraphUpdate calls cuGraphExecUpdate_v2.
	GraphUpdate(x GraphExec, g Graph) error
	// GraphUpload calls cuGraphUpload.
	GraphUpload(x GraphExec, s Stream) error
	// GraphLaunch calls cuGraphLaunch.
	GraphLaunch(x GraphExec, s Stream) error
	// GraphExecDestroy calls cuGraphExecDestroy.
	GraphExecDestroy(x GraphExec) error
	// GraphDestroy calls cuGraphDestroy.
	GraphDestroy(g Graph) error
}

// VirtualMemory are the calls that make physical memory and map it, and hand it to other
// processes by descriptor. Sizes and offsets are multiples of the granularity.
type VirtualMemory interface {
	// VirtualGranularity calls cuMemGetAllocationGranularity.
	VirtualGranularity(d Device) (uint64, error)
	// VirtualCreate makes memory on d whose descriptor can be exported.
	// It calls cuMemCreate.
	VirtualCreate(d Device, bytes uint64) (Memory, error)
	// VirtualRelease calls cuMemRelease.
	VirtualRelease(m Memory) error
	// VirtualExport returns a new descriptor, which the caller closes.
	// It calls cuMemExportToShareableHandle.
	VirtualExport(m Memory) (fd int, err error)
	// VirtualImport calls cuMemImportFromShareableHandle.
	VirtualImport(fd int) (Memory, error)
	// VirtualReserve calls cuMemAddressReserve.
	VirtualReserve(bytes uint64) (DevicePtr, error)
	// VirtualFree calls cuMemAddressFree.
	VirtualFree(p DevicePtr, bytes uint64) error
	// VirtualMap calls cuMemMap.
	VirtualMap(p DevicePtr, bytes uint64, m Memory) error
	// VirtualUnmap calls cuMemUnmap.
	VirtualUnmap(p DevicePtr, bytes uint64) error
	// VirtualAccess calls cuMemSetAccess.
	VirtualAccess(p DevicePtr, bytes uint64, d Device, a Access) error
}
