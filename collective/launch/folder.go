package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
)

// folderPrefix begins the names of runs' folders in the runtime folder.
const folderPrefix = "run-"

// folder is a run's own folder in the runtime folder: the rendezvous socket lies in it.
// The launcher holds an flock on it for as long as it lives. A launcher that was killed
// leaves its folder behind, and the next one removes all that are not locked.
type folder struct {
	path string
	file *os.File // open for the lock
}

// makeFolder makes one, and takes away those of launchers that died.
func makeFolder(parent string) (*folder, error) {
	if err := sweep(parent); err != nil {
		return nil, err
	}
	for {
		path, err := os.MkdirTemp(parent, folderPrefix)
		if err != nil {
			return nil, fmt.Errorf("%w; set XDG_RUNTIME_DIR to a directory of this user's own that can be written", plain.Path(limits.Written(parent, err)))
		}
		f, err := hold(path)
		if f != nil || err != nil {
			return f, err
		}
		// Another launcher's sweep came between: it is gone, or about to.
	}
}

// hold locks a folder. It returns nil if another process holds it, or if it is gone.
func hold(path string) (*folder, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, plain.Path(err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		_, err = os.Lstat(path) // the last owner of the lock may have removed it
	}
	switch {
	case err == nil:
		return &folder{path, file}, nil
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, fs.ErrNotExist):
		file.Close()
		return nil, nil
	}
	file.Close()
	return nil, fmt.Errorf("locking %s: %w", plain.Name(path), plain.Path(err))
}

// sweep removes the folders that are not locked.
func sweep(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return plain.Path(err)
	}
	for _, e := range entries {
		if match, _ := filepath.Match(folderPrefix+"[0-9]*", e.Name()); !match || !e.IsDir() {
			continue
		}
		if f, _ := hold(filepath.Join(parent, e.Name())); f != nil {
			f.remove()
		}
	}
	return nil
}

// remove takes the folder away, and lets go of it after that.
func (f *folder) remove() {
	_ = os.RemoveAll(f.path) // what can't be removed now is for the next sweep
	f.file.Close()
}
