package memory

import "errors"

var (
	// ErrLost is returned by every call after the device failed in a way that a process
	// can't recover from. The text holds the first error.
	ErrLost = errors.New("memory: the device is lost")

	// ErrBadExport is returned for an Export of another process that can't be opened.
	ErrBadExport = errors.New("memory: bad export")

	// ErrUnreached is returned for memory of another device that this one does not reach.
	ErrUnreached = errors.New("memory: the device is not reached")
)
