package shm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/limits"
)

// TestUnmapped wants a mapping for which the kernel has no memory to be ErrNoSpace, with
// the number of mappings if that is the reason.
func TestUnmapped(t *testing.T) {
	m := limits.Machine{Root: t.TempDir()}
	for name, text := range map[string]string{"proc/sys/vm/max_map_count": "2", "proc/self/maps": "a\nb\n"} {
		file := filepath.Join(m.Root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const figures = "this process has 2 mappings, and may have 2"
	for _, c := range []struct {
		m     limits.Machine
		errno unix.Errno
		space bool
		told  bool
	}{{m, unix.ENOMEM, true, true}, {limits.Machine{Root: t.TempDir()}, unix.ENOMEM, true, false}, {m, unix.EACCES, false, false}} {
		err := unmapped(c.m, 4096, c.errno)
		if !errors.Is(err, c.errno) || errors.Is(err, ErrNoSpace) != c.space || strings.Contains(err.Error(), figures) != c.told {
			t.Errorf("%v: %v, expected ErrNoSpace: %v, mappings: %v", c.errno, err, c.space, c.told)
		}
	}
}
