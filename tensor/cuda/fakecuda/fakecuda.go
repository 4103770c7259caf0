package fakecuda

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
)

//go:embed src
var source embed.FS

// Driver, Products and Collectives are the names of the libraries that Build makes.
const (
	Driver      = "libcuda.so.1"
	Products    = "libcublasLt.so.12"
	Collectives = "libnccl.so.2"
)

// Build compiles the stand-ins for the driver, cuBLASLt and NCCL with gcc into dir, and
// returns the path of the driver's. The others lie beside it and use the driver in their
// own folder. A copy of them has state of its own, also where a process loads several.
func Build(dir string) (string, error) {
	if err := os.CopyFS(dir, source); err != nil {
		return "", err
	}
	for name, sources := range sources {
		if err := compile(dir, name, sources); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, Driver), nil
}

// sources are those of each library.
var sources = map[string][]string{
	Driver: {"src/*.c", "src/ptx/*.c"}, Products: {"src/blas/*.c"}, Collectives: {"src/nccl/*.c"},
}

// built are the libraries by their names, built once on this machine, or in this process
// where there is no folder to keep them in.
var built = sync.OnceValues(func() (map[string][]byte, error) {
	kept, err := cache()
	if err != nil {
		return nil, err
	}
	if libs, err := readAll(kept); err == nil {
		return libs, nil
	}
	dir, err := os.MkdirTemp(filepath.Dir(kept), "building")
	if err != nil {
		dir, err = os.MkdirTemp("", "fakecuda")
	}
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if _, err = Build(dir); err != nil {
		return nil, err
	}
	libs, err := readAll(dir)
	if err == nil && os.RemoveAll(filepath.Join(dir, "src")) == nil {
		_ = os.Rename(dir, kept) // which another process may have done first
	}
	return libs, err
})

// cache returns the folder in which the libraries of these sources and this compiler are
// kept from one test to the next, in the user's cache if there is one. Nothing is kept
// where the folder above it can't be made.
func cache() (string, error) {
	base, _ := os.UserCacheDir() // without one, a folder that is not there
	base = filepath.Join(base, "ringside")
	if filepath.IsAbs(base) {
		_ = os.MkdirAll(base, 0o700)
	}
	version, err := exec.Command(Compiler(), "-v").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -v: %w", Compiler(), err)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %q %q %q", version, options, linked, sources)
	err = fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := source.ReadFile(path)
		fmt.Fprintf(sum, "%s %d ", path, len(b))
		sum.Write(b)
		return err
	})
	return filepath.Join(base, fmt.Sprintf("fakecuda-%x", sum.Sum(nil)[:12])), err
}

// readAll reads the libraries in a folder.
func readAll(dir string) (map[string][]byte, error) {
	libs := map[string][]byte{}
	for name := range sources {
		var err error
		if libs[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return libs, nil
}

// Copy writes the libraries to dir, and returns the path of the driver's. They are built
// once, and kept in the user's cache; any goroutine may call it.
func Copy(dir string) (string, error) {
	libs, err := built()
	if err != nil {
		return "", err
	}
	for name, b := range libs {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o700); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, Driver), nil
}

// options are those of the compiler, linked the libraries that come last.
var (
	options = []string{"-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread",
		"-frounding-math", "-ffp-contract=off"}
	linked = []string{"-lm", "-ldl"}
)

// compile makes a library in dir of the sources there.
func compile(dir, name string, sources []string) error {
	args := append(slices.Clone(options), "-Wl,-soname,"+name, "-o", filepath.Join(dir, name))
	for _, s := range sources {
		files, err := fs.Glob(source, s)
		if err != nil {
			return err
		}
		for _, f := range files {
			args = append(args, filepath.Join(dir, f))
		}
	}
	args = append(args, linked...)
	if out, err := exec.Command(Compiler(), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s for %s: %w\n%s", Compiler(), filepath.Join(dir, name), err, out)
	}
	return nil
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

// entry is what one library, of one process, counts, and the fault that Fail asks for.
type entry struct {
	Process, Calls int64
	Alive          Counters
	At, Code, Seen int64
	Fault          [64]byte
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

// Fail has a process's call of a function fail with that code: its n-th from now on, in
// each of its copies of the library that have that file of counters. It replaces the
// fault that was asked for before; n is 0 for none. The process calls the library from no
// other thread meanwhile.
func Fail(path string, process int, function string, n, code int64) error {
	entries, err := read(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for i, e := range entries {
		if e.Process != int64(process) {
			continue
		}
		e.Fault = [64]byte{}
		copy(e.Fault[:], function)
		e.At, e.Code, e.Seen = n, code, 0
		b, _ := binary.Append(nil, binary.NativeEndian, struct {
			At, Code, Seen int64
			Fault          [64]byte
		}{e.At, e.Code, e.Seen, e.Fault})
		if _, err := f.WriteAt(b, int64((i+1)*binary.Size(e)-len(b))); err != nil {
			return err
		}
	}
	return nil
}

// Failed reports whether the fault that Fail asked for has come.
func Failed(path string, process int) (bool, error) {
	entries, err := read(path)
	return slices.ContainsFunc(entries, func(e entry) bool { return e.Process == int64(process) && e.At > 0 && e.Seen >= e.At }), err
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
