package bench

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
)

// TestPython: both clients do all that is timed, if the Python package has its library.
func TestPython(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("a cluster and Python take their time to start")
	}
	pkg, err := filepath.Abs("../cmd/libringside/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(pkg, "ringside", "libringside.so")); err != nil {
		t.Skip("make python builds what this test needs:", err)
	}
	t.Setenv("PYTHONPATH", pkg)
	r, err := runScenario(t, "python", &Options{Rounds: 1, Scale: 20, Self: testSelf(t)})
	if errors.Is(err, ErrNoBackend) {
		t.Skip("no Python with NumPy:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Measurements) != 8 || len(r.Bars) != 4 {
		t.Errorf("%+v", r)
	}
	for _, b := range r.Bars {
		if !(b.Value > 0) {
			t.Errorf("%s is %g", b.Bar, b.Value)
		}
	}
}
