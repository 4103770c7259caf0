package dlopen

import (
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// library holds the addresses of the functions of one loaded library.
type library struct {
	fn    [symbolCount]uintptr
	calls [symbolCount]atomic.Uint64 // see driver.Counted
}

// Calls implements driver.Counted.
func (l *library) Calls() (n uint64) {
	for f := range l.calls {
		switch symbol(f) {
		case ctxSetCurrent, ctxGetCurrent, eventQuery, streamQuery:
		default:
			n += l.calls[f].Load()
		}
	}
	return n
}

// CallsByName implements driver.Counted.
func (l *library) CallsByName() map[string]uint64 {
	calls := map[string]uint64{}
	for f := range l.calls {
		if n := l.calls[f].Load(); n > 0 {
			calls[symbols[f]] = n
		}
	}
	return calls
}

// call calls f and returns its result as an *driver.Error, or nil. An argument that is a
// Go pointer must be converted to uintptr in the argument list itself.
//
//go:uintptrescapes
func (l *library) call(f symbol, args ...uintptr) error {
	l.calls[f].Add(1)
	r, _, _ := purego.SyscallN(l.fn[f], args...)
	if r := driver.Result(int32(r)); r != driver.Success {
		return &driver.Error{Call: symbols[f], Result: r}
	}
	return nil
}

// get calls a function whose first parameter is a pointer to its result. At most 5 args
// follow; the rest is passed as zeros, which a C function with fewer parameters ignores.
func get[T any](l *library, f symbol, args ...uintptr) (T, error) {
	var a [5]uintptr
	copy(a[:], args)
	v := new(T)
	err := l.call(f, uintptr(unsafe.Pointer(v)), a[0], a[1], a[2], a[3], a[4])
	return *v, err
}

// get2 calls a function whose first two parameters are pointers to its results. At most 4
// args follow.
func get2[T, U any](l *library, f symbol, args ...uintptr) (T, U, error) {
	var a [4]uintptr
	copy(a[:], args)
	v, w := new(T), new(U)
	err := l.call(f, uintptr(unsafe.Pointer(v)), uintptr(unsafe.Pointer(w)), a[0], a[1], a[2], a[3])
	return *v, *w, err
}
