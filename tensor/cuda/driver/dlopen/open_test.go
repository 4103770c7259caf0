package dlopen

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.so")
	for _, c := range []struct {
		path string
		want error
		says string
	}{
		{missing, ErrNoLibrary, missing},
		{text, ErrNoLibrary, text},
		{"libc.so.6", ErrIncomplete, "libc.so.6 has no cuDriverGetVersion"},
	} {
		d, err := Open(c.path)
		if d != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that says %q", c.path, err, c.want, c.says)
		}
	}
}

// TestSymbols checks that each symbol has one name.
func TestSymbols(t *testing.T) {
	seen := map[string]bool{}
	for f, name := range symbols {
		if !strings.HasPrefix(name, "cu") || seen[name] {
			t.Errorf("symbol %d is %q, which is empty or there twice", f, name)
		}
		seen[name] = true
	}
}

// TestCopy2DBounds checks that no copy passes the end of a host's slice.
func TestCopy2DBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		copy driver.Copy2D
		ok   bool
	}{
		{"exact", driver.Copy2D{SrcHost: make([]byte, 2*16+8), SrcPitch: 16, DstDevice: 512, DstPitch: 8, Width: 8, Height: 3}, true},
		{"one short", driver.Copy2D{SrcHost: make([]byte, 2*16+7), SrcPitch: 16, DstDevice: 512, DstPitch: 8, Width: 8, Height: 3}, false},
		{"short destination", driver.Copy2D{SrcDevice: 512, SrcPitch: 16, DstHost: make([]byte, 23), DstPitch: 8, Width: 8, Height: 3}, false},
		{"rows overlap", driver.Copy2D{SrcHost: make([]byte, 64), SrcPitch: 4, DstDevice: 512, DstPitch: 8, Width: 8, Height: 3}, false},
		{"negative", driver.Copy2D{SrcHost: make([]byte, 64), SrcPitch: 8, DstDevice: 512, DstPitch: 8, Width: 8, Height: -1}, false},
		{"huge", driver.Copy2D{SrcHost: make([]byte, 64), SrcPitch: 1 << 62, DstDevice: 512, DstPitch: 8, Width: 8, Height: 9}, false},
		{"two sources", driver.Copy2D{SrcHost: make([]byte, 64), SrcDevice: 512, SrcPitch: 8, DstDevice: 512, DstPitch: 8, Width: 8, Height: 3}, false},
	} {
		_, err := newMemcpy2D(memcpy2D, &c.copy)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, driver.InvalidValue) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
