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

	"github.com/ringside-go/ringside/shm/testneeds"
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
		t.Skip("links five programs, and runs them")
	}
	for _, name := range []string{"gcc", "make"} {
		testneeds.GCC.Program(t, os.Getenv, name)
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

	// In the place of NVIDIA's profiler: it says what it was asked, and runs the program.
	ncu := filepath.Join(bin, "ncu")
	if err := os.WriteFile(ncu, []byte("#!/bin/sh\necho \"$*\"\nwhile [ \"$1\" != ./ringside ]; do shift; done\nexec \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NCU", ncu)
	standIn := filepath.Join(bundle, "standin", "libcuda.so.1")
	r, out, log, err := run(t, bundle, standIn)
	if err != nil {
		t.Errorf("over the stand-in: %v\n%s", err, out)
	}
	want := []string{"kernel", "doctor", "nvidia-smi", "attributes", "kernels, loading", "driver, suite", "driver, codes", "memory, copies", "memory, registration",
		"memory, IPC trial", "memory, three processes", "memory, namespaces", "memory, exporter killed", "memory, hand-over", "memory, latency",
		"engine, suite", "engine, kinds", "engine, beside", "engine, values", "engine, sanitizer",
		"cublas, attributes", "cublas, products", "cluster, losses", "cluster, peers", "cluster, worker killed", "torch, latency",
		"fast, latency", "fast, torch latency", "fast, bandwidth", "fast, torch bandwidth", "fast, products", "fast, torch products",
		"fast, attention", "fast, torch attention", "fast, training", "fast, torch training", "fast, hand-off", "fast, beside torch", "fast, ncu"}
	mayMiss := []string{"nvidia-smi", "ptxas", "engine, sanitizer", "torch, latency",
		"fast, torch latency", "fast, torch bandwidth", "fast, torch products", "fast, torch attention", "fast, torch training"}
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
	for _, says := range []string{" kernels, generated in ", "--clock-control none --kernel-name regex:^(", "tiles", "training step of qwen_t64"} {
		if !strings.Contains(log, says) {
			t.Errorf("log.txt has no %q", says)
		}
	}
	if want := "library: " + standIn + " (chosen by LIBRARY)\n"; !strings.HasPrefix(out, want) {
		t.Errorf("report.txt does not begin with %q:\n%s", want, out)
	}

	r, _, _, err = run(t, bundle, filepath.Join(bundle, "missing.so"))
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

// run runs the bundle over a library, and returns what report.json and report.txt say,
// and log.txt.
func run(t *testing.T, bundle, library string) (r report, out, log string, failed error) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(bundle, "run.sh"), "facts", "right", "fast")
	cmd.Env = append(os.Environ(), "OUT="+dir, "LIBRARY="+library)
	printed, failed := cmd.CombinedOutput()
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatalf("report.json: %v\n%s\n%s", err, b, printed)
	}
	if _, err := os.Stat(filepath.Join(dir, "report.txt")); err != nil {
		t.Error(err)
	}
	said, err := os.ReadFile(filepath.Join(dir, "log.txt"))
	if err != nil {
		t.Error(err)
	}
	return r, string(printed), string(said), failed
}
