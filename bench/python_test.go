package bench

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/shm/testneeds"
)

// withPython has the scenario's Python find the package, if make python has built its
// library.
func withPython(t *testing.T) {
	t.Helper()
	pkg, err := filepath.Abs("../cmd/libringside/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(pkg, "ringside", "libringside.so")); err != nil {
		testneeds.Python.Skipf(t, os.Getenv, "make python builds what this test needs: %v", err)
	}
	t.Setenv("PYTHONPATH", pkg)
}

// TestPython: both clients do all that is timed, if the Python package has its library.
func TestPython(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("a cluster and Python take their time to start")
	}
	withPython(t)
	r, err := runScenario(t, "python", &Options{Rounds: 1, Scale: 20, Self: testSelf(t)})
	if errors.Is(err, ErrNoBackend) {
		testneeds.Python.Skipf(t, os.Getenv, "%v", err)
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

// TestPythons: the interpreter of a virtual environment that is active comes first.
func TestPythons(t *testing.T) {
	env := t.TempDir()
	found := filepath.Join(env, "bin", "python3")
	if err := errors.Join(os.Mkdir(filepath.Dir(found), 0o700), os.WriteFile(found, nil, 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(found))
	if p := pythons(); p[0] != "/usr/bin/python3" {
		t.Errorf("%q: a folder of programs is no environment", p)
	}
	if err := os.WriteFile(filepath.Join(env, "pyvenv.cfg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := pythons(); p[0] != found {
		t.Errorf("%q, expected %s first", p, found)
	}
}
