package isa

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/shm/testneeds"
)

// TestNearWays compares NearWays with the kernel's report on the first core, or, since
// the kernel of a virtual machine may have none, with the C library's.
func TestNearWays(t *testing.T) {
	want, from := kernelWays(t)
	if want == 0 {
		want, from = libraryWays(t)
	}
	if got := NearWays(); got != want {
		t.Errorf("%d ways, %s says %d", got, from, want)
	}
}

// kernelWays returns the ways of the first-level data cache as the kernel says, 0 if it
// lists no caches or leaves out their ways.
func kernelWays(t *testing.T) (ways int, from string) {
	t.Helper()
	caches, err := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range caches {
		read := func(name string) string {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			return string(b)
		}
		if strings.TrimSpace(read("level")) == "1" && strings.TrimSpace(read("type")) == "Data" {
			_, _ = fmt.Sscan(read("ways_of_associativity"), &ways)
			return ways, dir
		}
	}
	if len(caches) > 0 {
		t.Fatalf("none of %v is the first-level data cache", caches)
	}
	return 0, ""
}

// libraryWays returns what glibc says: getconf is part of it, as is what gcc builds with.
func libraryWays(t *testing.T) (ways int, from string) {
	t.Helper()
	const name = "LEVEL1_DCACHE_ASSOC"
	out, err := exec.Command(testneeds.GCC.Program(t, os.Getenv, "getconf"), name).CombinedOutput()
	if _, failed := fmt.Sscan(string(out), &ways); err != nil || failed != nil {
		testneeds.GCC.Skipf(t, os.Getenv, "the kernel lists no caches, and getconf %s: %v, %q", name, err, out)
	}
	if ways == 0 { // the processor does not report it
		ways = 8
	}
	return ways, "getconf " + name
}
