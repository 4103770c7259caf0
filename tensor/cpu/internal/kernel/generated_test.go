package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/shm/testneeds"
)

// TestGenerated runs the generator again and compares with the committed files.
func TestGenerated(t *testing.T) {
	offline := append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off", "GOOS=", "GOARCH=")
	list := exec.Command("go", "list", "-deps", ".")
	list.Dir, list.Env = "gen", offline
	if out, err := list.CombinedOutput(); err != nil {
		if !bytes.Contains(out, []byte("GOPROXY=off")) { // not a missing module
			t.Fatalf("%v\n%s", err, out)
		}
		testneeds.Generator.Skipf(t, os.Getenv, "avo is not in the module cache: %v\n%s", err, out)
	}
	dir := t.TempDir()
	run := exec.Command("go", "run", ".", dir)
	run.Dir, run.Env = "gen", offline
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(made) != 86 {
		t.Fatalf("generated %v, %v; want 86 files", made, err)
	}
	for _, m := range made {
		got, err := os.ReadFile(m)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Base(m))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the generator makes; run go generate", filepath.Base(m))
		}
	}
}
