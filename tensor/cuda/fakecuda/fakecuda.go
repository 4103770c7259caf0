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
	lib := filepath.Join(dir, "libcuda.so.1")
	args := []string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread",
		"-Wl,-soname,libcuda.so.1", "-o", lib}
	for _, f := range files {
		args = append(args, filepath.Join(dir, f))
	}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc in %s: %w\n%s", src, err, out)
	}
	return lib, nil
}

// Counters are what is alive in a library.
type Counters struct {
	Allocations int64 // of MemAlloc
	Imports     int64 // memory of other processes
	HostRanges  int64 // pinned, allocated or registered
	Streams     int64
	Events      int64
	Memories    int64 // of VirtualMemory
}

// ReadCounters reads the file that FAKECUDA_COUNTERS named.
func ReadCounters(path string) (Counters, error) {
	var c Counters
	b, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if n := binary.Size(c); len(b) != n {
		return c, fmt.Errorf("%s: %d bytes, want %d", path, len(b), n)
	}
	return c, binary.Read(bytes.NewReader(b), binary.NativeEndian, &c)
}
