package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWritten wants the figures of each bound in the error, once, and the error itself.
func TestWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no folder", "file")
	for errno, want := range map[unix.Errno]string{
		unix.ENOSPC: "its file system has ",
		unix.EFBIG:  "the file system has no larger files",
		unix.EDQUOT: "quota",
		unix.EIO:    "",
	} {
		err := error(&fs.PathError{Op: "write", Path: path, Err: errno})
		got := Written(path, err)
		if !errors.Is(got, errno) || !strings.HasPrefix(got.Error(), err.Error()) || !strings.Contains(got.Error(), want) {
			t.Errorf("%v: %v, expected %q in it", errno, got, want)
		}
		if (want == "") != (got == err) {
			t.Errorf("%v became %v", err, got)
		}
		if again := Written(path, fmt.Errorf("more: %w", got)); again.Error() != "more: "+got.Error() {
			t.Errorf("%v: a second time it became %v", errno, again)
		}
	}
	if Written(path, nil) != nil {
		t.Error("nil became an error")
	}
}
