package cublaslt

import "fmt"

// Status is a code of cuBLASLt, a cublasStatus_t.
type Status int32

// The codes.
const (
	Success         Status = 0
	NotInitialized  Status = 1
	AllocFailed     Status = 3
	InvalidValue    Status = 7
	ArchMismatch    Status = 8
	MappingError    Status = 11
	ExecutionFailed Status = 13
	InternalError   Status = 14
	NotSupported    Status = 15
	LicenseError    Status = 16
)

var statusNames = map[Status]string{
	Success: "CUBLAS_STATUS_SUCCESS", NotInitialized: "CUBLAS_STATUS_NOT_INITIALIZED", AllocFailed: "CUBLAS_STATUS_ALLOC_FAILED",
	InvalidValue: "CUBLAS_STATUS_INVALID_VALUE", ArchMismatch: "CUBLAS_STATUS_ARCH_MISMATCH", MappingError: "CUBLAS_STATUS_MAPPING_ERROR",
	ExecutionFailed: "CUBLAS_STATUS_EXECUTION_FAILED", InternalError: "CUBLAS_STATUS_INTERNAL_ERROR",
	NotSupported: "CUBLAS_STATUS_NOT_SUPPORTED", LicenseError: "CUBLAS_STATUS_LICENSE_ERROR",
}

// String returns the code's name in C.
func (s Status) String() string {
	if name := statusNames[s]; name != "" {
		return name
	}
	return fmt.Sprintf("cublasStatus_t %d", int32(s))
}

// Error makes a Status a target of errors.Is.
func (s Status) Error() string { return s.String() }

// Error is a call that failed.
type Error struct {
	Call   string
	Status Status
}

// Error says which call failed, and how.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v (%d)", e.Call, e.Status, int32(e.Status)) }

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Status }
