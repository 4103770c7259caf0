package command

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/collective/isa"
	"github.com/ringside-go/ringside/shm/limits"
)

const (
	mib = 1 << 20
	gib = 1 << 30

	// littleMemory is about as much as two small training runs take in all.
	littleMemory = gib

	// littleLocked is what registering buffers with a GPU driver takes at least.
	littleLocked = 64 * mib

	// littleFiles allows for the clients of a moderate cluster, each of which costs a
	// descriptor of the dispatcher and one of its worker.
	littleFiles = 1024
)

func (h *host) path(p string) string { return filepath.Join(h.root, p) }

// read returns the content of a small file without its final newline; empty if it can't
// be read.
func (h *host) read(p string) string {
	b, err := os.ReadFile(h.path(p))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func size(n uint64) string {
	switch {
	case n >= gib:
		return fmt.Sprintf("%.1f GiB", float64(n)/gib)
	case n >= mib:
		return fmt.Sprintf("%.0f MiB", float64(n)/mib)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func (h *host) shm(context.Context) finding {
	fd, err := unix.MemfdCreate("doctor", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return broken("a kernel from 3.17 on has it; where a filter of system calls refuses memfd_create, allow it", "no sealed memory files (memfd): %v", err)
	}
	unix.Close(fd)
	f := found("sealed memory files (memfd), bounded by memory alone")
	var st unix.Statfs_t
	if unix.Statfs(h.path("dev/shm"), &st) == nil && st.Type == unix.TMPFS_MAGIC {
		f.Found += fmt.Sprintf("; for --shm /dev/shm: %s, %s free", size(st.Blocks*uint64(st.Bsize)), size(st.Bavail*uint64(st.Bsize)))
	}
	return f
}

func (h *host) hugePages(context.Context) finding {
	shm := chosen(h.read("sys/kernel/mm/transparent_hugepage/shmem_enabled"))
	anon := chosen(h.read("sys/kernel/mm/transparent_hugepage/enabled"))
	if shm == "" && anon == "" {
		return warned("", "this kernel has no transparent huge pages")
	}
	f := found("shared memory: %s, private memory: %s", shm, anon)
	if !slices.Contains([]string{"always", "advise", "within_size", "force"}, shm) {
		f.Status, f.Do = poor, "for large tensors, as root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"
	}
	return f
}

// chosen is the word in brackets of "always [madvise] never".
func chosen(s string) string {
	_, s, ok := strings.Cut(s, "[")
	if !ok {
		return ""
	}
	s, _, _ = strings.Cut(s, "]")
	return s
}

func (h *host) memory(context.Context) finding {
	total, avail := h.meminfo("MemTotal"), h.meminfo("MemAvailable")
	if total == 0 && !exists(h.path("proc/self")) {
		return broken("mount /proc here: without it up and train can't start processes, and limits of control groups are not known", "/proc is not mounted")
	}
	if total == 0 {
		return warned("", "/proc/meminfo can't be read")
	}
	f := found("%s, %s available", size(total), size(avail))
	if m := (limits.Machine{Root: h.root}).Memory(); m.By != "the machine" {
		avail = uint64(m.Free)
		f.Found += fmt.Sprintf("; %s leaves %s", m.By, size(avail))
	}
	if avail < littleMemory {
		f.Status, f.Do = poor, "train with a smaller --batch, or end other programs"
	}
	return f
}

// meminfo is a value of /proc/meminfo in bytes; 0 if it isn't there.
func (h *host) meminfo(key string) uint64 {
	for line := range strings.Lines(h.read("proc/meminfo")) {
		k, v, _ := strings.Cut(line, ":")
		if k == key {
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

func (h *host) lockedMemory(context.Context) finding {
	return limited(unix.RLIMIT_MEMLOCK, littleLocked, size, "only GPUs need it: ulimit -l unlimited, or LimitMEMLOCK=infinity in a service")
}

func (h *host) openFiles(context.Context) finding {
	return limited(unix.RLIMIT_NOFILE, littleFiles, func(n uint64) string { return strconv.FormatUint(n, 10) },
		"ulimit -n 4096, or LimitNOFILE=4096 in a service")
}

// limited looks at a resource limit: poor below least.
func limited(resource int, least uint64, show func(uint64) string, do string) finding {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return warned("", "%v", err)
	}
	switch {
	case l.Cur == unix.RLIM_INFINITY:
		return found("not limited")
	case l.Cur < least:
		return warned(do, "limited to %s", show(l.Cur))
	}
	return found("limited to %s", show(l.Cur))
}

func (h *host) cores(context.Context) finding {
	c := limits.Machine{Root: h.root}.Cores()
	f := found("%d usable", runtime.NumCPU())
	if !exists(h.path("proc/self")) {
		f.Found += "; what control groups allow is not known without /proc"
	}
	if !math.IsInf(c.Quota, 1) {
		f.Found += fmt.Sprintf("; the time of %.1f is allowed by control groups", c.Quota)
	}
	if c.N < 2 {
		f.Status, f.Do = poor, "client, dispatcher and worker share one core: it works, every hand-over costs a switch; --in-process avoids it"
	}
	return f
}

func (h *host) simd(context.Context) finding {
	levels := isa.Levels()
	if best := levels[len(levels)-1]; best != isa.Go {
		return found("%v", best)
	}
	return warned("", "portable Go loops: this processor has no AVX2 with FMA")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
