package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// TestFolderPlainNames makes a run's folder below a file, whose name holds control
// characters: the error has it quoted.
func TestFolderPlainNames(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a\x1b[31m\nb")
	if err := os.WriteFile(odd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, made := makeFolder(odd)
	_, held := hold(odd)
	for what, err := range map[string]error{"made": made, "held": held} {
		if err == nil || strings.ContainsFunc(err.Error(), unicode.IsControl) || !strings.Contains(err.Error(), `a\x1b[31m\nb`) {
			t.Errorf("%s: %q, expected the name quoted", what, err)
		}
	}
}
