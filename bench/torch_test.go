package bench

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/shm/testneeds"
)

// needTorch fails for an error. For want of PyTorch see [testneeds.Torch], unless all
// that Debian has of it is installed.
func needTorch(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, ErrNoTorch) {
		for _, part := range []string{"/usr/lib/python3/dist-packages/torch", "/usr/lib/python3/dist-packages/numpy", "/usr/lib/*/openblas-*/libblas.so.3"} {
			if there, globErr := filepath.Glob(part); globErr != nil || len(there) == 0 {
				testneeds.Torch.Skipf(t, os.Getenv, "%v", err)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The comparison with PyTorch is complete, and both sides lose the same.
func TestTorch(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("four processes of PyTorch take their time to start")
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	r, err := runScenario(t, "torch", &Options{Rounds: 1, Scale: 20, Only: "mlp_adamw", Self: testSelf(t)})
	needTorch(t, err)
	if len(r.Measurements) != 12 || len(r.Bars) != 2 {
		t.Fatalf("%d measurements and bars %v; expected 12 and 2", len(r.Measurements), r.Bars)
	}
	if b := r.Bars[1]; b.Bar != "torch_losses" || !b.OK {
		t.Errorf("losses are not PyTorch's: %+v", b)
	}
}

// Runs of different lengths are compared for as long as both go on.
func TestTogether(t *testing.T) {
	for _, c := range []struct {
		got, want []float64
		n         int
	}{
		{nil, []float64{1}, 0},
		{[]float64{1, 2}, []float64{1, 2, 3}, 2},
		{[]float64{1, 2, 3}, []float64{1, 2}, 2},
		{[]float64{1, 2.1, 3}, []float64{1, 2, 3}, 1},
		{[]float64{math.NaN()}, []float64{1}, 0},
	} {
		if n := together(c.got, c.want); n != c.n {
			t.Errorf("together(%v, %v) = %d, expected %d", c.got, c.want, n, c.n)
		}
	}
}

// A chain of operations is measured on all sides: ours as one and one after the other,
// PyTorch's with 1 and 2 threads.
func TestKernels(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("two processes of PyTorch take their time to start")
	}
	r, err := runScenario(t, "kernels", &Options{Rounds: 1, Scale: 100, Only: "chain", Self: testSelf(t)})
	needTorch(t, err)
	if len(r.Measurements) != 4 || len(r.Bars) != 2 || !(r.Bars[0].Value > 0) || !(r.Bars[1].Value > 0) {
		t.Errorf("measured %+v, bars %+v", r.Measurements, r.Bars)
	}
}

// TestReferenceBLAS checks that PyTorch on the reference BLAS is refused: the test puts
// another BLAS in the place of the fast one.
func TestReferenceBLAS(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("four processes of PyTorch take their time to start")
	}
	python, err := findTorch(t.Context())
	needTorch(t, err)
	const where = `import torch, numpy
print(torch.__file__, *{line.split()[-1] for line in open("/proc/self/maps") if "/libblas.so" in line})`
	out, err := exec.CommandContext(t.Context(), python, "-c", where).Output()
	if err != nil {
		t.Fatal(err)
	}
	torch, lib, found := strings.Cut(strings.TrimSpace(string(out)), " ")
	if !found {
		if strings.HasPrefix(torch, "/usr/lib/python3/dist-packages/") {
			t.Fatalf("%s is Debian's, and has loaded no libblas.so", torch)
		}
		testneeds.Torch.Skipf(t, os.Getenv, "%s has a BLAS of its own", torch)
	}
	text, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "blas")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "libblas.so.3"), text, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	if python, err := findTorch(t.Context()); !errors.Is(err, ErrNoTorch) {
		t.Errorf("%s, %v; expected ErrNoTorch", python, err)
	}
}
