package drivertest

import (
	"os"
	"path/filepath"
	"testing"
)

// NVIDIA returns the path of a file of NVIDIA's that `make abi` has put into the user's
// cache, or skips the test unless it must run.
func NVIDIA(t *testing.T, name string, must bool) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "ringside", "cuda", name)
	if _, err := os.Stat(path); err != nil {
		if must {
			t.Fatalf("%v; make abi gets it", err)
		}
		t.Skipf("%v; make abi gets it", err)
	}
	return path
}
