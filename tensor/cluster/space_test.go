package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/shm/limits"
)

// TestFitSpace asks for more address space where children use more cores.
func TestFitSpace(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "proc/self"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "proc/self/limits"), []byte("Max address space   2684354560  unlimited  bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fitSpace(limits.Machine{Root: dir}, 2); err != nil {
		t.Error(err)
	}
	err := fitSpace(limits.Machine{Root: dir}, 3)
	if !errors.Is(err, ErrSpace) || !strings.Contains(err.Error(), "a process may have 2560 MiB, expected 2688: raise it by ulimit -v 2752512, or ") {
		t.Errorf("%v, expected ErrSpace with figures", err)
	}
}
