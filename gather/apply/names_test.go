package apply

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// TestPlainNames has a journal whose name holds control characters, which its errors
// quote.
func TestPlainNames(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a\x1b[31m\nb")
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
	for what, err := range map[string]error{"folder": folder, "broken": text} {
		if err == nil || strings.ContainsFunc(err.Error(), unicode.IsControl) || !strings.Contains(err.Error(), `a\x1b[31m\nb`) {
			t.Errorf("%s: %q, expected the name quoted", what, err)
		}
	}
}
