package nccl

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

// maxText bounds what is read of the library's last error.
const maxText = 400

// call calls f and returns its result as an *Error, or nil; ncclInProgress is no failure.
// An argument that is a Go pointer must be converted to uintptr in the argument list
// itself. comm is the one whose last error is told, 0 for none.
//
//go:uintptrescapes
func (l *Library) call(comm uintptr, f symbol, args ...uintptr) error {
	r, _, _ := purego.SyscallN(l.fn[f], args...)
	return l.failure(comm, f, Status(int32(r)))
}

// failure returns the error of a code, or nil.
func (l *Library) failure(comm uintptr, f symbol, s Status) error {
	if s == Success || s == InProgress {
		return nil
	}
	return &Error{Call: symbols[f], Status: s, Text: l.last(comm)}
}

// last returns the library's words on the last error.
func (l *Library) last(comm uintptr) string {
	r, _, _ := purego.SyscallN(l.fn[lastError], comm)
	if r == 0 {
		return ""
	}
	// The text is the library's own, and ends with a zero byte.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&r))
	var text []byte
	for i := range maxText {
		c := *(*byte)(unsafe.Add(p, i))
		if c == 0 {
			break
		}
		text = append(text, c)
	}
	return string(text)
}

// version returns the library's number.
func (l *Library) version() (int, error) {
	v := new(int32)
	err := l.call(0, getVersion, uintptr(unsafe.Pointer(v)))
	return int(*v), err
}
