package driver

import "fmt"

// Handles of the driver. The zero value of each is none; as a Stream it is the legacy
// stream, which waits for all blocking streams of its context.
type (
	Device    int32
	Context   uintptr
	Stream    uintptr
	Event     uintptr
	Module    uintptr
	Function  uintptr
	Graph     uintptr
	GraphExec uintptr
	Memory    uint64 // physical memory of VirtualMemory
)

// DevicePtr is an address in a device's memory. The host can't follow it.
type DevicePtr uint64

// IPCHandle is a CUipcMemHandle or CUipcEventHandle: 64 bytes that name an allocation or
// an event in other processes of this host. It is a capability: a process that has the
// bytes can write the memory.
type IPCHandle [64]byte

// UUID identifies a device on all hosts.
type UUID [16]byte

// DeviceAttribute is a CUdevice_attribute.
type DeviceAttribute int32

// Attributes of devices that package cuda asks for. The numbers are the driver's.
const (
	MaxThreadsPerBlock         DeviceAttribute = 1
	MaxSharedPerBlock          DeviceAttribute = 8
	WarpSize                   DeviceAttribute = 10
	ClockRate                  DeviceAttribute = 13 // kHz
	Multiprocessors            DeviceAttribute = 16
	Integrated                 DeviceAttribute = 18
	CanMapHostMemory           DeviceAttribute = 19
	ComputeMode                DeviceAttribute = 20
	MemoryClockRate            DeviceAttribute = 36 // kHz
	MemoryBusWidth             DeviceAttribute = 37 // bits
	L2CacheSize                DeviceAttribute = 38 // bytes
	MaxThreadsPerSM            DeviceAttribute = 39
	CopyEngines                DeviceAttribute = 40
	UnifiedAddressing          DeviceAttribute = 41
	CapabilityMajor            DeviceAttribute = 75
	CapabilityMinor            DeviceAttribute = 76
	StreamPriorities           DeviceAttribute = 78
	MaxSharedPerBlockOptin     DeviceAttribute = 97
	HostRegisterSupported      DeviceAttribute = 99
	VirtualMemorySupported     DeviceAttribute = 102
	DescriptorHandlesSupported DeviceAttribute = 103
	ReadOnlyRegisterSupported  DeviceAttribute = 113
)

// StreamFlags are CUstream_flags.
type StreamFlags uint32

// StreamNonBlocking makes a stream that doesn't wait for the legacy stream.
const StreamNonBlocking StreamFlags = 1

// EventFlags are CUevent_flags.
type EventFlags uint32

// Flags of events.
const (
	EventBlockingSync  EventFlags = 1 // EventSynchronize sleeps instead of spinning
	EventDisableTiming EventFlags = 2
	EventInterprocess  EventFlags = 4 // needs EventDisableTiming
)

// HostFlags are flags of HostAlloc and HostRegister.
type HostFlags uint32

const (
	HostPortable      HostFlags = 1 // pinned for all contexts
	HostDeviceMap     HostFlags = 2 // the device has an address of it
	HostWriteCombined HostFlags = 4 // HostAlloc alone: slow for the host to read
	HostReadOnly      HostFlags = 8 // HostRegister alone: the device only reads it
)

// Copy2D is a copy of Height rows of Width bytes. Of each side one of Host and Device is
// set. A pitch is the distance between the beginnings of rows, in bytes.
type Copy2D struct {
	SrcHost   []byte
	SrcDevice DevicePtr
	SrcPitch  int
	DstHost   []byte
	DstDevice DevicePtr
	DstPitch  int
	Width     int
	Height    int
}

// Check returns an error if the sizes make no sense, or a host side can't hold all rows:
// the driver doesn't know how long it is.
func (c *Copy2D) Check() error {
	if err := c.checkSide(c.SrcHost, c.SrcDevice, c.SrcPitch); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if err := c.checkSide(c.DstHost, c.DstDevice, c.DstPitch); err != nil {
		return fmt.Errorf("destination: %w", err)
	}
	return nil
}

func (c *Copy2D) checkSide(host []byte, dev DevicePtr, pitch int) error {
	switch {
	case c.Width < 0 || c.Height < 0 || pitch < c.Width:
		return fmt.Errorf("%d rows of %d bytes, %d apart", c.Height, c.Width, pitch)
	case host == nil:
		return nil
	case dev != 0:
		return fmt.Errorf("both of host and device are set")
	case c.Height > 0 && (len(host) < c.Width || pitch > 0 && (len(host)-c.Width)/pitch < c.Height-1):
		return fmt.Errorf("%d bytes can't hold %d rows of %d bytes, %d apart", len(host), c.Height, c.Width, pitch)
	}
	return nil
}

// Launch is the geometry of a kernel and where it runs.
type Launch struct {
	Grid, Block [3]uint32
	Shared      uint32 // dynamic shared memory of a block, in bytes
	Stream      Stream
}

// FunctionAttribute is a CUfunction_attribute.
type FunctionAttribute int32

// Attributes of functions.
const (
	FunctionMaxThreads       FunctionAttribute = 0
	FunctionStaticShared     FunctionAttribute = 1
	FunctionLocalBytes       FunctionAttribute = 3
	FunctionRegisters        FunctionAttribute = 4
	FunctionMaxDynamicShared FunctionAttribute = 8 // may be set
)

// PointerAttribute is a CUpointer_attribute whose value is a number.
type PointerAttribute int32

// Attributes of pointers.
const (
	PointerContext       PointerAttribute = 1
	PointerMemoryType    PointerAttribute = 2 // 1 host, 2 device
	PointerDevicePointer PointerAttribute = 3
	PointerHostPointer   PointerAttribute = 4
	PointerBufferID      PointerAttribute = 7 // of an allocation, never used twice
	PointerDeviceOrdinal PointerAttribute = 9
	PointerIPCCapable    PointerAttribute = 10 // of legacy handles
	PointerRangeStart    PointerAttribute = 11
	PointerRangeSize     PointerAttribute = 12
)

// CaptureMode is a CUstreamCaptureMode: which calls of which threads end a capture with
// an error.
type CaptureMode int32

// Modes of capture.
const (
	CaptureGlobal      CaptureMode = 0
	CaptureThreadLocal CaptureMode = 1
	CaptureRelaxed     CaptureMode = 2
)

// Access is what a device may do with mapped virtual memory.
type Access int32

// Kinds of access.
const (
	AccessRead      Access = 1
	AccessReadWrite Access = 3
)
