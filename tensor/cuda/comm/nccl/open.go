package nccl

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/internal/load"
)

// minVersion is the oldest version that is used: 2.18, of CUDA 12.
const minVersion = 21800

var (
	// ErrNoLibrary is returned where no library can be loaded. It is a comm.ErrNoLibrary.
	ErrNoLibrary = fmt.Errorf("%w: no libnccl.so.2", comm.ErrNoLibrary)
	// ErrTooOld is returned for a library before 2.18.
	ErrTooOld = errors.New("NCCL is too old")
	// ErrIncomplete is returned for a library that lacks a function.
	ErrIncomplete = errors.New("not a complete NCCL")
)

// Library is NCCL. It is a comm.Library.
type Library struct {
	fn   [symbolCount]uintptr
	info comm.Info
}

var _ comm.Library = (*Library)(nil)

// Search says where to look for the library.
type Search = load.Search

// Open loads the library at path, or the first that is found if path is empty, and checks
// that it is new enough and has every function. It calls none that needs a device.
func Open(path string, s *Search) (*Library, error) {
	candidates := []string{path}
	if path == "" {
		if s == nil {
			s = &Search{}
		}
		candidates = s.Candidates("libnccl.so.2", "nvidia/nccl/lib")
	}
	handle, file, err := load.First(candidates)
	if err != nil {
		return nil, fmt.Errorf("%w among %d places: %w (install libnccl2 or the nvidia-nccl package, or name its file)", ErrNoLibrary, len(candidates), err)
	}
	l := &Library{}
	for f := range symbolCount {
		if l.fn[f], err = load.Function(handle, symbols[f]); err != nil {
			return nil, fmt.Errorf("%w: %s has no %s", ErrIncomplete, file, symbols[f])
		}
	}
	v, err := l.version()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	l.info = comm.Info{Name: nameOf(v), Path: file, Version: v}
	if v < minVersion {
		return nil, fmt.Errorf("%w: %s is %s, expected 2.18 or newer", ErrTooOld, file, l.info.Name)
	}
	return l, nil
}

// nameOf returns the name of a version. Before 2.9 its number has other places.
func nameOf(v int) string {
	if v < 10000 {
		return fmt.Sprintf("NCCL %d.%d.%d", v/1000, v/100%10, v%100)
	}
	return fmt.Sprintf("NCCL %d.%d.%d", v/10000, v/100%100, v%100)
}

// Info implements comm.Library.
func (l *Library) Info() comm.Info { return l.info }
