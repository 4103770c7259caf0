package kernel

import "errors"

// ErrUnsupported is returned for an operation that an element type does not have, such as
// the xor of floats.
var ErrUnsupported = errors.New("kernel: no such reduction")
