package dlopen

import (
	"debug/elf"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/drivertest"
)

// constants are the names in cuda.h of this package's and driver's constants.
var constants = []struct {
	name  string // in Go
	c     string
	value int
}{
	{"MaxThreadsPerBlock", "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK", int(driver.MaxThreadsPerBlock)},
	{"MaxSharedPerBlock", "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK", int(driver.MaxSharedPerBlock)},
	{"WarpSize", "CU_DEVICE_ATTRIBUTE_WARP_SIZE", int(driver.WarpSize)},
	{"ClockRate", "CU_DEVICE_ATTRIBUTE_CLOCK_RATE", int(driver.ClockRate)},
	{"Multiprocessors", "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT", int(driver.Multiprocessors)},
	{"Integrated", "CU_DEVICE_ATTRIBUTE_INTEGRATED", int(driver.Integrated)},
	{"CanMapHostMemory", "CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY", int(driver.CanMapHostMemory)},
	{"ComputeMode", "CU_DEVICE_ATTRIBUTE_COMPUTE_MODE", int(driver.ComputeMode)},
	{"MemoryClockRate", "CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE", int(driver.MemoryClockRate)},
	{"MemoryBusWidth", "CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH", int(driver.MemoryBusWidth)},
	{"L2CacheSize", "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE", int(driver.L2CacheSize)},
	{"MaxThreadsPerSM", "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR", int(driver.MaxThreadsPerSM)},
	{"CopyEngines", "CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT", int(driver.CopyEngines)},
	{"UnifiedAddressing", "CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING", int(driver.UnifiedAddressing)},
	{"CapabilityMajor", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", int(driver.CapabilityMajor)},
	{"CapabilityMinor", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR", int(driver.CapabilityMinor)},
	{"StreamPriorities", "CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED", int(driver.StreamPriorities)},
	{"MaxSharedPerBlockOptin", "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", int(driver.MaxSharedPerBlockOptin)},
	{"HostRegisterSupported", "CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED", int(driver.HostRegisterSupported)},
	{"VirtualMemorySupported", "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", int(driver.VirtualMemorySupported)},
	{"DescriptorHandlesSupported", "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED", int(driver.DescriptorHandlesSupported)},
	{"ReadOnlyRegisterSupported", "CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED", int(driver.ReadOnlyRegisterSupported)},

	{"StreamNonBlocking", "CU_STREAM_NON_BLOCKING", int(driver.StreamNonBlocking)},
	{"EventBlockingSync", "CU_EVENT_BLOCKING_SYNC", int(driver.EventBlockingSync)},
	{"EventDisableTiming", "CU_EVENT_DISABLE_TIMING", int(driver.EventDisableTiming)},
	{"EventInterprocess", "CU_EVENT_INTERPROCESS", int(driver.EventInterprocess)},
	{"HostPortable", "CU_MEMHOSTALLOC_PORTABLE", int(driver.HostPortable)},
	{"HostPortable", "CU_MEMHOSTREGISTER_PORTABLE", int(driver.HostPortable)},
	{"HostDeviceMap", "CU_MEMHOSTALLOC_DEVICEMAP", int(driver.HostDeviceMap)},
	{"HostDeviceMap", "CU_MEMHOSTREGISTER_DEVICEMAP", int(driver.HostDeviceMap)},
	{"HostWriteCombined", "CU_MEMHOSTALLOC_WRITECOMBINED", int(driver.HostWriteCombined)},
	{"HostReadOnly", "CU_MEMHOSTREGISTER_READ_ONLY", int(driver.HostReadOnly)},

	{"FunctionMaxThreads", "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK", int(driver.FunctionMaxThreads)},
	{"FunctionStaticShared", "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES", int(driver.FunctionStaticShared)},
	{"FunctionLocalBytes", "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES", int(driver.FunctionLocalBytes)},
	{"FunctionRegisters", "CU_FUNC_ATTRIBUTE_NUM_REGS", int(driver.FunctionRegisters)},
	{"FunctionMaxDynamicShared", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", int(driver.FunctionMaxDynamicShared)},

	{"PointerContext", "CU_POINTER_ATTRIBUTE_CONTEXT", int(driver.PointerContext)},
	{"PointerMemoryType", "CU_POINTER_ATTRIBUTE_MEMORY_TYPE", int(driver.PointerMemoryType)},
	{"PointerDevicePointer", "CU_POINTER_ATTRIBUTE_DEVICE_POINTER", int(driver.PointerDevicePointer)},
	{"PointerHostPointer", "CU_POINTER_ATTRIBUTE_HOST_POINTER", int(driver.PointerHostPointer)},
	{"PointerBufferID", "CU_POINTER_ATTRIBUTE_BUFFER_ID", int(driver.PointerBufferID)},
	{"PointerDeviceOrdinal", "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL", int(driver.PointerDeviceOrdinal)},
	{"PointerIPCCapable", "CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE", int(driver.PointerIPCCapable)},
	{"PointerRangeStart", "CU_POINTER_ATTRIBUTE_RANGE_START_ADDR", int(driver.PointerRangeStart)},
	{"PointerRangeSize", "CU_POINTER_ATTRIBUTE_RANGE_SIZE", int(driver.PointerRangeSize)},

	{"CaptureGlobal", "CU_STREAM_CAPTURE_MODE_GLOBAL", int(driver.CaptureGlobal)},
	{"CaptureThreadLocal", "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL", int(driver.CaptureThreadLocal)},
	{"CaptureRelaxed", "CU_STREAM_CAPTURE_MODE_RELAXED", int(driver.CaptureRelaxed)},
	{"AccessRead", "CU_MEM_ACCESS_FLAGS_PROT_READ", int(driver.AccessRead)},
	{"AccessReadWrite", "CU_MEM_ACCESS_FLAGS_PROT_READWRITE", int(driver.AccessReadWrite)},

	{"jitErrorLog", "CU_JIT_ERROR_LOG_BUFFER", jitErrorLog},
	{"jitErrorLogBytes", "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES", jitErrorLogBytes},
	{"memoryHost", "CU_MEMORYTYPE_HOST", memoryHost},
	{"memoryDevice", "CU_MEMORYTYPE_DEVICE", memoryDevice},
	{"kindPinned", "CU_MEM_ALLOCATION_TYPE_PINNED", kindPinned},
	{"handleDescriptor", "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR", handleDescriptor},
	{"locationDevice", "CU_MEM_LOCATION_TYPE_DEVICE", locationDevice},
	{"lazyPeer", "CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS", lazyPeer},
}

// layouts are the sizes and offsets of what C and Go share.
func layouts() map[string]uintptr {
	var m memcpy2DParams
	var p allocationProp
	var a accessDesc
	var u updateResult
	return map[string]uintptr{
		"sizeof(CUdevice)":                                     unsafe.Sizeof(driver.Device(0)),
		"sizeof(CUdeviceptr)":                                  unsafe.Sizeof(driver.DevicePtr(0)),
		"sizeof(CUstream)":                                     unsafe.Sizeof(driver.Stream(0)),
		"sizeof(CUuuid)":                                       unsafe.Sizeof(driver.UUID{}),
		"sizeof(CUipcMemHandle)":                               unsafe.Sizeof(driver.IPCHandle{}),
		"sizeof(CUipcEventHandle)":                             unsafe.Sizeof(driver.IPCHandle{}),
		"sizeof(CUmemGenericAllocationHandle)":                 unsafe.Sizeof(driver.Memory(0)),
		"sizeof(CUresult)":                                     unsafe.Sizeof(driver.Result(0)),
		"sizeof(CUjit_option)":                                 4,
		"sizeof(CUDA_MEMCPY2D)":                                unsafe.Sizeof(m),
		"offsetof(CUDA_MEMCPY2D, srcMemoryType)":               unsafe.Offsetof(m.src) + unsafe.Offsetof(m.src.memoryType),
		"offsetof(CUDA_MEMCPY2D, srcHost)":                     unsafe.Offsetof(m.src) + unsafe.Offsetof(m.src.host),
		"offsetof(CUDA_MEMCPY2D, srcDevice)":                   unsafe.Offsetof(m.src) + unsafe.Offsetof(m.src.device),
		"offsetof(CUDA_MEMCPY2D, srcPitch)":                    unsafe.Offsetof(m.src) + unsafe.Offsetof(m.src.pitch),
		"offsetof(CUDA_MEMCPY2D, dstXInBytes)":                 unsafe.Offsetof(m.dst),
		"offsetof(CUDA_MEMCPY2D, dstMemoryType)":               unsafe.Offsetof(m.dst) + unsafe.Offsetof(m.dst.memoryType),
		"offsetof(CUDA_MEMCPY2D, dstHost)":                     unsafe.Offsetof(m.dst) + unsafe.Offsetof(m.dst.host),
		"offsetof(CUDA_MEMCPY2D, dstDevice)":                   unsafe.Offsetof(m.dst) + unsafe.Offsetof(m.dst.device),
		"offsetof(CUDA_MEMCPY2D, dstPitch)":                    unsafe.Offsetof(m.dst) + unsafe.Offsetof(m.dst.pitch),
		"offsetof(CUDA_MEMCPY2D, WidthInBytes)":                unsafe.Offsetof(m.width),
		"offsetof(CUDA_MEMCPY2D, Height)":                      unsafe.Offsetof(m.height),
		"sizeof(CUmemAllocationProp)":                          unsafe.Sizeof(p),
		"offsetof(CUmemAllocationProp, type)":                  unsafe.Offsetof(p.kind),
		"offsetof(CUmemAllocationProp, requestedHandleTypes)":  unsafe.Offsetof(p.handles),
		"offsetof(CUmemAllocationProp, location)":              unsafe.Offsetof(p.location),
		"offsetof(CUmemAllocationProp, win32HandleMetaData)":   unsafe.Offsetof(p.windows),
		"offsetof(CUmemAllocationProp, allocFlags)":            unsafe.Offsetof(p.flags),
		"sizeof(CUmemLocation)":                                unsafe.Sizeof(p.location),
		"offsetof(CUmemLocation, id)":                          unsafe.Offsetof(p.location.id),
		"sizeof(CUmemAccessDesc)":                              unsafe.Sizeof(a),
		"offsetof(CUmemAccessDesc, location)":                  unsafe.Offsetof(a.location),
		"offsetof(CUmemAccessDesc, flags)":                     unsafe.Offsetof(a.access),
		"sizeof(CUgraphExecUpdateResultInfo)":                  unsafe.Sizeof(u),
		"offsetof(CUgraphExecUpdateResultInfo, result)":        unsafe.Offsetof(u.result),
		"offsetof(CUgraphExecUpdateResultInfo, errorFromNode)": unsafe.Offsetof(u.from),
		"offsetof(CUgraphExecUpdateResultInfo, errorNode)":     unsafe.Offsetof(u.err),
	}
}

// TestABI compiles assertions of all constants, codes and layouts against NVIDIA's
// cuda.h.
func TestABI(t *testing.T) {
	header := drivertest.NVIDIA(t, os.Getenv, "include/cuda.h")
	listed := map[string]bool{}
	c := "#include <stddef.h>\n#include <cuda.h>\n"
	count := 0
	assert := func(what string, value int) {
		count++
		c += fmt.Sprintf("_Static_assert((long)(%s) == %d, %q);\n", what, value, what)
	}
	for _, k := range constants {
		listed[k.name] = true
		assert(k.c, k.value)
	}
	for what, value := range layouts() {
		assert(what, int(value))
	}
	for r := range driver.Result(1000) {
		if name := r.Name(); name != "" {
			assert(name, int(r))
		}
	}
	types, err := parser.ParseFile(token.NewFileSet(), "../types.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range types.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			for _, name := range s.(*ast.ValueSpec).Names {
				if !listed[name.Name] {
					t.Errorf("driver.%s is in no row of constants", name.Name)
				}
			}
		}
	}
	compiles(t, header, c)
	t.Logf("%d constants, codes, sizes and offsets", count)
	if count < 150 {
		t.Errorf("%d assertions: is the table of codes gone?", count)
	}
}

// documented finds the codes of cuda.h and what it says of each.
var documented = regexp.MustCompile(`(?s)/\*\*([^/]*)\*/\s*(CUDA_ERROR_\w+)\s*=\s*(\d+)`)

// TestABILost compares Lost with NVIDIA's cuda.h, which says after what errors a process
// has to be terminated.
func TestABILost(t *testing.T) {
	header, err := os.ReadFile(drivertest.NVIDIA(t, os.Getenv, "include/cuda.h"))
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, m := range documented.FindAllStringSubmatch(string(header), -1) {
		if !strings.Contains(m[1], "terminated") {
			continue
		}
		lost++
		if n, _ := strconv.Atoi(m[3]); !driver.Result(n).Lost() {
			t.Errorf("after %s (%d) the process must be terminated, and Lost is false", m[2], n)
		}
	}
	if lost < 10 {
		t.Errorf("%d codes after which a process must be terminated: is the header read right?", lost)
	}
}

// compiles checks that the compiler accepts c, which includes header.
func compiles(t *testing.T, header, c string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "abi.c")
	if err := os.WriteFile(file, []byte(c), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-fsyntax-only", "-I", filepath.Dir(header), file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// nvidiaLibrary returns the path of NVIDIA's library, or skips the test where that is of
// another architecture: the test is emulated.
func nvidiaLibrary(t *testing.T) string {
	t.Helper()
	path := drivertest.NVIDIA(t, os.Getenv, "lib/libcuda.so.1")
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]; f.Machine != want {
		testneeds.Generator.Skipf(t, os.Getenv, "%s is for %v, this test runs on %v", path, f.Machine, want)
	}
	return path
}

// TestNames looks up all functions in NVIDIA's library.
func TestNames(t *testing.T) {
	if _, err := Open(nvidiaLibrary(t)); err != nil {
		t.Error(err)
	}
}

// TestLibrary calls NVIDIA's library as far as it goes without a device.
func TestLibrary(t *testing.T) {
	d := opened(t, nvidiaLibrary(t))
	drivertest.BeforeInit(t, d)
	err := d.Init()
	t.Logf("cuInit: %v", err)
	switch {
	case errors.Is(err, driver.NoDevice):
		drivertest.BeforeInit(t, d) // Init that failed changes nothing
	case errors.Is(err, driver.DriverMismatch): // the machine has another kernel module
	case err != nil:
		t.Errorf("%v, expected %v", err, driver.NoDevice)
	}
}

// prototypes returns the types of the parameters of each function in cuda.h.
func prototypes(t *testing.T) map[string][]string {
	b, err := os.ReadFile(drivertest.NVIDIA(t, os.Getenv, "include/cuda.h"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	aliases := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ *#define (cu\w+) +(?:__CUDA_API_\w+\()?(cu\w+)`).FindAllStringSubmatch(string(b), -1) {
		aliases[m[1]] = m[2]
	}
	for _, m := range regexp.MustCompile(`CUresult CUDAAPI (cu\w+)\(([^;]*)\);`).FindAllStringSubmatch(string(b), -1) {
		params := strings.Split(m[2], ",")
		if strings.TrimSpace(m[2]) == "void" {
			params = nil
		}
		name := m[1]
		if a := aliases[name]; a != "" {
			name = a
		}
		if _, ok := out[name]; !ok {
			out[name] = params
		}
	}
	return out
}

// invocation is one place of this package that calls a C function.
type invocation struct {
	at     string
	symbol string
	args   []string // in Go
	padded int      // so many arguments are passed, zeros after args
}

// invocations reads this package's sources.
func invocations(t *testing.T) []invocation {
	set := token.NewFileSet()
	pkgs, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []invocation
	for _, path := range pkgs {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			i := invocation{at: set.Position(call.Pos()).String()}
			args, fun := call.Args, types.ExprString(call.Fun)
			switch {
			case strings.HasSuffix(fun, ".call"):
			case strings.HasSuffix(fun, ".text"): // a buffer, its length, the device
				args = []ast.Expr{args[0], args[1]}
				i.args = []string{"unsafe.Pointer", "length"}
			case strings.HasSuffix(fun, "i.open"): // the result, the handle, flags
				i.args = []string{"unsafe.Pointer", byValue}
				if args = []ast.Expr{args[0], args[3]}; types.ExprString(args[1]) == "0" {
					args = args[:1] // a function without flags ignores them
				}
			case strings.HasPrefix(fun, "get["):
				args, i.args, i.padded = args[1:], []string{"unsafe.Pointer"}, 6
			case strings.HasPrefix(fun, "get2["):
				args, i.args, i.padded = args[1:], []string{"unsafe.Pointer", "unsafe.Pointer"}, 6
			default:
				return true
			}
			symbol, ok := args[0].(*ast.Ident)
			if !ok || symbol.Name == "f" {
				return true // a helper; its callers are seen
			}
			i.symbol = symbol.Name
			for _, a := range args[1:] {
				i.args = append(i.args, types.ExprString(a))
			}
			out = append(out, i)
			return true
		})
	}
	return out
}

// byValue stands for the argument that is a handle of 64 bytes, not its address.
const byValue = "handle"

// TestPrototypes compares the calls of this package with the functions of cuda.h: how
// many arguments there are, which of them are pointers, and that all others are integers
// of at most a word, but the handles.
func TestPrototypes(t *testing.T) {
	header := prototypes(t)
	c := "#include <cuda.h>\n"
	count := 0
	names := map[string]string{}
	f, err := parser.ParseFile(token.NewFileSet(), "symbols.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			name, err := strconv.Unquote(kv.Value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names[kv.Key.(*ast.Ident).Name] = name
		}
		return true
	})
	seen := map[string]bool{}
	for _, i := range invocations(t) {
		seen[i.symbol] = true
		name := names[i.symbol]
		params, ok := header[name]
		if !ok {
			t.Errorf("%s: cuda.h has no %s", i.at, name)
			continue
		}
		if len(i.args) > len(params) || len(params) > max(len(i.args), i.padded) {
			t.Errorf("%s: %s gets %d arguments, %d parameters in cuda.h: %s", i.at, name, len(i.args), len(params), params)
			continue
		}
		for k, param := range params {
			// To 5 are the classes of integers, enums and pointers; 12 is a structure.
			kind := "__builtin_classify_type(*(%[1]s *)0) <= 5 && sizeof(%[1]s) <= 8"
			if k < len(i.args) && i.args[k] == byValue {
				kind = "__builtin_classify_type(*(%[1]s *)0) == 12 && sizeof(%[1]s) == 64 && _Alignof(%[1]s) <= 8"
			}
			of := strings.TrimRight(strings.TrimSpace(param), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
			c += fmt.Sprintf("_Static_assert("+kind+", \"%[2]s, parameter %[3]d\");\n", of, name, k)
			count++
		}
		for k, arg := range i.args {
			// osHandle is a descriptor in the place of a pointer.
			if strings.Contains(arg, "unsafe.Pointer") != strings.Contains(params[k], "*") && arg != "0" && !strings.Contains(params[k], "osHandle") {
				t.Errorf("%s: %s gets %s for %s", i.at, name, arg, strings.TrimSpace(params[k]))
			}
		}
	}
	for symbol, name := range names {
		if !seen[symbol] {
			t.Errorf("%s is never called", name)
		}
	}
	compiles(t, drivertest.NVIDIA(t, os.Getenv, "include/cuda.h"), c)
	t.Logf("%d functions, %d parameters", len(names), count)
}
