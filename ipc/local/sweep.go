package local

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Sweep removes from dir the sockets, and their locks, of listeners that were killed:
// those whose name begins with one of the prefixes and whose lock is free. It must be
// used only for names that are never used twice, because it may remove a socket while a
// second listener is taking its path over. It logs and returns the number removed and the
// errors.
// Any number of processes may sweep and listen at once.
func Sweep(dir string, log *slog.Logger, prefixes ...string) (int, error) {
	removed, err := sweep(dir, prefixes)
	if err != nil {
		log.Warn("sockets of the dead stay", "dir", dir, "err", err)
	}
	if removed > 0 {
		log.Info("sockets of the dead removed", "dir", dir, "count", removed)
	}
	return removed, err
}

func sweep(dir string, prefixes []string) (int, error) {
	if err := checkDir(dir); err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("local: %w", err)
	}
	removed := 0
	var failed []error
	for _, e := range entries {
		path, isLock := strings.CutSuffix(filepath.Join(dir, e.Name()), lockSuffix)
		ours := func(prefix string) bool { return strings.HasPrefix(e.Name(), prefix) }
		if !isLock || !slices.ContainsFunc(prefixes, ours) || !e.Type().IsRegular() {
			continue
		}
		switch ok, err := sweepPath(path); {
		case err != nil:
			failed = append(failed, err)
		case ok:
			removed++
		}
	}
	return removed, errors.Join(failed...)
}

// sweepPath removes the socket at path and its lock if a process wrote the lock and no
// longer holds it. An empty lock is left alone: its owner is about to lock it.
func sweepPath(path string) (bool, error) {
	f, err := os.OpenFile(path+lockSuffix, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // its owner, or another sweep
	}
	if err != nil {
		return false, fmt.Errorf("local: %w", err)
	}
	l := &lock{file: f, path: path + lockSuffix}
	if info, err := f.Stat(); err != nil || info.Size() == 0 || flock(f) != nil || !same(f, l.path) {
		f.Close()
		return false, nil
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil {
			f.Close()
			return false, fmt.Errorf("local: %w", err)
		}
	}
	if err := l.release(); err != nil {
		return false, fmt.Errorf("local: %w", err)
	}
	return true, nil
}
