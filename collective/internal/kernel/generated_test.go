package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGenerated runs the generator again and wants the committed files, but for their first line, which holds the
// command.
func TestGenerated(t *testing.T) {
	offline := append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off", "GOOS=", "GOARCH=")
	list := exec.Command("go", "list", "-deps", ".")
	list.Dir, list.Env = "gen", offline
	if out, err := list.CombinedOutput(); err != nil {
		if !bytes.Contains(out, []byte("GOPROXY=off")) { // something else than a missing module
			t.Fatalf("%v\n%s", err, out)
		}
		if os.Getenv("TESTS_NEED_GENERATOR") != "" { // whoever set it has downloaded avo
			t.Fatalf("avo is not in the module cache: %v\n%s", err, out)
		}
		t.Skipf("avo is not in the module cache: %v\n%s", err, out)
	}
	dir := t.TempDir()
	run := exec.Command("go", "run", ".", dir)
	run.Dir, run.Env = "gen", offline
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(made) != 9 {
		t.Fatalf("generated %v, %v; want 9 files", made, err)
	}
	body := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := bytes.Cut(b, []byte("\n"))
		return rest
	}
	for _, m := range made {
		if !bytes.Equal(body(m), body(filepath.Base(m))) {
			t.Errorf("%s is not what the generator makes; run go generate", filepath.Base(m))
		}
	}
}
