package cpu

import "errors"

// ErrInternal is returned when running a program panicked, which is a bug of this
// package, or a fault in memory that a peer unmapped. The program has failed as any other
// may.
var ErrInternal = errors.New("cpu: internal error")

// ErrOption is returned by New for an option out of its range.
var ErrOption = errors.New("cpu: bad option")
