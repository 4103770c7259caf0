package safetensors

import "errors"

var (
	// ErrFormat is returned when a file breaks a rule of the format, or a tensor
	// given to the writer would.
	ErrFormat = errors.New("safetensors: bad format")

	// ErrTruncated is returned when a file is shorter than it says.
	ErrTruncated = errors.New("safetensors: truncated")

	// ErrNotFound is returned when a file holds no tensor of the name.
	ErrNotFound = errors.New("safetensors: no such tensor")

	// ErrMismatch is returned when a tensor is read into a buffer of another type or
	// length.
	ErrMismatch = errors.New("safetensors: type or length differs")
)
