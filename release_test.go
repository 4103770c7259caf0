package ringside

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// mostZip is the limit of Go's proxy for the files of a module.
const mostZip = 500 << 20

// TestInstallable checks what `go install ...@version` refuses: replaced modules, paths
// that differ only in case, and too many bytes.
func TestInstallable(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if line := regexp.MustCompile(`(?m)^(replace|exclude)\b.*$`).Find(mod); line != nil {
		t.Errorf("go.mod has %q", line)
	}
	list, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		if _, none := os.Stat(".git"); none == nil {
			t.Fatalf("git ls-files in a clone: %v", err)
		}
		t.Skip("this is no clone")
	}
	bytes, seen := int64(0), map[string]string{}
	for _, file := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		lower := strings.ToLower(file)
		if other := seen[lower]; other != "" {
			t.Errorf("%s and %s differ only in case", other, file)
		}
		seen[lower] = file
		if info, err := os.Lstat(file); err == nil {
			bytes += info.Size()
		}
	}
	if seen["license"] == "" || len(seen) < 1000 || bytes > mostZip {
		t.Errorf("%d files of %d bytes, expected a LICENSE and at most %d bytes", len(seen), bytes, mostZip)
	}
}
