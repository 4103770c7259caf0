package bench

import (
	"errors"
	"fmt"
)

// ErrUnknown is returned for a scenario or a model that there is none of.
var ErrUnknown = errors.New("bench: unknown")

// ErrNoGPU is returned by the scenario gpu on a machine without a GPU that can be used.
var ErrNoGPU = errors.New("bench: no GPU; ringside doctor says why")

// ErrNoTorch is returned by the scenarios that compare with PyTorch on a machine that has
// none, or only one with the reference BLAS.
var ErrNoTorch = errors.New("bench: no PyTorch with a fast BLAS; install it by: apt-get install python3-torch libopenblas0-openmp")

// ErrNoBackend is returned by the scenarios python and torch-backend on a machine whose
// Python does not find the package ringside and its library.
var ErrNoBackend = errors.New("bench: no ringside for Python; build it by make python, and activate an environment with the wheel, or set PYTHONPATH to the absolute path of cmd/libringside/python")

// failure is what check panics with and try recovers. Scenarios and the parts of a play
// are scripts: each ends at its first error, as a benchmark of package testing ends at
// Fatal.
type failure struct{ error }

// check ends the script that try runs if err is not nil.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns x, or ends the script as check does.
func must[T any](x T, err error) T {
	check(err)
	return x
}

// try runs a script and returns the error that it ended at.
func try(script func()) (err error) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case failure:
			err = x.error
		default:
			panic(x)
		}
	}()
	script()
	return nil
}

// within runs a part of a script, whose name an error then begins with.
func within(name string, part func()) {
	if err := try(part); err != nil {
		check(fmt.Errorf("%s: %w", name, err))
	}
}
