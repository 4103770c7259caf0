package main

import "errors"

var (
	// errHandle is returned for a handle that is not in use, or is of another kind.
	errHandle = errors.New("ringside: no such handle")

	// errArgument is returned for an argument outside its range.
	errArgument = errors.New("ringside: bad argument")

	// errInterrupted is the cause of a call that ended because of a signal.
	errInterrupted = errors.New("ringside: interrupted by a signal")
)
