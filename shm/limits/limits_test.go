package limits

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// tree makes the files of a machine.
func tree(t *testing.T, files map[string]string) Machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Machine{Root: root}
}

const (
	mountV2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
	meminfo = "MemTotal: 8388608 kB\nMemAvailable:  4194304 kB"
)

func TestMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		free  int64
		by    string
	}{
		{"nothing can be read", nil, math.MaxInt64, "nothing"},
		{"no groups", map[string]string{"proc/meminfo": meminfo}, 4<<30 - 256<<20, "the machine"},
		{"an unknown figure", map[string]string{"proc/meminfo": "MemAvailable: many kB"}, math.MaxInt64, "nothing"},
		{"version 2", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/app/w", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/app/w/memory.max": "314572800", "sys/fs/cgroup/app/w/memory.current": "104857600",
			"sys/fs/cgroup/app/w/memory.stat": "anon 1\ninactive_file 4857600\n",
		}, 314572800 - 100000000 - 314572800/16, "the cgroup /app/w"},
		{"an ancestor", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/app/w", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/app/w/memory.max": "max", "sys/fs/cgroup/app/w/memory.current": "5",
			"sys/fs/cgroup/app/memory.max": "1000", "sys/fs/cgroup/app/memory.current": "400",
		}, 600 - 62, "the cgroup /app"},
		{"more in use than allowed", map[string]string{
			"proc/self/cgroup": "0::/", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/memory.max": "1000", "sys/fs/cgroup/memory.current": "4000",
		}, 0, "the cgroup /"},
		{"the machine has less than the group", map[string]string{
			"proc/meminfo": "MemTotal: 2 kB\nMemAvailable: 1 kB", "proc/self/cgroup": "0::/", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/memory.max": "4000", "sys/fs/cgroup/memory.current": "1",
		}, 1024 - 128, "the machine"},
		{"version 1, a container that sees its part of the tree", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "3:cpu,cpuacct:/x\n4:memory:/docker/ab\n0::/",
			"proc/self/mountinfo": "1 2 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" +
				"35 31 0:32 /docker/ab /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "3000",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "1500",
			"sys/fs/cgroup/memory/memory.stat":           "inactive_file 9\ntotal_inactive_file 500",
		}, 2000 - 187, "the cgroup /"},
		{"a mount with a space", map[string]string{
			"proc/self/cgroup": "0::/w", "proc/self/mountinfo": `29 23 0:26 / /my\040groups rw - cgroup2 none rw`,
			"my groups/w/memory.max": "70",
		}, 70 - 4, "the cgroup /w"},
		{"a group outside of what is mounted", map[string]string{
			"proc/self/cgroup": "0::/abc", "proc/self/mountinfo": "29 23 0:26 /ab /cg rw - cgroup2 none rw",
			"cg/memory.max": "80",
		}, 80 - 5, "the cgroup /"},
		{"lines that are no lines", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0\n::\n4:memory", "proc/self/mountinfo": "a - b\n- \n",
		}, 4<<30 - 256<<20, "the machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := tree(t, c.files).Memory(); got.Free != c.free || got.By != c.by {
				t.Errorf("%d by %s, expected %d by %s", got.Free, got.By, c.free, c.by)
			}
		})
	}
}

func TestCores(t *testing.T) {
	all := runtime.NumCPU()
	for _, c := range []struct {
		name  string
		files map[string]string
		n     int
		quota float64
	}{
		{"no groups", nil, all, math.Inf(1)},
		{"one core", map[string]string{
			"proc/self/cgroup": "0::/w", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/w/cpu.max": "100000 100000",
		}, 1, 1},
		{"half a core by an ancestor", map[string]string{
			"proc/self/cgroup": "0::/a/w", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/a/w/cpu.max": "150000 100000", "sys/fs/cgroup/a/cpu.max": "50000 100000",
		}, 1, 0.5},
		{"no bound", map[string]string{
			"proc/self/cgroup": "0::/w", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/w/cpu.max": "max 100000",
		}, all, math.Inf(1)},
		{"version 1", map[string]string{
			"proc/self/cgroup": "3:cpu,cpuacct:/w", "proc/self/mountinfo": "35 31 0:32 / /cg rw - cgroup cgroup rw,cpu,cpuacct",
			"cg/w/cpu.cfs_quota_us": "120000", "cg/w/cpu.cfs_period_us": "100000", "cg/cpu.cfs_quota_us": "-1",
		}, 1, 1.2},
		{"more than the machine has", map[string]string{
			"proc/self/cgroup": "0::/w", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/w/cpu.max": "900000000 100000",
		}, all, 9000},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := tree(t, c.files).Cores(); got.N != min(c.n, all) || got.Quota != c.quota {
				t.Errorf("%+v, expected %d cores of %v", got, c.n, c.quota)
			}
		})
	}
}

// TestManyCores wants the cores of large machines, whole and in parts.
func TestManyCores(t *testing.T) {
	for _, cpus := range []int{64, 96, 128, 192, 384} {
		for quota, n := range map[string]int{"max 100000": cpus, "6400000 100000": min(cpus, 64), "12750000 100000": min(cpus, 127), "50000 100000": 1} {
			m := tree(t, map[string]string{"proc/self/cgroup": "0::/w", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/w/cpu.max": quota})
			m.CPUs = cpus // a cpuset leaves fewer than the machine has
			if got := m.Cores().N; got != n {
				t.Errorf("%d of %d cores with cpu.max %s, expected %d", got, cpus, quota, n)
			}
		}
	}
}

// TestHere reads this machine: a test runs somewhere with some memory and a core.
func TestHere(t *testing.T) {
	m, c := Machine{}.Memory(), Machine{}.Cores()
	t.Log(m, c)
	if m.Free < 1<<20 || m.Free == math.MaxInt64 || c.N < 1 || c.N > runtime.NumCPU() {
		t.Errorf("%+v, %+v", m, c)
	}
}

func TestFiles(t *testing.T) {
	for _, c := range []struct{ max, kept, low, scarce int }{
		{64, 16, 48, 56}, {256, 64, 192, 224}, {20000, 256, 20000 - 256, 20000 - 128},
	} {
		f := Files{c.max, c.kept}
		if f.Low(c.low-1) || !f.Low(c.low) || f.Scarce(c.scarce-1) || !f.Scarce(c.scarce) {
			t.Errorf("%+v: not low from %d and scarce from %d on", f, c.low, c.scarce)
		}
	}
	if f := OpenFiles(); f.Max < 16 || f.Kept != min(f.Max/4, mostFilesKept) || f.Low(0) {
		t.Errorf("here: %+v", f)
	}
	const want = "256 descriptors, raise it by ulimit -n 1024, or LimitNOFILE=1024 in a service"
	if got := (Files{256, 64}).String(); got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}
