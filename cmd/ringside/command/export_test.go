package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/safetensors"
)

// contentOf returns the tensors of a safetensors file by name, each with its type and
// shape before its bytes, and what the file says.
func contentOf(t *testing.T, path string) (tensors, notes map[string]string) {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tensors = map[string]string{}
	for _, name := range f.Names() {
		info, err := f.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, info.Size)
		if err := f.Read(name, b); err != nil {
			t.Fatal(err)
		}
		tensors[name] = fmt.Sprint(info.DType, info.Shape, string(b))
	}
	return tensors, f.Metadata()
}

// TestExport exports a checkpoint to a folder that is not there yet, and to a file; both
// hold the weights that train saved, and say nothing of where the data is.
func TestExport(t *testing.T) {
	runtimeDir(t)
	text, dir := textFile(t), t.TempDir()
	saved, kept := filepath.Join(dir, "made", "by it", "model.safetensors"), filepath.Join(dir, "run")
	trained(t, "--in-process", "--data", text, "--steps", "3", "--batch", "2", "--sample", "0", "--save", saved, "--checkpoint", kept)
	want, notes := contentOf(t, saved)
	if notes["data from"] != text {
		t.Errorf("train saved that the data is %q, expected %q", notes["data from"], text)
	}
	delete(notes, "data from")
	config, err := os.ReadFile(filepath.Join(filepath.Dir(saved), "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	folder, file := filepath.Join(dir, "a", "published"), filepath.Join(dir, "b", "weights.safetensors")
	for _, c := range []struct {
		from, to string
		files    []string
	}{
		{kept, folder, []string{filepath.Join(folder, "model.safetensors"), filepath.Join(folder, "config.json")}},
		{filepath.Dir(saved), folder, []string{filepath.Join(folder, "model.safetensors"), filepath.Join(folder, "config.json")}},
		{kept, file, []string{file}},
	} {
		out, errOut, err := execute(t, "export", "--load", c.from, "--to", c.to)
		if err != nil || out != strings.Join(c.files, "\n")+"\n" {
			t.Fatalf("%s: %q, %v, %s", c.to, out, err, errOut)
		}
		if got, says := contentOf(t, c.files[0]); !maps.Equal(got, want) || !maps.Equal(says, notes) {
			t.Errorf("%s: %d tensors, expected the %d that train saved; it says %q, expected %q", c.files[0], len(got), len(want), says, notes)
		}
	}
	if got, err := os.ReadFile(filepath.Join(folder, "config.json")); err != nil || string(got) != string(config) {
		t.Errorf("config.json: %s, %v, expected %s", got, err, config)
	}
	var e exported
	out, _, err := execute(t, "export", "--load", kept, "--to", file, "--json")
	if bad := json.Unmarshal([]byte(out), &e); err != nil || bad != nil || e.Model != "qwen3-tiny" || !slices.Equal(e.Files, []string{file}) {
		t.Errorf("%q, %v, %v", out, err, bad)
	}

	theirs := t.TempDir()
	if err := os.WriteFile(filepath.Join(theirs, "config.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"export", "--load", kept}, "--to FOLDER is needed"},
		{[]string{"export", "--to", folder}, "--load FILE is needed"},
		{[]string{"export", "--load", dir, "--to", folder}, "--load: checkpoint: none here"},
		{[]string{"export", "--load", kept, "--to", theirs}, "another program's"},
		{[]string{"export", "--load", kept, "--to", folder, "--model", "qwen3-small"}, "weights of qwen3-tiny; leave --model out"},
		{[]string{"export", "--load", kept, "--to", text}, "train: write "},
		{[]string{"export", "--load", kept, "--to", kept}, "a checkpoint is there"},
	} {
		if out, _, err := execute(t, c.args...); err == nil || out != "" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %q, %v, expected %q", c.args, out, err, c.says)
		}
	}
}
