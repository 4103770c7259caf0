package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

// lock is the right to a socket's path: an flock on path.lock, which the kernel releases
// when the process dies. Its holder may remove a socket that a dead process left.
type lock struct {
	file *os.File
	path string
}

// lockSuffix makes the lock's path of the socket's.
const lockSuffix = ".lock"

// takeLock locks path, or returns ErrAddrInUse naming the process that has it.
func takeLock(path string) (*lock, error) {
	name := path + lockSuffix
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) {
			return nil, noDir(filepath.Dir(path), err)
		}
		if err != nil {
			return nil, fmt.Errorf("local: %w", err)
		}
		if err := flock(f); err != nil {
			defer f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("%w: %s (%s)", ipc.ErrAddrInUse, path, holder(f))
			}
			return nil, &os.PathError{Op: "flock", Path: name, Err: err}
		}
		// The previous owner may have removed the file between our open and our lock:
		// then this is the lock of a file that no other process will find.
		if same(f, name) {
			if err := writePID(f); err != nil {
				f.Close()
				return nil, fmt.Errorf("local: %w", err)
			}
			return &lock{file: f, path: name}, nil
		}
		f.Close()
	}
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			return err
		}
	}
}

func same(f *os.File, name string) bool {
	opened, err1 := f.Stat()
	named, err2 := os.Lstat(name)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder says which process wrote the lock file, as far as that can be told.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	pid, errPID := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || errPID != nil {
		return "pid not known"
	}
	return "pid " + strconv.Itoa(pid)
}

// release removes the file while it is still locked, and then lets go of it.
func (l *lock) release() error {
	err := os.Remove(l.path)
	if e := l.file.Close(); err == nil {
		err = e
	}
	return err
}
