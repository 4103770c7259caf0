package limits

import (
	"strings"
	"testing"
)

func TestSpace(t *testing.T) {
	const status = "VmSize:\t 1048576 kB\nVmData:\t 131072 kB"
	for _, c := range []struct{ address, data, want string }{
		{"unlimited", "unlimited", ""},
		{"1610612736", "201326592", ""},
		{"1610612735", "unlimited", "too little address space: this process may have 1535 MiB, of which 511 are left, expected 512: raise it by ulimit -v 2359296, or LimitAS=2359296K in a service"},
		{"1073741824", "unlimited", "too little address space: this process may have 1024 MiB, of which 0 are left, expected 512: raise it by ulimit -v 2359296, or LimitAS=2359296K in a service"},
		{"3221225472", "unlimited", ""},
		{"unlimited", "134217728", "too little memory of its own: this process may have 128 MiB, of which 0 are left, expected 64: raise it by ulimit -d 196608, or LimitDATA=196608K in a service"},
	} {
		m := tree(t, map[string]string{"proc/self/status": status,
			"proc/self/limits": "Limit  Soft Limit  Hard Limit  Units\nMax data size   " + c.data + "  unlimited  bytes\nMax address space   " + c.address + "  unlimited  bytes"})
		got := ""
		if err := m.Space(512<<20, 64<<20); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("address space %s, data %s: %q, expected %q", c.address, c.data, got, c.want)
		}
	}
	if err := tree(t, nil).Space(1<<40, 1<<40); err != nil {
		t.Errorf("without files: %v", err)
	}
}

// TestSpaceRaised has more of the address space in use than a process begins with.
func TestSpaceRaised(t *testing.T) {
	m := tree(t, map[string]string{"proc/self/status": "VmSize:\t 3145728 kB", "proc/self/limits": "Max address space   3221225472  unlimited  bytes"})
	const want = "too little address space: this process may have 3072 MiB, of which 0 are left, expected 512: raise it by ulimit -v 3670016, or LimitAS=3670016K in a service"
	if err := m.Space(512<<20, 0); err == nil || err.Error() != want {
		t.Errorf("%v, expected %q", err, want)
	}
}

func TestChild(t *testing.T) {
	for limit, want := range map[string]string{
		"unlimited":  "",
		"2281701376": "", // 2176 MiB
		"2281701375": "too little address space: a process may have 2175 MiB, expected 2176: raise it by ulimit -v 2228224, or LimitAS=2228224K in a service",
	} {
		got := ""
		if err := tree(t, map[string]string{"proc/self/limits": "Max address space   " + limit + "  unlimited  bytes"}).Child(384 << 20); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, expected %q", limit, got, want)
		}
	}
	if err := tree(t, nil).Child(1 << 40); err != nil {
		t.Errorf("without files: %v", err)
	}
}

func TestMappings(t *testing.T) {
	for n, want := range map[int]string{989: "", 990: "this process has 990 mappings, and may have 1000: raise it by sysctl vm.max_map_count=2000"} {
		m := tree(t, map[string]string{"proc/sys/vm/max_map_count": "1000", "proc/self/maps": strings.TrimSuffix(strings.Repeat("a-b r\n", n), "\n")})
		if got := m.Mappings(); got != want {
			t.Errorf("%d mappings: %q, expected %q", n, got, want)
		}
	}
	if got := (Machine{}).Mappings(); got != "" {
		t.Errorf("here: %q", got)
	}
}
