package cublaslt

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/internal/load"
)

// minVersion is the oldest version that is used: 12.0.
const minVersion = 120000

var (
	// ErrNoLibrary is returned where no library can be loaded.
	ErrNoLibrary = errors.New("no libcublasLt.so")
	// ErrTooOld is returned for a library before 12.0.
	ErrTooOld = errors.New("cuBLASLt is too old")
	// ErrIncomplete is returned for a library that lacks a function.
	ErrIncomplete = errors.New("not a complete cuBLASLt")
)

// Library is cuBLASLt. It is a blas.Library.
type Library struct {
	fn   [symbolCount]uintptr
	info blas.Info
}

var _ blas.Library = (*Library)(nil)

// Search says where to look for the library. The zero value is by the loader's rules,
// which LD_LIBRARY_PATH is one of, for the library of CUDA 12.
type Search struct {
	// CUDA is the version of CUDA that the driver supports, 13000 for 13.0. The library
	// of CUDA 13 is looked for first, if the driver supports it.
	CUDA int

	// Folders are where the library is looked for after that.
	Folders []string

	// Sites are folders of Python's packages, some of which bring the library.
	Sites []string
}

// candidates returns what may be the library, best first.
func (s *Search) candidates() (all []string) {
	search := load.Search{Folders: s.Folders, Sites: s.Sites}
	majors := []int{12}
	if s.CUDA >= 13000 {
		majors = []int{13, 12}
	}
	for _, major := range majors {
		// Packages of CUDA 12 have a folder each, those of 13 share one.
		all = append(all, search.Candidates(fmt.Sprintf("libcublasLt.so.%d", major), "nvidia/cublas/lib", fmt.Sprintf("nvidia/cu%d/lib", major))...)
	}
	return all
}

// Open loads the library at path, or the first that is found if path is empty, and checks
// that it is new enough and has every function. It calls none that needs a device.
func Open(path string, s *Search) (*Library, error) {
	candidates := []string{path}
	if path == "" {
		if s == nil {
			s = &Search{}
		}
		candidates = s.candidates()
	}
	handle, file, err := load.First(candidates)
	if err != nil {
		return nil, fmt.Errorf("%w among %d places: %w (install libcublas of CUDA 12 or newer, or name its file)", ErrNoLibrary, len(candidates), err)
	}
	return resolved(handle, file)
}

// resolved looks up the functions of a library that was loaded.
func resolved(handle uintptr, path string) (*Library, error) {
	l := &Library{}
	for f := range symbolCount {
		fn, err := load.Function(handle, symbols[f])
		if err != nil {
			return nil, fmt.Errorf("%w: %s has no %s", ErrIncomplete, path, symbols[f])
		}
		l.fn[f] = fn
	}
	v := l.version()
	// The number is 10000 times the major version and 100 times the minor one.
	l.info = blas.Info{Name: fmt.Sprintf("cuBLASLt %d.%d.%d", v/10000, v/100%100, v%100), Path: path, Version: v}
	if v < minVersion {
		return nil, fmt.Errorf("%w: %s is %s, expected 12.0 or newer", ErrTooOld, l.info.Path, l.info.Name)
	}
	return l, nil
}

// Info implements blas.Library.
func (l *Library) Info() blas.Info { return l.info }

// Folders returns the folders that path patterns name, each once.
func Folders(patterns ...string) (all []string) {
	for _, p := range patterns {
		found, _ := filepath.Glob(p) // the only possible error is a bad pattern
		for _, f := range found {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}
