package kernel

import "errors"

var (
	// ErrUnsupported is returned when an operation has no meaning for a type of elements, such as the xor of floats.
	ErrUnsupported = errors.New("kernel: no such reduction")

	// ErrLevel is returned when this processor, operating system or build cannot run the level asked for.
	ErrLevel = errors.New("kernel: level not supported here")
)
