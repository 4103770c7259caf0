package ipc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"
)

// Bounds of a secret. One greeting that was overheard is enough to guess a shorter one.
const (
	MinSecret = 16
	MaxSecret = 4096
)

// ErrBadSecret is returned for a secret that cannot be used: its length, or the mode of
// its file.
var ErrBadSecret = errors.New("not a usable secret")

// TrimSecret returns a secret as every part of ringside understands its text: without
// leading and trailing white space, of MinSecret to MaxSecret bytes.
func TrimSecret(text []byte) ([]byte, error) {
	b := bytes.TrimSpace(text)
	if len(b) < MinSecret || len(b) > MaxSecret {
		return nil, fmt.Errorf("%w: %d bytes, expected %d to %d (head -c 32 /dev/urandom | base64)",
			ErrBadSecret, len(b), MinSecret, MaxSecret)
	}
	return b, nil
}

// weakBits is less than most random secrets of MinSecret characters have by WeakSecret,
// but more than texts of few characters or with repeated words.
const weakBits = 56

// WeakSecret reports whether a secret can surely be guessed: its characters, by their
// frequencies in it, carry less than 56 bits. That finds "passwordpassword", but no
// sentence: only a random secret is a strong one.
func WeakSecret(b []byte) bool {
	var count [256]int
	for _, c := range b {
		count[c]++
	}
	bits := 0.0
	for _, n := range count {
		if n > 0 {
			bits += float64(n) * math.Log2(float64(len(b))/float64(n))
		}
	}
	return bits < weakBits
}

// ReadSecret reads a secret for Options.Secret from a file that its owner alone can read.
// `head -c 32 /dev/urandom | base64` makes a good one.
func ReadSecret(path string) ([]byte, error) {
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("secret file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("secret file: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fmt.Errorf("secret file %s: %w: mode %#o, expected 0600 (chmod 600 %s)", path, ErrBadSecret, perm, path)
	}
	// Spaces around a secret of MaxSecret bytes may follow; a pipe without end may not.
	b, err := io.ReadAll(io.LimitReader(f, 2*MaxSecret))
	if err != nil {
		return nil, fmt.Errorf("secret file: %w", err)
	}
	if b, err = TrimSecret(b); err != nil {
		return nil, fmt.Errorf("secret file %s: %w", path, err)
	}
	return b, nil
}
