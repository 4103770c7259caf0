package cudatest

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/cuda/blas/cublaslt"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
)

// GPU is a device with a context that is current on the test's thread.
type GPU struct {
	driver.API
	launches string // the file of FAKECUDA_LAUNCHES
}

// Library returns the path of a stand-in of the test's own, with state of its own, and
// with that for cuBLASLt in the same folder. It needs gcc: see [testneeds.GCC]. getenv is
// os.Getenv.
func Library(t *testing.T, getenv func(string) string) string {
	t.Helper()
	testneeds.GCC.Program(t, getenv, fakecuda.Compiler())
	lib, err := fakecuda.Copy(t.TempDir())
	check(t, err)
	return lib
}

// Products returns the stand-in for cuBLASLt over the driver in the folder of that file.
func Products(t *testing.T, beside string) *cublaslt.Library {
	t.Helper()
	l, err := cublaslt.Open(filepath.Join(filepath.Dir(beside), fakecuda.Products), nil)
	check(t, err)
	return l
}

// Open returns the driver of a stand-in, see Library, before Init, and the file of its
// launches. It runs blocks and warps in the order of seed.
func Open(t *testing.T, seed uint64, getenv func(string) string) (api driver.API, launches string) {
	t.Helper()
	lib := Library(t, getenv)
	launches = filepath.Join(filepath.Dir(lib), "launches")
	t.Setenv("FAKECUDA_SEED", strconv.FormatUint(seed, 10))
	t.Setenv("FAKECUDA_LAUNCHES", launches)
	api, err := dlopen.Open(lib)
	check(t, err)
	return api, launches
}

// New returns the first device of a stand-in, see Open.
func New(t *testing.T, seed uint64, getenv func(string) string) *GPU {
	t.Helper()
	g := &GPU{}
	g.API, g.launches = Open(t, seed, getenv)
	check(t, g.Init())
	d, err := g.DeviceGet(0)
	check(t, err)
	c, err := g.PrimaryRetain(d)
	check(t, err)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	check(t, g.SetCurrent(c))
	return g
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Function compiles PTX and returns one of its kernels.
func (g *GPU) Function(t *testing.T, ptx, name string) driver.Function {
	t.Helper()
	m, err := g.ModuleLoad(ptx)
	check(t, err)
	f, err := g.ModuleFunction(m, name)
	check(t, err)
	return f
}

// Bytes returns device memory with those bytes.
func (g *GPU) Bytes(t *testing.T, b []byte) driver.DevicePtr {
	t.Helper()
	p, err := g.Alloc(uint64(max(len(b), 1)))
	check(t, err)
	if len(b) > 0 {
		check(t, g.CopyHtoD(p, b))
	}
	return p
}

// Floats returns device memory with those values.
func (g *GPU) Floats(t *testing.T, v []float32) driver.DevicePtr {
	t.Helper()
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return g.Bytes(t, b)
}

// Words returns device memory with those values.
func (g *GPU) Words(t *testing.T, v []uint32) driver.DevicePtr {
	t.Helper()
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return g.Bytes(t, b)
}

// ReadWords returns n values at p.
func (g *GPU) ReadWords(t *testing.T, p driver.DevicePtr, n int) []uint32 {
	t.Helper()
	b := make([]byte, 4*n)
	check(t, g.CopyDtoH(b, p))
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

// ReadFloats returns n values at p.
func (g *GPU) ReadFloats(t *testing.T, p driver.DevicePtr, n int) []float32 {
	t.Helper()
	out := make([]float32, n)
	for i, w := range g.ReadWords(t, p, n) {
		out[i] = math.Float32frombits(w)
	}
	return out
}

// Run launches f, waits for it and returns what it did.
func (g *GPU) Run(t *testing.T, f driver.Function, l driver.Launch, a *driver.Args) fakecuda.Launch {
	t.Helper()
	r, err := g.Try(t, f, l, a)
	if err != nil {
		t.Fatalf("%s: %v: %q", r.Kernel, err, r.Findings)
	}
	return r
}

// Try is Run, and also returns the launch's error.
func (g *GPU) Try(t *testing.T, f driver.Function, l driver.Launch, a *driver.Args) (fakecuda.Launch, error) {
	t.Helper()
	check(t, g.Launch(f, l, a))
	err := g.Synchronize()
	all, readErr := fakecuda.ReadLaunches(g.launches)
	check(t, readErr)
	if len(all) == 0 {
		t.Fatal("the stand-in reports no launch")
	}
	return all[len(all)-1], err
}
