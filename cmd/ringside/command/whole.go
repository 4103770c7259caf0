package command

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
)

// writeWhole writes the file at path. After an error a file that was there has its old
// content, and none is made. A file that no new one can stand in for is written to as it
// is; see replaceable.
func writeWhole(path string, write func(io.Writer) error) error {
	mode, ok := replaceable(path)
	if !ok {
		f, err := os.Create(path)
		if err != nil {
			return named(path, err)
		}
		return named(path, errors.Join(write(f), f.Close()))
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".ringside-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return named(path, err)
	}
	if err = write(f); mode != 0 {
		err = errors.Join(err, f.Chmod(mode))
	}
	if err == nil {
		err = f.Sync()
	}
	err = named(path, err)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// replaceable reports whether a new file can take the place of the one at path, and the
// mode that it must have: 0, which is up to the system, if there is none yet. It can't if
// a link, a pipe or a device is there, a mount, a file with more names, of another user
// or group, one that this process may not write to, or one in a folder that it may not.
func replaceable(path string) (mode fs.FileMode, ok bool) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &st)
	if err != nil {
		return 0, err == unix.ENOENT
	}
	ok = st.Mode&unix.S_IFMT == unix.S_IFREG && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 &&
		st.Nlink == 1 && int(st.Uid) == os.Geteuid() && int(st.Gid) == os.Getegid() &&
		unix.Access(path, unix.W_OK) == nil && unix.Access(filepath.Dir(path), mayWrite) == nil
	return fs.FileMode(st.Mode).Perm(), ok
}

// named returns an error of writing that names the file once, and what bounded the write.
func named(path string, err error) error {
	if p := new(fs.PathError); errors.As(err, &p) {
		err = fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", plain.Name(path), limits.Written(path, plain.Path(err)))
}
