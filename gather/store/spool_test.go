package store

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/gather/outcome"
)

// TestSpoolError wants errors of the spool's file system to be SPOOL, whatever they are,
// and what to do for one that has no room.
func TestSpoolError(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EFBIG: false, syscall.EIO: false} {
		err := spoolError(t.TempDir(), &fs.PathError{Op: "write", Path: "x", Err: errno})
		if outcome.Of(err) != outcome.Spool || !errors.Is(err, errno) || strings.Contains(err.Error(), "make room there") != want {
			t.Errorf("%v: %v, advice about room: expected %v", errno, err, want)
		}
	}
	if err := spoolError("x", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
