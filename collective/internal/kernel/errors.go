package kernel

import "errors"

var (
	// ErrUnsupported is returned for an operation that an element type does not have,
	// such as the xor of floats.
	ErrUnsupported = errors.New("kernel: no such reduction")

	// ErrLevel is returned when this processor, operating system or build cannot run the
	// level asked for.
	ErrLevel = errors.New("kernel: level not supported here")
)
