package driver

import "fmt"

// Result is a CUresult, the code that every call of the driver returns. It is an error.
type Result int32

// The codes that code compares with. The table below holds the names of all of them.
const (
	Success               Result = 0
	InvalidValue          Result = 1
	OutOfMemory           Result = 2
	NotInitialized        Result = 3
	StubLibrary           Result = 34
	DeviceUnavailable     Result = 46
	NoDevice              Result = 100
	InvalidDevice         Result = 101
	InvalidContext        Result = 201
	MapFailed             Result = 205
	NoBinaryForGPU        Result = 209
	ECCUncorrectable      Result = 214
	PeerUnsupported       Result = 217
	InvalidPTX            Result = 218
	NVLinkUncorrectable   Result = 220
	UnsupportedPTXVersion Result = 222
	InvalidHandle         Result = 400
	IllegalState          Result = 401
	NotFound              Result = 500
	NotReady              Result = 600
	IllegalAddress        Result = 700
	LaunchTimeout         Result = 702
	PeerAlreadyEnabled    Result = 704
	PeerNotEnabled        Result = 705
	ContextDestroyed      Result = 709
	Assert                Result = 710
	AlreadyRegistered     Result = 712
	NotRegistered         Result = 713
	LaunchFailed          Result = 719
	NotPermitted          Result = 800
	NotSupported          Result = 801
	SystemNotReady        Result = 802
	DriverMismatch        Result = 803
	CompatNotSupported    Result = 804
	MPSClientTerminated   Result = 810
	CaptureUnsupported    Result = 900
	CaptureInvalidated    Result = 901
	CaptureUnmatched      Result = 903
	CaptureUnjoined       Result = 904
	CaptureIsolation      Result = 905
	CapturedEvent         Result = 907
	GraphUpdateFailed     Result = 910
	ExternalDevice        Result = 911
	Unknown               Result = 999
)

// Error is a call that failed. Is and As find its Result.
type Error struct {
	Call   string // the C function
	Result Result
	Detail string // more, such as the log of the PTX compiler; often empty
}

// Error names the call and its result, with advice where there is some.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %v", e.Call, e.Result)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if a := e.Result.Advice(); a != "" {
		s += " (" + a + ")"
	}
	return s
}

// Unwrap returns Result.
func (e *Error) Unwrap() error { return e.Result }

// Error returns CUDA's name of r, its number and CUDA's text.
func (r Result) Error() string {
	c, ok := codes[r]
	if !ok {
		return fmt.Sprintf("CUDA error %d, which this version does not know", int32(r))
	}
	return fmt.Sprintf("%s (%d): %s", r.Name(), int32(r), c.text)
}

// Name returns CUDA's name of r, empty where this package doesn't know r.
func (r Result) Name() string {
	c, ok := codes[r]
	switch {
	case !ok:
		return ""
	case r == Success:
		return "CUDA_SUCCESS"
	}
	return "CUDA_ERROR_" + c.name
}

// Advice returns what a user can do about r, empty where there is nothing general to say.
func (r Result) Advice() string { return codes[r].advice }

// Lost reports whether every later call of the context fails with r too. The process has
// to end and another one to take its place.
func (r Result) Lost() bool {
	switch r {
	case ECCUncorrectable, NVLinkUncorrectable, ContextDestroyed, LaunchTimeout, Assert, MPSClientTerminated, ExternalDevice:
		return true
	}
	return r == IllegalAddress || r >= 714 && r <= LaunchFailed
}

type code struct{ name, text, advice string }

// codes holds CUDA's names without their prefix, and CUDA's texts.
var codes = map[Result]code{
	0:   {"", "no error", ""},
	1:   {"INVALID_VALUE", "invalid argument", ""},
	2:   {"OUT_OF_MEMORY", "out of memory", "nvidia-smi lists the processes that hold the device's memory; a smaller batch needs less"},
	3:   {"NOT_INITIALIZED", "initialization error", ""},
	4:   {"DEINITIALIZED", "driver shutting down", ""},
	5:   {"PROFILER_DISABLED", "profiler disabled while using external profiling tool", ""},
	34:  {"STUB_LIBRARY", "CUDA driver is a stub library", "the toolkit's stub was loaded: remove its stubs folder from LD_LIBRARY_PATH"},
	46:  {"DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable", "another process may have the device in exclusive mode: nvidia-smi -q -d COMPUTE"},
	100: {"NO_DEVICE", "no CUDA-capable device is detected", "check nvidia-smi and CUDA_VISIBLE_DEVICES; a container needs --gpus all"},
	101: {"INVALID_DEVICE", "invalid device ordinal", "nvidia-smi -L lists the devices"},
	102: {"DEVICE_NOT_LICENSED", "device doesn't have valid Grid license", ""},
	200: {"INVALID_IMAGE", "device kernel image is invalid", ""},
	201: {"INVALID_CONTEXT", "invalid device context", ""},
	205: {"MAP_FAILED", "mapping of buffer object failed", ""},
	206: {"UNMAP_FAILED", "unmapping of buffer object failed", ""},
	208: {"ALREADY_MAPPED", "resource already mapped", ""},
	209: {"NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device", "the device is older than the kernels: they need compute capability 8.0"},
	210: {"ALREADY_ACQUIRED", "resource already acquired", ""},
	211: {"NOT_MAPPED", "resource not mapped", ""},
	214: {"ECC_UNCORRECTABLE", "uncorrectable ECC error encountered", "the device's memory failed: nvidia-smi -q -d ECC"},
	215: {"UNSUPPORTED_LIMIT", "limit is not supported on this architecture", ""},
	216: {"CONTEXT_ALREADY_IN_USE", "exclusive-thread device already in use by a different thread", ""},
	217: {"PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices", ""},
	218: {"INVALID_PTX", "a PTX JIT compilation failed", ""},
	219: {"INVALID_GRAPHICS_CONTEXT", "invalid OpenGL or DirectX context", ""},
	220: {"NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected during the execution", ""},
	221: {"JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found", "install the driver's libnvidia-ptxjitcompiler.so.1 beside libcuda.so.1"},
	222: {"UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain.", "the driver is older than the kernels: install a newer one"},
	223: {"JIT_COMPILATION_DISABLED", "PTX JIT compilation was disabled", "unset CUDA_DISABLE_PTX_JIT"},
	300: {"INVALID_SOURCE", "device kernel image is invalid", ""},
	301: {"FILE_NOT_FOUND", "file not found", ""},
	302: {"SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found", ""},
	303: {"SHARED_OBJECT_INIT_FAILED", "shared object initialization failed", ""},
	304: {"OPERATING_SYSTEM", "OS call failed or operation not supported on this OS", "the process may be out of locked memory or descriptors: ulimit -l, ulimit -n"},
	400: {"INVALID_HANDLE", "invalid resource handle", ""},
	401: {"ILLEGAL_STATE", "the operation cannot be performed in the present state", ""},
	500: {"NOT_FOUND", "named symbol not found", ""},
	600: {"NOT_READY", "device not ready", ""},
	700: {"ILLEGAL_ADDRESS", "an illegal memory access was encountered", ""},
	701: {"LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch", ""},
	702: {"LAUNCH_TIMEOUT", "the launch timed out and was terminated", "a device that drives a display ends long kernels"},
	704: {"PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled", ""},
	705: {"PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled", ""},
	708: {"PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process", ""},
	709: {"CONTEXT_IS_DESTROYED", "context is destroyed", ""},
	710: {"ASSERT", "device-side assert triggered", ""},
	711: {"TOO_MANY_PEERS", "peer resources exhausted", ""},
	712: {"HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped", ""},
	713: {"HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region", ""},
	714: {"HARDWARE_STACK_ERROR", "hardware stack error", ""},
	715: {"ILLEGAL_INSTRUCTION", "an illegal instruction was encountered", ""},
	716: {"MISALIGNED_ADDRESS", "misaligned address", ""},
	717: {"INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space", ""},
	718: {"INVALID_PC", "invalid program counter", ""},
	719: {"LAUNCH_FAILED", "unspecified launch failure", ""},
	720: {"COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch", ""},
	800: {"NOT_PERMITTED", "operation not permitted", ""},
	801: {"NOT_SUPPORTED", "operation not supported", ""},
	802: {"SYSTEM_NOT_READY", "system not yet initialized", "on machines with NVSwitch start the fabric manager: systemctl start nvidia-fabricmanager"},
	803: {"SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination", "libcuda and the kernel module differ in version: restart the machine after a driver update"},
	804: {"COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW", "remove the cuda-compat folder from LD_LIBRARY_PATH"},
	810: {"MPS_CLIENT_TERMINATED", "the MPS client has been terminated by the server", ""},
	900: {"STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing", ""},
	901: {"STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture", ""},
	902: {"STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences", ""},
	903: {"STREAM_CAPTURE_UNMATCHED", "capture was not initiated in this stream", ""},
	904: {"STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work", ""},
	905: {"STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream", ""},
	906: {"STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream", ""},
	907: {"CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream", ""},
	908: {"STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread", ""},
	909: {"TIMEOUT", "wait operation timed out", ""},
	910: {"GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update", ""},
	911: {"EXTERNAL_DEVICE", "an async error has occured in external entity outside of CUDA", ""},
	999: {"UNKNOWN", "unknown error", "dmesg may hold the kernel module's message (Xid)"},
}
