package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Spool is a folder that holds payloads while their window lasts. They are read by pread:
// pages of a mapping would count as this process's memory.
type Spool struct{ dir string }

// NewSpool makes the folder, for this user alone, and a file in it, to see that it takes
// any: otherwise every peer would be skipped for what is wrong here.
func NewSpool(dir string) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: spool: %w", err)
	}
	f, err := os.CreateTemp(dir, ".spool-")
	if err != nil {
		return nil, fmt.Errorf("store: spool: %w", err)
	}
	return &Spool{dir}, errors.Join(f.Close(), os.Remove(f.Name()))
}

// Create makes a file of the spool, in place of one of that name.
func (s *Spool) Create(name string) (*Spooled, error) {
	path := filepath.Join(s.dir, filepath.Base(name))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("store: spool: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: spool: %w", err)
	}
	return &Spooled{f: f}, nil
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
	return n, err
}

// Reset makes it empty again.
func (s *Spooled) Reset() error {
	s.n = 0
	return s.f.Truncate(0)
}

// ReadAt implements io.ReaderAt.
func (s *Spooled) ReadAt(b []byte, off int64) (int, error) { return s.f.ReadAt(b, off) }

// Remove closes and removes the file.
func (s *Spooled) Remove() error {
	return errors.Join(s.f.Close(), os.Remove(s.f.Name()))
}
