package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/shm/plain/plaintest"
)

// TestPlainNames has errors about keys and folders whose names hold control characters,
// which must not reach a terminal.
func TestPlainNames(t *testing.T) {
	const odd = plaintest.Odd
	file := filepath.Join(t.TempDir(), odd)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := store.NewFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, folder := store.NewFile(file)
	_, spool := store.NewSpool(file)
	_, open := dir.Open(t.Context(), odd, store.Get{})
	errs := map[string]error{"folder": folder, "spool": spool, "open": open,
		"short": dir.Put(t.Context(), odd, strings.NewReader("x"), 2, nil)}
	for range 2 {
		errs["exists"] = dir.Put(t.Context(), odd, bytes.NewReader(nil), 0, &store.PutOptions{Exclusive: true})
	}
	if !errors.Is(errs["exists"], store.ErrExists) {
		t.Errorf("%v, expected %v", errs["exists"], store.ErrExists)
	}
	plaintest.Quoted(t, errs)
}
