package cublaslt

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
	"github.com/ringside-go/ringside/tensor/cuda/driver/drivertest"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
)

// standIns returns a folder with both stand-ins, which have state of their own.
func standIns(t *testing.T) string {
	t.Helper()
	testneeds.GCC.Program(t, os.Getenv, fakecuda.Compiler())
	dir := t.TempDir()
	if _, err := fakecuda.Copy(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func opened(t *testing.T, path string) *Library {
	t.Helper()
	l, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestABI compares the constants with NVIDIA's headers, and the sizes of what C and Go
// share.
func TestABI(t *testing.T) {
	var text string
	for _, name := range []string{"cublasLt.h", "cublas_api.h", "library_types.h"} {
		b, err := os.ReadFile(drivertest.NVIDIA(t, os.Getenv, "include/"+name))
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	for name, value := range map[string]int{
		"CUBLAS_COMPUTE_32F": compute32F, "CUBLAS_COMPUTE_32F_FAST_TF32": compute32FTF32, "CUBLAS_COMPUTE_64F": compute64F,
		"CUDA_R_32F": r32F, "CUDA_R_64F": r64F, "CUDA_R_16F": r16F, "CUDA_R_16BF": r16BF, "CUBLAS_OP_T": opT,
		"CUBLASLT_MATMUL_DESC_TRANSA": descTransA, "CUBLASLT_MATMUL_DESC_TRANSB": descTransB,
		"CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT": layoutBatch, "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET": layoutStep,
		"CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES": preferWorkspace, "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK": preferReduction,
		"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES": preferAlignA, "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES": preferAlignB,
		"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES": preferAlignC, "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES": preferAlignD,
		"CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE": schemeComputeType, "CUBLASLT_ALGO_CONFIG_SPLITK_NUM": algoSplits,
		"CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME": algoScheme,
		"CUBLAS_STATUS_SUCCESS":                 int(Success), "CUBLAS_STATUS_NOT_INITIALIZED": int(NotInitialized), "CUBLAS_STATUS_ALLOC_FAILED": int(AllocFailed),
		"CUBLAS_STATUS_INVALID_VALUE": int(InvalidValue), "CUBLAS_STATUS_ARCH_MISMATCH": int(ArchMismatch),
		"CUBLAS_STATUS_MAPPING_ERROR": int(MappingError), "CUBLAS_STATUS_EXECUTION_FAILED": int(ExecutionFailed),
		"CUBLAS_STATUS_INTERNAL_ERROR": int(InternalError), "CUBLAS_STATUS_NOT_SUPPORTED": int(NotSupported), "CUBLAS_STATUS_LICENSE_ERROR": int(LicenseError),
	} {
		m := regexp.MustCompile(`\b` + name + `\s*=\s*(\d+)`).FindStringSubmatch(text)
		if m == nil || m[1] != strconv.Itoa(value) {
			t.Errorf("%s is %q in NVIDIA's headers, %d here", name, m, value)
		}
	}
	for name, words := range map[string]uintptr{"cublasLtMatmulAlgo_t": unsafe.Sizeof(algorithm{}) / 8} {
		if !regexp.MustCompile(`uint64_t data\[` + strconv.Itoa(int(words)) + `\];\s*\} ` + name + `;`).MatchString(text) {
			t.Errorf("%s is not %d words in NVIDIA's headers", name, words)
		}
	}
	result := regexp.MustCompile(`cublasLtMatmulAlgo_t algo;[^}]*size_t workspaceSize;[^}]*cublasStatus_t state;[^}]*float wavesCount;[^}]*int reserved\[4\];\s*\} cublasLtMatmulHeuristicResult_t;`)
	if !result.MatchString(text) || unsafe.Sizeof(found{}) != 96 || unsafe.Offsetof(found{}.state) != 72 {
		t.Error("cublasLtMatmulHeuristicResult_t has other fields in NVIDIA's headers")
	}
	for _, name := range symbols {
		if !strings.Contains(text, " "+name+"(") {
			t.Errorf("cublasLt.h has no %s", name)
		}
	}
}

var given = flag.String("products", "", "use this libcublasLt.so instead of the stand-in and of NVIDIA's in the cache")

// both calls f for the stand-in, and for NVIDIA's library without a device.
func both(t *testing.T, f func(t *testing.T, l *Library)) {
	if *given != "" {
		f(t, opened(t, *given))
		return
	}
	t.Run("stand-in", func(t *testing.T) { f(t, opened(t, filepath.Join(standIns(t), fakecuda.Products))) })
	t.Run("NVIDIA's", func(t *testing.T) { f(t, opened(t, drivertest.NVIDIA(t, os.Getenv, "lib/libcublasLt.so.12"))) })
}

// TestAttributes sets the attributes that are used and reads them back, after their
// defaults, in both libraries.
func TestAttributes(t *testing.T) {
	both(t, func(t *testing.T, l *Library) {
		if *given == "" && l.Info().Version != 120405 || *given == "" && l.Info().Name != "cuBLASLt 12.4.5" {
			t.Errorf("%+v, expected 12.4.5", l.Info())
		}
		desc, err := l.made(descCreate, compute64F, r64F)
		if err != nil {
			t.Fatal(err)
		}
		layout, err := l.made(layoutCreate, r16BF, 5, 7, 6)
		if err != nil {
			t.Fatal(err)
		}
		prefer, err := l.made(preferenceCreate)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []int32{compute64F, r64F, 0, 0, 0, 0, 2, 1} {
			attribute(t, l, descGet, desc, i, want)
		}
		attribute[int32](t, l, layoutGet, layout, 0, r16BF)
		attribute[int32](t, l, layoutGet, layout, 1, 0)
		for i, want := range []uint64{5, 7, 6} {
			attribute(t, l, layoutGet, layout, 2+i, want)
		}
		attribute[int32](t, l, layoutGet, layout, layoutBatch, 1)
		attribute[int64](t, l, layoutGet, layout, layoutStep, 0)
		attribute[uint64](t, l, preferenceGet, prefer, preferWorkspace, 0)
		attribute[uint32](t, l, preferenceGet, prefer, preferReduction, 7)
		changed[int32](t, l, descSet, descGet, desc, descTransA, opT)
		changed[int32](t, l, descSet, descGet, desc, descTransB, opT)
		changed[int32](t, l, layoutSet, layoutGet, layout, layoutBatch, 3)
		changed[int64](t, l, layoutSet, layoutGet, layout, layoutStep, 1<<40)
		changed[uint64](t, l, preferenceSet, preferenceGet, prefer, preferWorkspace, 1<<33)
		changed[uint32](t, l, preferenceSet, preferenceGet, prefer, preferReduction, schemeComputeType)
		for _, a := range []int{preferAlignA, preferAlignB, preferAlignC, preferAlignD} {
			attribute[uint32](t, l, preferenceGet, prefer, a, 256)
			changed[uint32](t, l, preferenceSet, preferenceGet, prefer, a, uint32(a))
		}
		for f, p := range map[symbol]uintptr{descDestroy: desc, layoutDestroy: layout, preferenceDestroy: prefer} {
			if err := l.call(f, p); err != nil {
				t.Error(err)
			}
		}
	})
}

func attribute[T int32 | uint32 | int64 | uint64](t *testing.T, l *Library, f symbol, of uintptr, number int, want T) {
	t.Helper()
	if got, err := get[T](l, f, of, number); err != nil || got != want {
		t.Errorf("%s of attribute %d: %v, %v; expected %v", symbols[f], number, got, err, want)
	}
}

func changed[T int32 | uint32 | int64 | uint64](t *testing.T, l *Library, setter, getter symbol, of uintptr, number int, value T) {
	t.Helper()
	if err := set(l, setter, of, number, value); err != nil {
		t.Errorf("%s of attribute %d: %v", symbols[setter], number, err)
	}
	attribute(t, l, getter, of, number, value)
}

// misuse is a wrong call of a descriptor, and its code in both libraries.
var misuse = []struct {
	name string
	call func(l *Library, desc, layout, prefer uintptr) error
	want Status
}{
	{"a handle to nowhere", func(l *Library, _, _, _ uintptr) error { return l.call(create, 0) }, InvalidValue},
	{"a description to nowhere", func(l *Library, _, _, _ uintptr) error { return l.call(descCreate, 0, compute32F, r32F) }, InvalidValue},
	{"a layout to nowhere", func(l *Library, _, _, _ uintptr) error { return l.call(layoutCreate, 0, r32F, 5, 7, 6) }, InvalidValue},
	{"a preference to nowhere", func(l *Library, _, _, _ uintptr) error { return l.call(preferenceCreate, 0) }, InvalidValue},
	{"an attribute of 8 bytes for one of 4", func(l *Library, d, _, _ uintptr) error { return set[int64](l, descSet, d, descTransA, 1) }, InvalidValue},
	{"an attribute that is none", func(l *Library, d, _, _ uintptr) error { return set[int32](l, descSet, d, 99, 1) }, InvalidValue},
	{"an attribute without a value", func(l *Library, d, _, _ uintptr) error { return l.call(descSet, d, descTransA, 0, 4) }, InvalidValue},
	{"an attribute of no description", func(l *Library, _, _, _ uintptr) error { return set[int32](l, descSet, 0, descTransA, 1) }, InvalidValue},
	{"reading 8 bytes of 4", func(l *Library, d, _, _ uintptr) error { _, err := get[int64](l, descGet, d, 0); return err }, InvalidValue},
	{"reading nothing", func(l *Library, d, _, _ uintptr) error { return l.call(descGet, d, 0, 0, 0, 0) }, InvalidValue},
	{"a batch of 8 bytes", func(l *Library, _, y, _ uintptr) error { return set[int64](l, layoutSet, y, layoutBatch, 1) }, InvalidValue},
	{"an attribute that no layout has", func(l *Library, _, y, _ uintptr) error { return set[int64](l, layoutSet, y, 99, 1) }, InvalidValue},
	{"a lead below the rows", func(l *Library, _, y, _ uintptr) error { return set[int64](l, layoutSet, y, 4, 3) }, Success},
	{"an order that is none", func(l *Library, _, y, _ uintptr) error { return set[int32](l, layoutSet, y, 1, 77) }, Success},
	{"a scheme of 8 bytes", func(l *Library, _, _, p uintptr) error { return set[int64](l, preferenceSet, p, preferReduction, 2) }, InvalidValue},
	{"a scheme that is none", func(l *Library, _, _, p uintptr) error { return set[uint32](l, preferenceSet, p, preferReduction, 8) }, Success},
	{"an attribute that no preference has", func(l *Library, _, _, p uintptr) error { return set[uint32](l, preferenceSet, p, 10, 1) }, InvalidValue},
	{"an alignment that is none", func(l *Library, _, _, p uintptr) error { return set[uint32](l, preferenceSet, p, preferAlignA, 3) }, Success},
}

// TestMisuse makes the same wrong calls in both libraries.
func TestMisuse(t *testing.T) {
	both(t, func(t *testing.T, l *Library) {
		for _, m := range misuse {
			desc, e := l.made(descCreate, compute32F, r32F)
			layout, e2 := l.made(layoutCreate, r32F, 5, 7, 6)
			prefer, e3 := l.made(preferenceCreate)
			if err := errors.Join(e, e2, e3); err != nil {
				t.Fatal(err)
			}
			err := m.call(l, desc, layout, prefer)
			if m.want == Success && err != nil || m.want != Success && !errors.Is(err, m.want) {
				t.Errorf("%s: %v, expected %v", m.name, err, m.want)
			}
		}
	})
}

// TestWithoutDevice checks that NVIDIA's library says that there is no device.
func TestWithoutDevice(t *testing.T) {
	if devices, _ := filepath.Glob("/dev/nvidia[0-9]*"); len(devices) > 0 {
		t.Skip("there is a device")
	}
	_, err := opened(t, drivertest.NVIDIA(t, os.Getenv, "lib/libcublasLt.so.12")).Open()
	if !errors.Is(err, NotInitialized) || !strings.Contains(err.Error(), "cublasLtCreate") {
		t.Errorf("%v, expected %v of cublasLtCreate", err, NotInitialized)
	}
}

// TestCandidates checks where the library is looked for, and in which order.
func TestCandidates(t *testing.T) {
	s := Search{CUDA: 13000, Folders: []string{"/cuda"}, Sites: []string{"/site"}}
	want := []string{
		"libcublasLt.so.13", "/cuda/libcublasLt.so.13", "/site/nvidia/cublas/lib/libcublasLt.so.13", "/site/nvidia/cu13/lib/libcublasLt.so.13",
		"libcublasLt.so.12", "/cuda/libcublasLt.so.12", "/site/nvidia/cublas/lib/libcublasLt.so.12", "/site/nvidia/cu12/lib/libcublasLt.so.12",
	}
	if got := s.candidates(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	s.CUDA = 12080
	if got := s.candidates(); !slices.Equal(got, want[4:]) {
		t.Errorf("for a driver of CUDA 12: %q", got)
	}
}

// alone is the variable of the process that TestFound starts.
const alone = "CUBLASLT_TEST_FOUND"

// TestFound finds the stand-in in a folder of Python's packages, and says what is wrong
// with other files. It does so in a process of its own: the loader takes a library of
// that name which is loaded already.
func TestFound(t *testing.T) {
	if os.Getenv(alone) == "" {
		testneeds.GCC.Program(t, os.Getenv, "gcc")
		c := exec.Command(os.Args[0], "-test.run=^TestFound$", "-test.v")
		c.Env = append(os.Environ(), alone+"=1")
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestFound") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := standIns(t)
	site := t.TempDir()
	in := filepath.Join(site, "nvidia", "cublas", "lib")
	if err := errors.Join(os.MkdirAll(in, 0o700), os.Rename(filepath.Join(dir, fakecuda.Products), filepath.Join(in, fakecuda.Products)),
		os.Rename(filepath.Join(dir, fakecuda.Driver), filepath.Join(in, fakecuda.Driver))); err != nil {
		t.Fatal(err)
	}
	l, err := Open("", &Search{Sites: []string{site}})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(in, fakecuda.Products); l.Info().Path != want {
		t.Errorf("found %s, expected %s", l.Info().Path, want)
	}
	if _, err := Open(filepath.Join(in, fakecuda.Driver), nil); !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "has no cublasLt") {
		t.Errorf("the driver as the library: %v, expected %v", err, ErrIncomplete)
	}
	if _, err := Open(filepath.Join(dir, "none.so"), nil); !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "none.so") {
		t.Errorf("no file: %v, expected %v", err, ErrNoLibrary)
	}
	t.Setenv("FAKECUBLASLT_VERSION", "110900")
	if _, err := Open(l.Info().Path, nil); !errors.Is(err, ErrTooOld) || !strings.Contains(err.Error(), "11.9.0") {
		t.Errorf("an old library: %v, expected %v", err, ErrTooOld)
	}
}

// gpu is the driver's stand-in with a stream, and a handle of the library over it.
type gpu struct {
	driver.API
	stream driver.Stream
	*handle
}

// onGPU runs f with a stand-in of its own.
func onGPU(t *testing.T, f func(g *gpu)) {
	t.Helper()
	dir := standIns(t)
	api, err := dlopen.Open(filepath.Join(dir, fakecuda.Driver))
	if err == nil {
		err = api.Init()
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := api.PrimaryRetain(0)
	if err != nil {
		t.Fatal(err)
	}
	l := opened(t, filepath.Join(dir, fakecuda.Products))
	if err := driver.Bind(api, c, func() error {
		s, err := api.StreamCreate(driver.StreamNonBlocking, 0)
		if err != nil {
			return err
		}
		h, err := l.Open()
		if err != nil {
			return err
		}
		g := &gpu{api, s, h.(*handle)}
		if f(g); g.handle.handle == 0 {
			return nil // it went with the context
		}
		return h.Close()
	}); err != nil {
		t.Error(err)
	}
}
