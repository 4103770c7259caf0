package tcp

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// Bounds of a secret in a file. Less can be guessed from one greeting that was overheard.
const (
	minSecret = 16
	maxSecret = 4096
)

// ReadSecret reads a secret for ipc.Options from a file that only its owner can read. Spaces and line ends around it are
// not part of it. `head -c 32 /dev/urandom | base64` makes a good one.
func ReadSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tcp: secret: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("tcp: secret: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fmt.Errorf("tcp: secret: %s has mode %#o, others can read it; expected 0600", path, perm)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, fmt.Errorf("tcp: secret: %w", err)
	}
	if b = bytes.TrimSpace(b); len(b) < minSecret || len(b) > maxSecret {
		return nil, fmt.Errorf("tcp: secret: %s has %d bytes, expected %d to %d", path, len(b), minSecret, maxSecret)
	}
	return b, nil
}
