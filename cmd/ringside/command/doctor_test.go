package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestDoctorFindings(t *testing.T) {
	ctx := context.Background()
	const (
		thp     = "sys/kernel/mm/transparent_hugepage/"
		cgroup2 = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	)
	for _, c := range []struct {
		name  string
		files map[string]string
		check func(*host) finding
		want  verdict
		says  []string // in found or do
	}{
		{"no /dev/shm", nil, func(h *host) finding { return h.shm(ctx) }, good, []string{"memfd", "by memory alone"}},
		{"no huge pages", nil, func(h *host) finding { return h.hugePages(ctx) }, poor, []string{"no transparent huge pages"}},
		{"huge pages never", map[string]string{thp + "shmem_enabled": "always within_size advise [never] deny force\n", thp + "enabled": "[always] madvise never\n"},
			func(h *host) finding { return h.hugePages(ctx) }, poor, []string{"shared memory: never, private memory: always", "echo advise"}},
		{"huge pages advised", map[string]string{thp + "shmem_enabled": "always within_size [advise] never deny force\n", thp + "enabled": "always [madvise] never\n"},
			func(h *host) finding { return h.hugePages(ctx) }, good, []string{"shared memory: advise"}},
		{"no meminfo", map[string]string{"proc/self/cgroup": ""}, func(h *host) finding { return h.memory(ctx) }, poor, []string{"meminfo"}},
		{"no /proc", nil, func(h *host) finding { return h.memory(ctx) }, bad, []string{"/proc is not mounted", "mount /proc here"}},
		{"cores without /proc", nil, func(h *host) finding { return h.cores(ctx) }, good, []string{"usable; what control groups allow is not known without /proc"}},
		{"memory", map[string]string{"proc/meminfo": "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:  4194304 kB\n"},
			func(h *host) finding { return h.memory(ctx) }, good, []string{"8.0 GiB, 4.0 GiB available"}},
		{"little memory for the group", map[string]string{"proc/meminfo": "MemTotal:  8388608 kB\nMemAvailable:  4194304 kB\n", "proc/self/cgroup": "0::/\n", "proc/self/mountinfo": cgroup2, "sys/fs/cgroup/memory.max": "536870912\n"},
			func(h *host) finding { return h.memory(ctx) }, poor, []string{"the cgroup / leaves 480 MiB", "--batch"}},
		{"half a core", map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": cgroup2, "sys/fs/cgroup/cpu.max": "50000 100000\n"},
			func(h *host) finding { return h.cores(ctx) }, poor, []string{"time of 0.5", "--in-process"}},
		{"no images", nil, func(h *host) finding { return h.images(ctx) }, poor, []string{"apt-get install dataset-fashion-mnist", "--data"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.check(&host{root: tree(t, c.files)})
			if f.Status != c.want {
				t.Errorf("%+v, want %s", f, c.want)
			}
			for _, s := range c.says {
				if !strings.Contains(f.Found+" "+f.Do, s) {
					t.Errorf("%+v does not say %q", f, s)
				}
			}
		})
	}
}

func TestDoctorRuntimeFolder(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]verdict{
		filepath.Join(dir, "new"):          good,
		dir:                                good,
		open:                               bad,
		filepath.Join(dir, "no", "folder"): bad,
	} {
		if f := (&host{runtimeDir: path}).runtimeFolder(ctx); f.Status != want {
			t.Errorf("%s: %+v, want %s", path, f, want)
		}
	}
}

func TestDoctorJSON(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	out, _, err := execute(t, "doctor", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var found []finding
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	seen := map[string]finding{}
	for _, f := range found {
		seen[f.Name] = f
		if f.Status != good && f.Status != poor || f.Found == "" {
			t.Errorf("%+v", f)
		}
	}
	for _, name := range []string{"shared memory", "locked memory", "cores", "GPU driver", "dispatcher"} {
		if _, ok := seen[name]; !ok {
			t.Errorf("nothing about %q in %v", name, found)
		}
	}
	if f := seen["dispatcher"]; !strings.Contains(f.Found, "none runs") {
		t.Errorf("%+v, want none running", f)
	}
}

func TestDoctorWithoutDispatcher(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "nobody")
	out, _, err := execute(t, "doctor", "--connect", addr)
	if err != errSilent || !strings.Contains(out, "fail  dispatcher") || !strings.Contains(out, addr) {
		t.Errorf("error %v, want a failure that names %s:\n%s", err, addr, out)
	}
}
