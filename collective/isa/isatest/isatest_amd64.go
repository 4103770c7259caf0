package isatest

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/collective/isa"
)

// flags are those of each level in /proc/cpuinfo.
var flags = []struct {
	level isa.Level
	names []string
}{
	{isa.Go, nil},
	{isa.AVX2, []string{"avx2", "bmi2", "f16c", "fma"}},
	{isa.AVX512, []string{"avx512f", "avx512bw", "avx512dq", "avx512vl"}},
	{isa.AMX, []string{"avx512_bf16", "amx_tile", "amx_bf16"}},
}

// Levels returns the levels that this machine runs by the flags in /proc/cpuinfo, lowest
// first, and AMX only if the kernel lets this process use tiles.
func Levels(t testing.TB) (levels []isa.Level) {
	t.Helper()
	for _, f := range flags {
		if !lists(t, f.names...) || f.level == isa.AMX && !grantsTiles() {
			break
		}
		levels = append(levels, f.level)
	}
	return levels
}

func brainFloat(t testing.TB) bool {
	t.Helper()
	return slices.Contains(Levels(t), isa.AVX512) && lists(t, "avx512_bf16")
}

// lists reports whether the first processor in /proc/cpuinfo has all of the flags.
func lists(t testing.TB, names ...string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nflags")
	line, _, _ := strings.Cut(after, "\n")
	has := strings.Fields(line)
	return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(has, n) })
}

// grantsTiles asks the kernel to let this process use tiles, and reports whether it can.
// It is false for a kernel that doesn't know the request, that keeps no tiles, or that
// forbids this process to ask. It is true if the kernel refuses because a thread's
// alternate signal stack is too small: Go's are large enough.
func grantsTiles() bool {
	const (
		requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
		tileData          = 18     // XFEATURE_XTILE_DATA
	)
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return !slices.Contains([]syscall.Errno{syscall.EINVAL, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EPERM}, errno)
}
