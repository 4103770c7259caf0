package nccl

import "fmt"

// Status is a code of NCCL, an ncclResult_t.
type Status int32

// The codes.
const (
	Success            Status = 0
	UnhandledCUDAError Status = 1
	SystemError        Status = 2
	InternalError      Status = 3
	InvalidArgument    Status = 4
	InvalidUsage       Status = 5
	RemoteError        Status = 6
	InProgress         Status = 7
)

var statusNames = map[Status]string{
	Success: "ncclSuccess", UnhandledCUDAError: "ncclUnhandledCudaError", SystemError: "ncclSystemError", InternalError: "ncclInternalError",
	InvalidArgument: "ncclInvalidArgument", InvalidUsage: "ncclInvalidUsage", RemoteError: "ncclRemoteError", InProgress: "ncclInProgress",
}

// String returns the code's name in C.
func (s Status) String() string {
	if name := statusNames[s]; name != "" {
		return name
	}
	return fmt.Sprintf("ncclResult_t %d", int32(s))
}

// Error makes a Status a target of errors.Is.
func (s Status) Error() string { return s.String() }

// Error is a call that failed.
type Error struct {
	Call   string
	Status Status
	Text   string // the library's words on its last error, which may be of another call
}

// Error says which call failed, and how.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %v (%d)", e.Call, e.Status, int32(e.Status))
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text + advice[e.Status]
}

// advice says what to do about a code.
var advice = map[Status]string{
	UnhandledCUDAError: " (NCCL_DEBUG=INFO has the worker's log say more)",
	SystemError:        " (NCCL_DEBUG=INFO has the worker's log say more)",
	InvalidUsage:       " (NCCL takes one worker a GPU; NCCL_DEBUG=WARN has the worker's log say more)",
}

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Status }
