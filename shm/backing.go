package shm

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/limits"
)

// Backing is what kind of file a segment is.
type Backing int

const (
	// Auto is Tmpfs where that has room, else Memfd.
	Auto Backing = iota

	// Tmpfs is a file without a name in Options.Dir. It counts against the size of
	// that file system, and it cannot be sealed: a peer that is given a writable
	// descriptor can truncate it, after which touching it is SIGBUS.
	Tmpfs

	// Memfd is a sealed file of memfd_create: no process can change its size any more. It
	// counts only against the machine's memory.
	Memfd

	// Reserved is no file: addresses of memory that only a device can reach, such as that
	// of a GPU. Blocks of them are counted, leased and named like others, but touching
	// their bytes faults. The memory itself is made by ArenaOptions.NewSegment.
	Reserved

	// Private is no file: memory of this process alone, in ordinary pages, each of which
	// comes with its first touch. It is for memory that must go back to the system at a
	// known time, which memory of Go's heap does not.
	Private
)

// String is for logs and errors.
func (b Backing) String() string {
	if names := [...]string{"auto", "tmpfs", "memfd", "reserved", "private"}; b >= 0 && int(b) < len(names) {
		return names[b]
	}
	return "backing " + strconv.Itoa(int(b))
}

// defaultDir is where Linux has its shared memory file system.
const defaultDir = "/dev/shm"

// newBacking returns a file of size bytes, all of them allocated.
func newBacking(size int64, o *Options) (*os.File, Backing, error) {
	dir, kind := o.Dir, o.Backing
	if o.Sparse && kind != Memfd {
		return nil, kind, fmt.Errorf("shm: Sparse with a segment of %v, expected %v", kind, Memfd)
	}
	// Neither file system refuses more than there is: the kernel would kill a process
	// instead. So ask first, except for memory that may never be needed.
	if !o.Sparse {
		if err := checkMemory(size); err != nil {
			return nil, kind, err
		}
	}
	switch kind {
	case Tmpfs:
		f, err := newTmpfs(size, dir)
		return f, Tmpfs, err
	case Memfd:
		f, err := newMemfd(size, o)
		return f, Memfd, err
	case Auto:
		f, err := newTmpfs(size, dir)
		if err == nil {
			return f, Tmpfs, nil
		}
		f, err2 := newMemfd(size, o)
		if err2 != nil {
			return nil, Memfd, fmt.Errorf("%w; then %w", err, err2)
		}
		return f, Memfd, nil
	}
	return nil, kind, fmt.Errorf("shm: unknown %v", kind)
}

// newTmpfs makes a file without a name in dir. O_EXCL says that it will never
// have one.
func newTmpfs(size int64, dir string) (*os.File, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	// fallocate would find out too, but only after it has filled what there is.
	if free := int64(st.Bavail) * st.Bsize; st.Blocks != 0 && free < size {
		return nil, fmt.Errorf("%w: %d bytes asked, %s has %d free of %d: remove files there, or enlarge it (mount -o remount,size=), or use memory without a folder (memfd)",
			ErrNoSpace, size, dir, free, int64(st.Blocks)*st.Bsize)
	}
	fd, err := openRetry(dir, unix.O_TMPFILE|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open O_TMPFILE", Path: dir, Err: err}
	}
	f := os.NewFile(uintptr(fd), dir+"/(segment)")
	if err := allocate(f, size); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return f, nil
}

// newMemfd makes a file that is in no file system, and seals its size. Further seals can
// be added to one of PeersRead.
func newMemfd(size int64, o *Options) (*os.File, error) {
	fd, err := unix.MemfdCreate("ringside", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		err = os.NewSyscallError("memfd_create", err)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			err = fmt.Errorf("%w: allow it in the seccomp profile of this container or service", err)
		}
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "memfd:ringside")
	if o.Sparse {
		err = sizeError("ftruncate", size, unix.Ftruncate(int(f.Fd()), size))
	} else {
		err = allocate(f, size)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("memfd: %w", err)
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	if !o.PeersRead {
		seals |= unix.F_SEAL_SEAL
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, os.NewSyscallError("F_ADD_SEALS", err)
	}
	return f, nil
}

// writeProtect returns the descriptor of f to be given to peers that must not write. The
// existing mapping keeps writing. It closes f if it returns another descriptor.
func writeProtect(f *os.File, kind Backing) (*os.File, error) {
	if kind == Memfd {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL); err != nil {
			return f, os.NewSyscallError("F_ADD_SEALS", err)
		}
		return f, nil
	}
	path := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	fd, err := openRetry(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		err = &os.PathError{Op: "open for reading", Path: path, Err: err}
		if errors.Is(err, unix.ENOENT) {
			err = fmt.Errorf("%w: mount /proc here, or use memory without a folder (memfd)", err)
		}
		return f, err
	}
	name := f.Name()
	f.Close()
	return os.NewFile(uintptr(fd), name), nil
}

// allocate gives the file its size and every page of it. ftruncate alone would
// succeed beyond what there is and leave it to a later store to be killed.
func allocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			// The runtime's own preemption signal can interrupt it; tmpfs has then
			// given everything back.
		default:
			return sizeError("fallocate", size, err)
		}
	}
}

// sizeError returns the error of a call that gives a file its size: ErrNoSpace where a
// smaller file could be made.
func sizeError(call string, size int64, err error) error {
	switch {
	case errors.Is(err, unix.EFBIG):
		return fmt.Errorf("%w: %s of %d bytes: %w: memory that is shared is a file, and %s", ErrNoSpace, call, size, err, limits.FileSize())
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w: %s of %d bytes: %w", ErrNoSpace, call, size, err)
	}
	return os.NewSyscallError(call, err)
}

func openRetry(path string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Open(path, flags, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// checkMemory refuses what is more than this process can still get. It is a check and no
// reservation.
func checkMemory(size int64) error {
	if m := (limits.Machine{}).Memory(); size > m.Free {
		return fmt.Errorf("%w: %d bytes asked, %v", ErrNoSpace, size, m)
	}
	return nil
}
