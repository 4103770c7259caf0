package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/ringside-go/ringside/shm/limits"
)

// ErrUnsafeDir is returned by PrepareDir and Listen for a directory in which other users
// can create or replace files.
var ErrUnsafeDir = errors.New("local: unsafe directory")

// ErrNoDir is returned by PrepareDir and Listen where the directory can't be made or is
// not to be written to.
var ErrNoDir = errors.New("local: no directory for sockets")

// Dir is where the sockets of this user lie: DirIn of $XDG_RUNTIME_DIR, which is how the
// system tells a user's processes where such things belong, so that they find each other.
func Dir() string { return DirIn(os.Getenv("XDG_RUNTIME_DIR")) }

// DirIn is runtimeDir/ringside, or /tmp/ringside-UID when runtimeDir is empty or
// relative, which the XDG Base Directory Specification calls invalid: it would be another
// one from every working directory.
func DirIn(runtimeDir string) string {
	if filepath.IsAbs(runtimeDir) {
		return filepath.Join(runtimeDir, "ringside")
	}
	return filepath.Join("/tmp", "ringside-"+strconv.Itoa(os.Getuid()))
}

// DispatcherAddr returns the default address of the dispatcher whose sockets lie in dir.
func DispatcherAddr(dir string) string { return filepath.Join(dir, "dispatcher") }

// PrepareDir makes the directory with mode 0700 if it is missing, and checks that it
// belongs to this user and that no other can write to it: ErrUnsafeDir otherwise. It
// returns ErrNoDir if it cannot make it.
func PrepareDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return noDir(dir, err)
	}
	return checkDir(dir)
}

// noDir is the error of a file that cannot be made in dir, or of dir itself.
func noDir(dir string, err error) error {
	return fmt.Errorf("%w: %w; %s", ErrNoDir, limits.Written(dir, err), remedy(dir))
}

// checkDir checks the directory itself and does not follow a link: in /tmp the link could
// be any user's.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is %s, expected a directory", ErrUnsafeDir, dir, info.Mode().Type())
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%w: %s: owner not known", ErrUnsafeDir, dir)
	}
	if int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%w: %s belongs to user %d, expected %d; %s", ErrUnsafeDir, dir, st.Uid, os.Getuid(), remedy(dir))
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return fmt.Errorf("%w: %s has mode %#o, others may write; expected 0700; %s", ErrUnsafeDir, dir, perm, remedy(dir))
	}
	return nil
}

// remedy says which directory to use instead of dir.
func remedy(dir string) string {
	if own := Dir(); filepath.Clean(dir) != own {
		return "use a directory of this user's own, such as " + own
	}
	return "set XDG_RUNTIME_DIR to a directory of this user's own"
}
