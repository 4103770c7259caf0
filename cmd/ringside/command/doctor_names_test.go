package command

import (
	"strings"
	"testing"
)

// TestDoctorNames has doctor print a finding that names a control group of an odd name:
// it stays one line, without control characters.
func TestDoctorNames(t *testing.T) {
	var out strings.Builder
	if err := writeFindings(&out, []finding{{Name: "memory", Found: "the cgroup /a\n\x1b[31m\tb leaves 1 MiB", Do: "raise /a\nb"}}); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); strings.Count(s, "\n") != 2 || strings.ContainsAny(s, "\x1b\t") || !strings.Contains(s, `/a\x0a\x1b[31m\x09b`) {
		t.Errorf("%q", s)
	}
}

// TestDoctorWithoutProc examines a machine without /proc and /sys.
func TestDoctorWithoutProc(t *testing.T) {
	h := thisHost()
	h.root = t.TempDir()
	if f := h.memory(t.Context()); f.Found != "/proc is not mounted" || f.Status != bad {
		t.Errorf("%+v", f)
	}
	for _, f := range []finding{h.hugePages(t.Context()), h.cores(t.Context()), h.shm(t.Context())} {
		if f.Found == "" || strings.Contains(f.Found, "\n") || f.Status == bad {
			t.Errorf("%+v", f)
		}
	}
}
