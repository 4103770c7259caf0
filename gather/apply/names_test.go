package apply

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/shm/plain/plaintest"
)

// TestPlainNames has a journal whose name holds control characters, which its errors
// quote.
func TestPlainNames(t *testing.T) {
	odd := filepath.Join(t.TempDir(), plaintest.Odd)
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	broken := odd + "2"
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, folder := readJournal(odd)
	_, text := readJournal(broken)
	if !errors.Is(text, ErrJournal) {
		t.Errorf("%v, expected %v", text, ErrJournal)
	}
	plaintest.Quoted(t, map[string]error{"folder": folder, "broken": text})
}
