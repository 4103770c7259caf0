package kernel

import "errors"

var (
	// ErrUnsupported is returned when this processor, operating system or build cannot run the level asked for.
	ErrUnsupported = errors.New("kernel: level not supported here")

	// ErrLevel is returned when a text names no level.
	ErrLevel = errors.New("kernel: unknown level")
)
