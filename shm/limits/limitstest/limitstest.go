// Package limitstest has what tests of limits need: control groups, and how much memory
// a process has.
package limitstest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// MemoryGroup makes a control group with that much memory, in the tree of either version
// that has the controller, and returns its folder. Only root can, and only where the tree
// can be written.
func MemoryGroup(t testing.TB, bytes int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes control groups")
	}
	const top = "/sys/fs/cgroup"
	tree, limit := top+"/memory", "memory.limit_in_bytes"
	if controllers, err := os.ReadFile(top + "/cgroup.subtree_control"); err == nil {
		if !strings.Contains(string(controllers), "memory") {
			t.Skip("the tree's root does not hand down the memory controller")
		}
		tree, limit = top, "memory.max"
	} else if !isThere(tree) {
		t.Skip("no tree of control groups with the memory controller is mounted")
	}
	dir := filepath.Join(tree, fmt.Sprintf("ringside-test-%d", os.Getpid()))
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		t.Skip("root of a container that may not make control groups: ", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, limit), []byte(strconv.Itoa(bytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Resident returns the bytes of a process that lie in memory, shared ones included.
func Resident(t testing.TB, pid int) int {
	t.Helper()
	return status(t, pid, "VmRSS")
}

// Most returns the most bytes of a process that ever lay in memory, shared ones included.
func Most(t testing.TB, pid int) int {
	t.Helper()
	return status(t, pid, "VmHWM")
}

// status returns a size of a process as the kernel tells it.
func status(t testing.TB, pid int, name string) (bytes int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, name+": %d", &bytes)
	}
	return bytes << 10
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
