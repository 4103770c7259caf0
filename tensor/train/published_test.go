package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

// TestPublished has a program in NumPy read what Save wrote and compute the held-out
// loss, by the published design of the model.
func TestPublished(t *testing.T) { devicetest.Each(t, testPublished) }

func testPublished(t *devicetest.T) {
	folder := t.TempDir()
	m := find(t, "qwen3-tiny")
	text := &Text{Text: &data.Text{Train: bytes.Repeat([]byte("the quick brown fox "), 50), Held: []byte(strings.Repeat("jumps over the lazy dog; ", 6))}, From: "here"}
	o := Options{Steps: 5, Batch: 4, Sample: -1, Save: filepath.Join(folder, weightsName)}
	sum, err := m.Train(t.Context(), inProcess(t), text, &o)
	if err != nil {
		t.Fatal(err)
	}
	held := filepath.Join(t.TempDir(), "held")
	if err := os.WriteFile(held, text.Held, 0o600); err != nil {
		t.Fatal(err)
	}
	out := numpy(t, "testdata/qwen3.py", folder, held)
	got, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
	if err != nil || math.Abs(got-sum.HeldOut) > 1e-4 {
		t.Errorf("NumPy has a loss of %q, %v; expected %v", out, err, sum.HeldOut)
	}
}

// numpy runs a program by a python3 with NumPy, and returns what it wrote. Without one
// see [testneeds.Torch].
func numpy(t *devicetest.T, args ...string) string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		c := exec.CommandContext(t.Context(), python, append([]string{"-B"}, args...)...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		b, err := c.Output()
		if err == nil {
			return string(b)
		}
		if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) && !strings.Contains(stderr.String(), "No module named 'numpy'") {
			t.Fatalf("%s: %v: %s", python, err, &stderr)
		}
	}
	if _, err := os.Stat("/usr/lib/python3/dist-packages/numpy"); err == nil {
		t.Fatal("Debian's NumPy is there, and no python3 has it")
	}
	testneeds.Torch.Skipf(t, os.Getenv, "no python3 has NumPy: apt-get install python3-numpy")
	return ""
}

// TestConfigBesideWeights checks what is written beside weights: a config of a language
// model under the name that other libraries look for, and never over another program's.
func TestConfigBesideWeights(t *testing.T) { devicetest.Each(t, testConfigBesideWeights) }

func testConfigBesideWeights(t *devicetest.T) {
	train := func(name string, d Data, file string) error {
		o := Options{Steps: 1, Batch: 2, Sample: -1, Save: file}
		_, err := find(t, name).Train(t.Context(), inProcess(t), d, &o)
		return err
	}
	dir := t.TempDir()
	config := filepath.Join(dir, configName)
	if err := train("qwen3-tiny", someText(), filepath.Join(dir, "other.safetensors")); err != nil {
		t.Fatal(err)
	}
	if err := train("fashion-mlp", someImages(), filepath.Join(dir, weightsName)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(config); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a config of no model: %v", err)
	}
	for range 2 { // our own is replaced
		if err := train("qwen3-tiny", someText(), filepath.Join(dir, weightsName)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(b, &c); err != nil || c["model_type"] != "qwen3" || c["hidden_size"] != 64.0 || c[configKey] != "qwen3-tiny" {
		t.Errorf("%v, %s", err, b)
	}
	for _, theirs := range []string{`{"model_type":"bert"}`, "no JSON", ""} {
		if err := os.WriteFile(config, []byte(theirs), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := train("qwen3-tiny", someText(), filepath.Join(dir, weightsName)); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), config) {
			t.Errorf("over %q: %v", theirs, err)
		}
		if b, err := os.ReadFile(config); err != nil || string(b) != theirs {
			t.Errorf("another program's config is now %q, %v", b, err)
		}
	}
	if err := train("fashion-mlp", someImages(), filepath.Join(dir, weightsName)); err != nil {
		t.Errorf("a model without a config: %v", err)
	}
}

// TestExportBesideOthers: an export replaces what an export or a run wrote, and nothing
// of others, of a checkpoint or of another model; and files say that they are of a
// program's own model.
func TestExportBesideOthers(t *testing.T) { devicetest.Each(t, testExportBesideOthers) }

func testExportBesideOthers(t *devicetest.T) {
	m, dir := own(2), t.TempDir()
	kept := filepath.Join(dir, "run")
	if _, err := m.Train(t.Context(), inProcess(t), points(t, 50, false), &Options{Steps: 2, Checkpoint: kept}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		files, err := m.Export(t.Context(), inProcess(t), kept, filepath.Join(dir, "ours"))
		if want := []string{filepath.Join(dir, "ours", weightsName)}; err != nil || !slices.Equal(files, want) {
			t.Fatalf("%q, %v, expected %q", files, err, want)
		}
	}
	for _, path := range []string{kept, filepath.Join(dir, "ours")} {
		if _, err := ModelOf(path); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "has weights of a program's own model, which learnt from a table") || !strings.HasSuffix(err.Error(), "bin/classifier -load FILE -predict rows.csv") {
			t.Errorf("whose %s is: %v", path, err)
		}
	}
	for name, says := range map[string]string{configName: "describes another model", weightsName: "is another program's"} {
		theirs := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(theirs, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Export(t.Context(), inProcess(t), kept, filepath.Dir(theirs)); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), says) {
			t.Errorf("beside %s: %v, expected %q", name, err, says)
		}
		if b, err := os.ReadFile(theirs); err != nil || string(b) != "{}" {
			t.Errorf("%s has become %.40q, %v", name, b, err)
		}
	}
	if _, err := m.Export(t.Context(), inProcess(t), kept, kept); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), "a checkpoint is there") {
		t.Errorf("to the checkpoint's folder: %v", err)
	}
}
