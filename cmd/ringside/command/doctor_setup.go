package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/data"
)

func (h *host) runtimeFolder(context.Context) finding {
	f := finding{Name: "runtime folder", Status: good, Found: h.runtimeDir}
	_, err := os.Lstat(h.runtimeDir)
	if errors.Is(err, fs.ErrNotExist) {
		f.Found += ", not made yet"
		if parent := filepath.Dir(h.runtimeDir); !exists(parent) {
			f.Status, f.Found, f.Do = bad, fmt.Sprintf("%s, and %s does not exist", h.runtimeDir, parent), "set XDG_RUNTIME_DIR to a folder of yours, or unset it"
		}
		return f
	}
	if err == nil {
		err = local.PrepareDir(h.runtimeDir)
	}
	if err != nil {
		f.Status, f.Found, f.Do = bad, err.Error(), "remove it, or set XDG_RUNTIME_DIR to a folder of yours with mode 0700"
	}
	return f
}

func (h *host) images(context.Context) finding {
	f := finding{Name: "Fashion-MNIST", Status: good}
	files, err := data.FindImages(h.path(data.FashionMNISTDir))
	if err != nil {
		f.Status, f.Found = poor, "not in "+data.FashionMNISTDir
		f.Do = "apt-get install dataset-fashion-mnist, or give image models --data FOLDER"
		return f
	}
	f.Found = filepath.Dir(files.TrainImages)
	return f
}

func (h *host) text(context.Context) finding {
	f := finding{Name: "text", Status: good}
	path, err := data.FindText()
	if err != nil {
		f.Status, f.Found, f.Do = poor, "no Go sources found", "give language models --data FILE"
		return f
	}
	f.Found = path
	return f
}
