package launch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/shm/plain/plaintest"
)

// TestFolderPlainNames makes a run's folder below a file, whose name holds control
// characters: the error has it quoted.
func TestFolderPlainNames(t *testing.T) {
	odd := filepath.Join(t.TempDir(), plaintest.Odd)
	if err := os.WriteFile(odd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, made := makeFolder(odd)
	_, held := hold(odd)
	plaintest.Quoted(t, map[string]error{"made": made, "held": held})
}
