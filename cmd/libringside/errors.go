package main

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
)

var (
	// errHandle is returned for a handle that is not in use, or is of another kind.
	errHandle = errors.New("ringside: no such handle")

	// errArgument is returned for an argument outside its range.
	errArgument = errors.New("ringside: bad argument")

	// errInterrupted is the cause of a call that ended because of a signal.
	errInterrupted = errors.New("ringside: interrupted by a signal")

	// errPanic is returned for a panic in the library, which is a defect of it or of the
	// arguments that it was called with.
	errPanic = errors.New("ringside: panic in the library: open a new session or group, and report this unless an argument was wrong")
)

// panicked returns the error of a panic with the value r, for the function that
// recovered it. It has the stack of the panic.
func panicked(r any) error { return fmt.Errorf("%w: %v\n%s", errPanic, r, debug.Stack()) }

// failure is the text of an error, which the caller takes once: its kind, and what it
// says.
type failure string

// kinds name the errors that callers in other languages may want to tell apart.
var kinds = []struct {
	err  error
	name string
}{
	{errInterrupted, "interrupted"}, {tensor.ErrShape, "shape"}, {tensor.ErrDType, "dtype"}, {tensor.ErrIndex, "index"},
	{tensor.ErrNoSpace, "memory"}, {tensor.ErrReleased, "released"}, {tensor.ErrNoGrad, "grad"}, {tensor.ErrLost, "lost"}, {tensor.ErrClosed, "closed"},
	{errHandle, "handle"}, {ipc.ErrNoListener, "refused"}, {fs.ErrNotExist, "missing"}, {checkpoint.ErrNone, "missing"},
}

// failureOf returns the failure of an error.
func failureOf(err error) failure {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return failure(k.name + "\n" + err.Error())
		}
	}
	return failure("\n" + err.Error())
}
