package cublaslt

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

// call calls f and returns its result as an *Error, or nil. An argument that is a Go
// pointer must be converted to uintptr in the argument list itself.
//
//go:uintptrescapes
func (l *Library) call(f symbol, args ...uintptr) error {
	r, _, _ := purego.SyscallN(l.fn[f], args...)
	if s := Status(int32(r)); s != Success {
		return &Error{Call: symbols[f], Status: s}
	}
	return nil
}

// version calls the one function that can't fail.
func (l *Library) version() int {
	r, _, _ := purego.SyscallN(l.fn[getVersion])
	return int(r)
}

// set sets an attribute of a descriptor or of a preference.
func set[T int32 | uint32 | int64 | uint64](l *Library, f symbol, of uintptr, attribute int, value T) error {
	v := new(T)
	*v = value
	return l.call(f, of, uintptr(attribute), uintptr(unsafe.Pointer(v)), unsafe.Sizeof(value))
}

// get reads an attribute.
func get[T int32 | uint32 | int64 | uint64](l *Library, f symbol, of uintptr, attribute int) (T, error) {
	v, written := new(T), new(uint64)
	err := l.call(f, of, uintptr(attribute), uintptr(unsafe.Pointer(v)), unsafe.Sizeof(*v), uintptr(unsafe.Pointer(written)))
	return *v, err
}

// ofAlgorithm reads an attribute of an algorithm.
func ofAlgorithm(l *Library, a *algorithm, attribute int) (uint32, error) {
	v, written := new(uint32), new(uint64)
	err := l.call(algoGet, uintptr(unsafe.Pointer(a)), uintptr(attribute), uintptr(unsafe.Pointer(v)), unsafe.Sizeof(*v), uintptr(unsafe.Pointer(written)))
	return *v, err
}

// made calls a function whose first parameter is a pointer to what it makes.
//
//go:uintptrescapes
func (l *Library) made(f symbol, args ...uintptr) (uintptr, error) {
	var a [5]uintptr
	copy(a[:], args)
	p := new(uintptr)
	err := l.call(f, uintptr(unsafe.Pointer(p)), a[0], a[1], a[2], a[3], a[4])
	return *p, err
}
