//go:build !nogpu

package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/blas/cublaslt"
	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/comm/nccl"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
)

// openDriver returns the machine's CUDA driver, before Init.
func openDriver() (driver.API, error) {
	d, err := dlopen.Open("")
	switch {
	case errors.Is(err, dlopen.ErrNoLibrary):
		return nil, fmt.Errorf("%w: %w", errNoLibrary, err)
	case err != nil:
		return nil, err
	}
	return d, nil
}

// openProducts returns the library of matrix products in a file, or the machine's for a
// driver of that CUDA version if there is no path.
func openProducts(path string, cuda int) (blas.Library, error) {
	folders, sites := libraryPlaces()
	l, err := cublaslt.Open(path, &cublaslt.Search{CUDA: cuda, Folders: folders, Sites: sites})
	if err != nil {
		return nil, err // not a nil pointer in the interface
	}
	return l, nil
}

// openCollectives returns the library of collectives in a file, or the machine's if there
// is no path.
func openCollectives(path string) (comm.Library, error) {
	folders, sites := libraryPlaces()
	l, err := nccl.Open(path, &nccl.Search{Folders: folders, Sites: sites})
	if err != nil {
		return nil, err // not a nil pointer in the interface
	}
	return l, nil
}

// libraryPlaces returns where NVIDIA's libraries may be that the loader doesn't look at:
// folders, and those of Python's packages.
func libraryPlaces() (folders, sites []string) {
	folders = []string{"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"}
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if dir := os.Getenv(name); dir != "" {
			folders = append(folders, filepath.Join(dir, "lib64"), filepath.Join(dir, "lib"))
		}
	}
	folders = append(folders, "/usr/local/cuda/lib64")
	sites = []string{"/usr/local/lib/python3*/site-packages", "/usr/local/lib/python3*/dist-packages", "/usr/lib/python3/dist-packages"}
	if home, err := os.UserHomeDir(); err == nil {
		sites = append([]string{filepath.Join(home, ".local/lib/python3*/site-packages")}, sites...)
	}
	for _, name := range []string{"CONDA_PREFIX", "VIRTUAL_ENV"} {
		if dir := os.Getenv(name); dir != "" {
			sites = append([]string{filepath.Join(dir, "lib/python3*/site-packages")}, sites...)
			folders = append(folders, filepath.Join(dir, "lib"))
		}
	}
	return folders, cublaslt.Folders(sites...)
}
