package shm

import "errors"

var (
	// ErrNoSpace is returned when there is no memory for a segment: the file
	// system is full, the machine has none left, or a limit that was set is
	// reached. It is returned when space is asked for, never later by a signal.
	ErrNoSpace = errors.New("shm: no space")

	// ErrClosed is returned by what is called after Close.
	ErrClosed = errors.New("shm: closed")

	// ErrUnknownSegment is returned for a handle into a segment that is not there.
	ErrUnknownSegment = errors.New("shm: unknown segment")

	// ErrBounds is returned for a handle that leaves its segment, or is not that
	// of a block.
	ErrBounds = errors.New("shm: handle out of bounds")

	// ErrNotLive is returned for a handle of a block that has been released.
	ErrNotLive = errors.New("shm: block not live")

	// ErrNotLeased is returned by Unlease for a block that the owner does not hold.
	ErrNotLeased = errors.New("shm: not leased to this owner")

	// ErrBadFile is returned for a descriptor that cannot be a segment: not a
	// regular file, shorter than said, or with holes.
	ErrBadFile = errors.New("shm: not a segment")

	// ErrExists is returned by Table.Add for a segment that the owner has added.
	ErrExists = errors.New("shm: segment exists")

	// ErrTimeout is returned by FutexWait when it was not woken in time.
	ErrTimeout = errors.New("shm: futex timeout")
)
