package drivertest

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os/exec"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// Options tells the suite about the implementation.
type Options struct {
	// Child returns a command that calls Child with an API of the same library.
	Child func() *exec.Cmd

	// Initialized says that the implementation calls cuInit when it is loaded: the cases
	// of calls before Init are left out.
	Initialized bool
}

// env is an initialized API and the context that cases run in.
type env struct {
	driver.API
	options Options
	device  driver.Device
	context driver.Context
}

// bound runs f as a subtest on a thread with the context. A subtest of f would run on
// another thread.
func (e *env) bound(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		if err := driver.Bind(e, e.context, func() error { f(t); return nil }); err != nil {
			t.Error(err)
		}
	})
}

// must returns v, or ends the test with err.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func code(err error) driver.Result {
	var e *driver.Error
	switch {
	case err == nil:
		return driver.Success
	case errors.As(err, &e):
		return e.Result
	}
	return -1
}

// fails drops the result of a call.
func fails[T any](_ T, err error) error { return err }

// noise returns n bytes that differ between seeds.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), seed)))
	r.Read(b)
	return b
}
