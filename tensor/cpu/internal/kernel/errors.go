package kernel

import "errors"

// ErrUnsupported is returned when this processor, operating system or build cannot run
// the level asked for.
var ErrUnsupported = errors.New("kernel: level not supported here")
