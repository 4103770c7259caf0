package gpucheck

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// report is report.json.
type report struct {
	Machine, Library string
	Steps            []struct {
		Step, Status, Detail string
		Seconds              float64
	}
}

// TestBundle makes the bundle and runs it over the stand-in: every step is reported and
// none fails; those that need NVIDIA's tools may be skipped. Over a library that isn't
// there the steps fail, and all are reported.
func TestBundle(t *testing.T) {
	if testing.Short() {
		t.Skip("links three programs")
	}
	if _, err := exec.LookPath("gcc"); err != nil && os.Getenv("TESTS_NEED_GENERATOR") == "" {
		t.Skip("no gcc to build the stand-in with")
	}
	bin := t.TempDir()
	mk := exec.Command("make", "-s", "gpu-check", "BIN="+bin)
	mk.Dir = "../../.."
	if out, err := mk.CombinedOutput(); err != nil {
		t.Fatalf("make gpu-check: %v\n%s", err, out)
	}
	bundle := filepath.Join(bin, "gpu-check")
	var bytes int64
	err := filepath.WalkDir(bundle, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		bytes += info.Size()
		return err
	})
	if err != nil || bytes > 45<<20 {
		t.Errorf("the bundle has %d bytes, %v, want at most 45 MiB", bytes, err)
	}

	standIn := filepath.Join(bundle, "standin", "libcuda.so.1")
	r, out, err := run(t, bundle, standIn)
	if err != nil {
		t.Errorf("over the stand-in: %v\n%s", err, out)
	}
	want := []string{"kernel", "doctor", "nvidia-smi", "attributes", "driver, suite", "driver, codes", "memory, copies", "memory, registration",
		"memory, IPC trial", "memory, three processes", "memory, namespaces", "memory, exporter killed", "memory, hand-over", "memory, latency",
		"cublas, attributes", "cublas, products", "cluster, losses", "cluster, peers", "cluster, worker killed", "torch, latency",
		"fast, latency", "fast, bandwidth", "fast, products", "fast, attention", "fast, training", "fast, hand-off", "fast, torch", "fast, beside torch", "fast, ncu"}
	mayMiss := []string{"nvidia-smi", "ptxas", "torch, latency", "fast, torch", "fast, ncu"}
	if got := names(r); !slices.Equal(got, want) || r.Library != standIn {
		t.Errorf("steps %q over %s, want %q", got, r.Library, want)
	}
	for _, s := range r.Steps {
		if s.Status != "ok" && (s.Status != "skipped" || !slices.Contains(mayMiss, s.Step)) {
			t.Errorf("%s: %s: %s", s.Step, s.Status, s.Detail)
		}
		if !strings.Contains(out, s.Step) {
			t.Errorf("report.txt has no %s", s.Step)
		}
		if s.Step == "doctor" && !strings.Contains(s.Detail, "2 device(s); stand-in") {
			t.Errorf("doctor: %s, want the devices of the stand-in", s.Detail)
		}
	}
	if want := "library: " + standIn + " (chosen by LIBRARY)\n"; !strings.HasPrefix(out, want) {
		t.Errorf("report.txt does not begin with %q:\n%s", want, out)
	}

	r, _, err = run(t, bundle, filepath.Join(bundle, "missing.so"))
	if err == nil {
		t.Error("exit status 0 over a library that is missing")
	}
	for _, s := range r.Steps {
		if strings.HasPrefix(s.Step, "memory, ") && (s.Status == "ok") != (s.Step == "memory, stand-in") {
			t.Errorf("%s over a library that is missing: %s: %s", s.Step, s.Status, s.Detail)
		}
	}
	if got := names(r); !slices.Contains(got, "memory, hand-over") || !slices.Contains(got, "memory, stand-in") {
		t.Errorf("steps %q: the run ended early", got)
	}
}

// names returns the names of the steps but those of PTX files.
func names(r report) []string {
	var all []string
	for _, s := range r.Steps {
		if !strings.HasPrefix(s.Step, "ptxas") {
			all = append(all, s.Step)
		}
	}
	return all
}

// run runs the bundle over a library.
func run(t *testing.T, bundle, library string) (report, string, error) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(bundle, "run.sh"), "facts", "right", "fast")
	cmd.Env = append(os.Environ(), "OUT="+dir, "LIBRARY="+library)
	out, failed := cmd.CombinedOutput()
	var r report
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatalf("report.json: %v\n%s\n%s", err, b, out)
	}
	for _, name := range []string{"report.txt", "log.txt"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	return r, string(out), failed
}
