package collective

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// TestFlightPlainNames writes last calls below a file, whose name holds control
// characters: the error has it quoted.
func TestFlightPlainNames(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a\x1b[31m\nb")
	if err := os.WriteFile(odd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, written := WriteFlight(odd, "worker", errors.New("x"), "")
	for what, err := range map[string]error{"written": written, "told": &Error{Err: ErrTimeout, Flight: odd}} {
		if err == nil || strings.ContainsFunc(err.Error(), unicode.IsControl) || !strings.Contains(err.Error(), `a\x1b[31m\nb`) {
			t.Errorf("%s: %q, expected the name quoted", what, err)
		}
	}
}
