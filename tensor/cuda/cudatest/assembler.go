package cudatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/shm/testneeds"
)

// Targets are the kinds of GPUs that kernels are assembled for.
var Targets = []string{"sm_80", "sm_86", "sm_89", "sm_90"}

// Tool returns the path of a program of NVIDIA's that `make tools-ptx` has put into the
// user's cache. Where there is none the path is "", and the test leaves out what it is
// for: see [testneeds.Generator].
func Tool(t *testing.T, getenv func(string) string, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	check(t, err)
	path := filepath.Join(cache, "ringside", "cuda", "bin", name)
	if _, err := os.Stat(path); err != nil {
		testneeds.Generator.Logf(t, getenv, "not assembled: %v; make tools-ptx gets it", err)
		return ""
	}
	return path
}

// Join makes one text of several that each have one kernel, of the same name, and the
// same lines before an empty one.
func Join(texts []string, kernel string) string {
	var b strings.Builder
	for i, text := range texts {
		if i > 0 {
			_, text, _ = strings.Cut(text, "\n\n")
		}
		b.WriteString(strings.Replace(text, " "+kernel+"(", fmt.Sprintf(" %s%d(", kernel, i), 1))
	}
	return b.String()
}

// Usage is what the kernels of a text need of a multiprocessor.
type Usage struct {
	Registers []int // of a thread, by kernel, the fewest first
	Stack     int   // kernels that have one
	Spilled   int   // kernels that keep registers in memory
}

var verbose = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n.*Used (\d+) registers`)

// Assemble has NVIDIA's ptxas take a text for a target, and returns what it makes of the
// kernels. flags are more arguments.
func Assemble(t *testing.T, ptxas, text, target string, flags ...string) (u Usage) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "all.ptx")
	check(t, os.WriteFile(path, []byte(text), 0o600))
	args := append([]string{"-v", "-arch", target, "-o", os.DevNull, path}, flags...)
	out, err := exec.Command(ptxas, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ptxas for %s: %v\n%s", target, err, out)
	}
	for _, m := range verbose.FindAllStringSubmatch(string(out), -1) {
		var n [4]int
		for i := range n {
			n[i], err = strconv.Atoi(m[1+i])
			check(t, err)
		}
		u.Registers = append(u.Registers, n[3])
		u.Stack += min(n[0], 1)
		u.Spilled += min(n[1]+n[2], 1)
	}
	slices.Sort(u.Registers)
	if n := strings.Count(text, ".entry "); len(u.Registers) != n {
		t.Fatalf("ptxas for %s speaks of %d kernels, expected %d\n%.1000s", target, len(u.Registers), n, out)
	}
	return u
}
