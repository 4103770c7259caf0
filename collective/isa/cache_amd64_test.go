package isa

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestNearWays compares NearWays with the kernel's report on the first core, where there
// is one.
func TestNearWays(t *testing.T) {
	caches, err := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range caches {
		read := func(name string) string {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Skip(err)
			}
			return strings.TrimSpace(string(b))
		}
		if read("level") != "1" || read("type") != "Data" {
			continue
		}
		want, err := strconv.Atoi(read("ways_of_associativity"))
		if err != nil {
			t.Fatal(err)
		}
		if got := NearWays(); got != want {
			t.Errorf("%d ways, the kernel says %d", got, want)
		}
		return
	}
	t.Skip("the kernel says nothing of caches")
}
