package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine describes where a measurement was made, in the way of `go test -bench`.
type Machine struct {
	OS, Arch, Go string
	CPU          string // model, as the kernel names it
	Cores        int    // that this process may use
	MemoryGiB    float64
	Kernel       string // its version, without what a distribution adds
}

// ThisMachine describes the machine. Fields that it can't find out stay empty.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), Cores: runtime.NumCPU()}
	m.CPU = field("/proc/cpuinfo", "model name")
	if kb := field("/proc/meminfo", "MemTotal"); kb != "" {
		var n float64
		if _, err := fmt.Sscanf(kb, "%f kB", &n); err == nil {
			m.MemoryGiB = n / (1 << 20)
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		version, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("-"))
		m.Kernel = string(version)
	}
	return m
}

// field is the value of the first line "key : value" of a file in /proc.
func field(path, key string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		if k, v, ok := strings.Cut(sc.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// hasAVX512 reports whether this processor has the vector units that the floor of
// collectives is written for.
func hasAVX512() bool {
	return runtime.GOARCH == "amd64" && strings.Contains(field("/proc/cpuinfo", "flags"), "avx512bw")
}

// String is a few lines "key: value".
func (m Machine) String() string {
	return fmt.Sprintf("goos: %s\ngoarch: %s\ngo: %s\nkernel: %s\ncpu: %s, %d cores\nmemory: %.0f GiB\n",
		m.OS, m.Arch, m.Go, m.Kernel, m.CPU, m.Cores, m.MemoryGiB)
}
