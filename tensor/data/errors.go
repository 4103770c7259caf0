package data

import "errors"

var (
	// ErrFormat is returned when a file is not what its reader expects: a wrong magic
	// number, inconsistent sizes, bytes after the end.
	ErrFormat = errors.New("data: bad format")

	// ErrTruncated is returned when a file ends before what it announces.
	ErrTruncated = errors.New("data: truncated")

	// ErrTooLarge is returned when a file announces or holds more than the limit.
	ErrTooLarge = errors.New("data: over the limit")

	// ErrMismatch is returned when two files, or a file and a caller's buffer, have
	// different sizes.
	ErrMismatch = errors.New("data: sizes differ")

	// ErrNotFound is returned when no searched folder holds the data. The error lists the
	// folders and says how to get the data.
	ErrNotFound = errors.New("data: not found")
)
