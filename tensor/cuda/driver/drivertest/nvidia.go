package drivertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/shm/testneeds"
)

// NVIDIA returns the path of a file of NVIDIA's that `make abi` has put into the user's
// cache. Without it see [testneeds.Generator].
func NVIDIA(t *testing.T, getenv func(string) string, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "ringside", "cuda", name)
	if _, err := os.Stat(path); err != nil {
		testneeds.Generator.Skipf(t, getenv, "%v; make abi gets it", err)
	}
	return path
}
