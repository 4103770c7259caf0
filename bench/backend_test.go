package bench

import (
	"errors"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
)

// TestBackend: both back ends make all calls, if the Python package has its library.
func TestBackend(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("twelve processes of PyTorch take their time to start")
	}
	withPython(t)
	r, err := runScenario(t, "torch-backend", &Options{Rounds: 1, Scale: 100, Self: testSelf(t)})
	needTorch(t, err)
	if len(r.Measurements) != 3*(2*len(backendCases)-1) || len(r.Bars) != 5 || !(r.Bars[0].Value > 0) {
		t.Errorf("%+v", r)
	}
}

// TestNoBackend: without the package the scenario says how to get it.
func TestNoBackend(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("PyTorch takes its time to start")
	}
	t.Setenv("PYTHONPATH", t.TempDir())
	if _, err := runScenario(t, "torch-backend", &Options{Self: testSelf(t)}); !errors.Is(err, ErrNoBackend) {
		needTorch(t, err)
		t.Error("measured without the package")
	}
}
