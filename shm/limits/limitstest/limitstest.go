// Package limitstest has what tests of limits need: control groups, small file systems,
// and how much memory a process has.
package limitstest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/shm/testneeds"
)

// MemoryGroup makes a control group with that much memory and returns its folder. Only
// root can, and only where the tree can be written: else see [testneeds.Root].
func MemoryGroup(t testing.TB, getenv func(string) string, bytes int) string {
	t.Helper()
	return group(t, getenv, "memory", map[string]string{
		"memory.limit_in_bytes": strconv.Itoa(bytes), "memory.max": strconv.Itoa(bytes),
	})
}

// CoreGroup makes a control group with the time of so many cores and returns its folder,
// on the conditions of MemoryGroup.
func CoreGroup(t testing.TB, getenv func(string) string, cores int) string {
	t.Helper()
	const period = 100_000 // microseconds, the default of version 1
	return group(t, getenv, "cpu", map[string]string{
		"cpu.cfs_quota_us": strconv.Itoa(cores * period), "cpu.max": fmt.Sprint(cores*period, " ", period),
	})
}

// ThreadGroup makes a control group that may have n threads and returns its folder, on
// the conditions of MemoryGroup.
func ThreadGroup(t testing.TB, getenv func(string) string, n int) string {
	t.Helper()
	return group(t, getenv, "pids", map[string]string{"pids.max": strconv.Itoa(n)})
}

// group makes a control group in the tree of either version that has the controller.
// Limits are what is written to the files of either version; the others are not there.
func group(t testing.TB, getenv func(string) string, controller string, limits map[string]string) string {
	t.Helper()
	skip := func(why string, args ...any) { t.Helper(); testneeds.Root.Skipf(t, getenv, why, args...) }
	NeedRoot(t, getenv, "making control groups")
	const top = "/sys/fs/cgroup"
	tree := filepath.Join(top, controller)
	if controllers, err := os.ReadFile(top + "/cgroup.subtree_control"); err == nil {
		if !slices.Contains(strings.Fields(string(controllers)), controller) {
			skip("the tree's root does not hand down the %s controller", controller)
		}
		tree = top
	} else if !isThere(tree) {
		skip("no tree of control groups with the %s controller is mounted", controller)
	}
	dir := filepath.Join(tree, fmt.Sprintf("ringside-test-%s-%d", controller, os.Getpid()))
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		skip("root of a container that may not make control groups: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	bounded := false
	for file, limit := range limits {
		if path := filepath.Join(dir, file); isThere(path) {
			if err := os.WriteFile(path, []byte(limit), 0o600); err != nil {
				t.Fatal(err)
			}
			bounded = true
		}
	}
	if !bounded {
		skip("this kernel's groups have no bound for %s", controller)
	}
	return dir
}

// NeedRoot skips the test unless root runs it, see [testneeds.Root].
func NeedRoot(t testing.TB, getenv func(string) string, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		testneeds.Root.Skipf(t, getenv, "%s needs root", what)
	}
}

// Tmpfs mounts a file system of that many bytes for the test, so that only the test uses
// it. It must not be in use when the test ends. Only root can: see NeedRoot.
func Tmpfs(t testing.TB, getenv func(string) string, size string) (dir string) {
	t.Helper()
	NeedRoot(t, getenv, "mounting a tmpfs")
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("root can't mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("%s is still in use: %v", dir, err)
		}
	})
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
