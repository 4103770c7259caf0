package fakecuda

import (
	"bytes"
	"embed"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

//go:embed src
var source embed.FS

// Build compiles the stand-in with gcc into dir and returns the path of the library. A
// copy of it has state of its own, also where a process loads several.
func Build(dir string) (string, error) {
	src := filepath.Join(dir, "src")
	if err := os.CopyFS(dir, source); err != nil {
		return "", err
	}
	files, err := fs.Glob(source, "src/*.c")
	if err != nil {
		return "", err
	}
	interpreter, err := fs.Glob(source, "src/ptx/*.c")
	if err != nil {
		return "", err
	}
	lib := filepath.Join(dir, "libcuda.so.1")
	args := []string{"-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread",
		"-frounding-math", "-ffp-contract=off", "-Wl,-soname,libcuda.so.1", "-o", lib}
	for _, f := range append(files, interpreter...) {
		args = append(args, filepath.Join(dir, f))
	}
	args = append(args, "-lm")
	if out, err := exec.Command(Compiler(), args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s in %s: %w\n%s", Compiler(), src, err, out)
	}
	return lib, nil
}

// Compiler returns gcc for this program's architecture, which may be emulated.
func Compiler() string {
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	if path, err := exec.LookPath(triplet + "-gcc"); err == nil {
		return path
	}
	return "gcc"
}

// Counters are what is alive in a library.
type Counters struct {
	Allocations int64 // of MemAlloc
	Imports     int64 // memory of other processes
	HostRanges  int64 // pinned, allocated or registered
	Streams     int64
	Events      int64
	Memories    int64 // of VirtualMemory
	Graphs      int64 // and their instances
}

// entry is what one library, of one process, counts.
type entry struct {
	Process, Calls int64
	Alive          Counters
}

// ReadCounters reads the file that FAKECUDA_COUNTERS named, and returns what is alive in
// all processes together. A process that has ended counts no more: the system took back
// what it had.
func ReadCounters(path string) (Counters, error) {
	var sum Counters
	entries, err := read(path)
	for _, e := range entries {
		if syscall.Kill(int(e.Process), 0) != nil {
			continue
		}
		sum.Allocations += e.Alive.Allocations
		sum.Imports += e.Alive.Imports
		sum.HostRanges += e.Alive.HostRanges
		sum.Streams += e.Alive.Streams
		sum.Events += e.Alive.Events
		sum.Memories += e.Alive.Memories
		sum.Graphs += e.Alive.Graphs
	}
	return sum, err
}

// ReadCalls returns how many calls a process has made, in all its copies of the library
// that have that file of counters.
func ReadCalls(path string, process int) (int64, error) {
	var calls int64
	entries, err := read(path)
	for _, e := range entries {
		if e.Process == int64(process) {
			calls += e.Calls
		}
	}
	return calls, err
}

// read returns the entries that libraries have taken.
func read(path string) ([]entry, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n := binary.Size(entry{})
	if len(b) == 0 || len(b)%n != 0 {
		return nil, fmt.Errorf("%s: %d bytes, want a multiple of %d", path, len(b), n)
	}
	entries := make([]entry, len(b)/n)
	err = binary.Read(bytes.NewReader(b), binary.NativeEndian, entries)
	return slices.DeleteFunc(entries, func(e entry) bool { return e.Process == 0 }), err
}
