package limits

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// roomError is an error of Written with its figures.
type roomError struct {
	error
	figures string
}

func (e *roomError) Error() string { return e.error.Error() + ": " + e.figures }

// Unwrap returns the system's error.
func (e *roomError) Unwrap() error { return e.error }

// Written adds to an error of writing the file at path what bounded it, if something did:
// how much the file system has and how much of it is free, or the limit of the size of
// files. It is called before what was written is removed. The path of a descriptor is
// /proc/self/fd/N.
func Written(path string, err error) error {
	if errors.As(err, new(*roomError)) {
		return err
	}
	switch {
	case errors.Is(err, unix.EFBIG):
		return &roomError{err, FileSize()}
	case errors.Is(err, unix.EDQUOT):
		return &roomError{err, "this user's quota there is used up"}
	case errors.Is(err, unix.ENOSPC):
		if figures := roomAt(path); figures != "" {
			return &roomError{err, figures}
		}
	}
	return err
}

// FileSize says how large a file of this process may be, and how to raise that.
func FileSize() string {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &l) != nil || l.Cur == unix.RLIM_INFINITY {
		return "the file system has no larger files"
	}
	return fmt.Sprintf("a file of this process may have %d bytes: raise it by ulimit -f, or LimitFSIZE= in a service", l.Cur)
}

// roomAt returns figures of the file system that path is in, or would be in. They are
// empty if they can't be read.
func roomAt(path string) string {
	var st unix.Statfs_t
	for unix.Statfs(path, &st) != nil {
		up := filepath.Dir(path)
		if up == path {
			return ""
		}
		path = up
	}
	if st.Files > 0 && st.Ffree == 0 {
		return fmt.Sprintf("its file system has all %d files that it may have", st.Files)
	}
	return fmt.Sprintf("its file system has %d bytes, of which %d are free", st.Blocks*uint64(st.Bsize), st.Bavail*uint64(st.Bsize))
}
