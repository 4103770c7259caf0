package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
)

// Spool is a folder that holds payloads while their window lasts. They are read by pread:
// pages of a mapping would count as this process's memory.
type Spool struct{ dir string }

// NewSpool makes the folder, for this user alone, and a file in it, to see that it takes
// any: otherwise every peer would be skipped for what is wrong here.
func NewSpool(dir string) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: spool: %w", plain.Path(err))
	}
	f, err := os.CreateTemp(dir, ".spool-")
	if err != nil {
		return nil, fmt.Errorf("store: spool: %w", plain.Path(err))
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return nil, fmt.Errorf("store: spool: %w", plain.Path(err))
	}
	return &Spool{dir}, nil
}

// Create makes a file of the spool, in place of one of that name.
func (s *Spool) Create(name string) (*Spooled, error) {
	path := filepath.Join(s.dir, filepath.Base(name))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, spoolError(path, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, spoolError(path, err)
	}
	return &Spooled{f: f}, nil
}

// spoolError makes an error of the spool's file system the outcome SPOOL, and says what
// to do about one that has no room. nil stays nil.
func spoolError(path string, err error) error {
	if err == nil {
		return nil
	}
	err, do := limits.Written(path, err), ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		do = "; make room there, or have the spool in another folder"
	}
	return outcome.Errorf(outcome.Spool, "%v%s", plain.Path(err), do)
}

// Spooled is one payload in the spool. ReadAt may be called concurrently.
type Spooled struct {
	f *os.File
	n int64
}

// Write appends.
func (s *Spooled) Write(b []byte) (int, error) {
	n, err := s.f.WriteAt(b, s.n)
	s.n += int64(n)
	return n, spoolError(s.f.Name(), err)
}

// Reset makes it empty again.
func (s *Spooled) Reset() error {
	s.n = 0
	return spoolError(s.f.Name(), s.f.Truncate(0))
}

// ReadAt implements io.ReaderAt.
func (s *Spooled) ReadAt(b []byte, off int64) (int, error) { return s.f.ReadAt(b, off) }

// Remove closes and removes the file.
func (s *Spooled) Remove() error {
	return errors.Join(plain.Path(s.f.Close()), plain.Path(os.Remove(s.f.Name())))
}
