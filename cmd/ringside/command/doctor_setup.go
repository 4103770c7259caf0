package command

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/data"
)

// mayWrite asks whether files can be made in a folder.
const mayWrite = unix.W_OK | unix.X_OK

func (h *host) runtimeFolder(context.Context) finding {
	_, err := os.Lstat(h.runtimeDir)
	if errors.Is(err, fs.ErrNotExist) {
		if parent := filepath.Dir(h.runtimeDir); !exists(parent) {
			return broken("set XDG_RUNTIME_DIR to a folder of yours, or unset it", "%s, and %s does not exist", h.runtimeDir, parent)
		} else if err := unix.Access(parent, mayWrite); err != nil {
			return broken("set XDG_RUNTIME_DIR to a folder of yours that can be written, or unset it", "%s can't be made in %s: %v", h.runtimeDir, parent, err)
		}
		return found("%s, not made yet", h.runtimeDir)
	}
	if err == nil {
		err = local.PrepareDir(h.runtimeDir)
	}
	if err != nil {
		return broken("remove it, or set XDG_RUNTIME_DIR to a folder of yours with mode 0700", "%v", err)
	}
	if err := unix.Access(h.runtimeDir, mayWrite); err != nil {
		return broken("set XDG_RUNTIME_DIR to a folder of yours that can be written", "%s: no sockets can be made there: %v", h.runtimeDir, err)
	}
	return found("%s", h.runtimeDir)
}

func (h *host) images(context.Context) finding {
	files, err := data.FindImages(h.path(data.FashionMNISTDir))
	if err != nil {
		return warned("apt-get install dataset-fashion-mnist, or give image models --data FOLDER", "not in %s", data.FashionMNISTDir)
	}
	return found("%s", filepath.Dir(files.TrainImages))
}

func (h *host) text(context.Context) finding {
	path, err := data.FindText()
	if err != nil {
		return warned("give language models --data FILE", "no Go sources found")
	}
	return found("%s", path)
}
