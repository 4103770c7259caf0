// Package examples has no code of its own: each folder is a module with one program,
// which the test builds and runs alone.
package examples

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/launch"
	"github.com/ringside-go/ringside/shm/testneeds"
)

// guard is when a test counts as hanging.
const guard = 5 * time.Minute

// programs are the examples with small budgets.
var programs = []struct {
	folder string
	args   []string
	ranks  int    // 0: it runs alone
	want   string // in the output
}{
	{"allreduce", nil, 4, `(?m)rank 3 of 4 on 1 host: the sum is 10$`},
	{"classifier", nil, 0, `(?s)parameters on cpu .*\n(8.|9.|100)\.. % of 48 other rows are right; always saying .* %\n$`},
	{"collectives", nil, 3, `(?s)sum \[30 33\]; reduce: maximum \[20 21\].*gather: \[0 10 20\].*"rank 2"\]`},
	{"dataparallel", nil, 2, `rank 1 of 2: from step 0: loss of its rows [0-9.]+, then 0\.0\d+; the same weights on all ranks: [0-9a-f]{64}`},
	{"gather", nil, 0, `(?s)taken: peers \[1 2 3\].*left out: peer 4, NOT_FOUND.*are \[-1\.67 -1\.67 -1\.67 -1\.67\]`},
	{"language", []string{"-steps", "10", "go.mod"}, 0, `(?s)trains on cpu .*step 10 of 10: loss .* it writes: "`},
	{"ownmodel", []string{"-steps", "300"}, 0, `(?s)trains on cpu .*step 300 of 300: .*after 300 steps, on 819 rows that it has not seen, .* explains 9\d\.\d % of its variance`},
	{"pingpong", nil, 0, `100000 round trips, .* the last answer is 100000`},
	{"pipeline", []string{"-steps", "10", "go.sum"}, 0, `(?s)step 10 of 10: loss .* after 10 steps on 2 stages`},
	{"tensorparallel", []string{"-steps", "20"}, 0, `loss [0-9.]+, then [0-9.]+; 60 collectives`},
}

// usages are the usages of the examples that take an argument.
var usages = map[string]string{
	"classifier": "classifier [flags] [table.csv]", "ownmodel": "ownmodel [flags] [table.csv]",
	"language": "language [flags] [book.txt]", "pipeline": "pipeline [flags] [book.txt]",
}

// TestPrograms builds each example as a module by itself and runs it.
func TestPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("builds ten programs")
	}
	bin := t.TempDir()
	for _, p := range programs {
		t.Run(p.folder, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), guard)
			defer cancel()
			exe := filepath.Join(bin, p.folder)
			if out, err := command(ctx, p.folder, "go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			// a short name: a socket's path has at most 108 bytes
			dir, err := os.MkdirTemp("", "rs")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			t.Setenv("XDG_RUNTIME_DIR", dir)
			t.Setenv("RINGSIDE_FLIGHT", "off") // nothing in the user's cache
			var out []byte
			if p.ranks == 0 {
				out, err = command(ctx, p.folder, exe, p.args...).CombinedOutput()
			} else {
				out, err = ranks(ctx, append([]string{exe}, p.args...), p.ranks)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if !regexp.MustCompile(p.want).Match(out) {
				t.Errorf("printed\n%s\nexpected %s", out, p.want)
			}
			if want := usages[p.folder]; want != "" {
				help, _ := command(ctx, p.folder, exe, "-h").CombinedOutput()
				_, errTwo := command(ctx, p.folder, exe, "a", "b").CombinedOutput()
				if !strings.HasPrefix(string(help), "usage: "+want+"\n") || errTwo == nil {
					t.Errorf("-h prints\n%s\nexpected usage: %s; two arguments: %v, expected an error", help, want, errTwo)
				}
			}
		})
	}
}

// command returns a command that runs in an example's folder.
func command(ctx context.Context, folder, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	return cmd
}

// ranks runs a program's ranks on this host and returns what they print.
func ranks(ctx context.Context, program []string, n int) ([]byte, error) {
	f, err := os.CreateTemp("", "ranks")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	_, err = launch.Run(ctx, launch.Options{Program: program, Ranks: n, Environ: os.Environ(), Stdout: f, Stderr: f})
	out, errRead := os.ReadFile(f.Name())
	if err == nil {
		err = errRead
	}
	return out, err
}

// TestModules checks that every example is listed here, that its go.mod and go.sum are
// what go mod tidy makes, and runs its own tests.
func TestModules(t *testing.T) {
	if testing.Short() {
		t.Skip("calls go mod tidy ten times")
	}
	listed := map[string]bool{}
	for _, p := range programs {
		listed[p.folder] = true
	}
	files, err := filepath.Glob("*/go.mod")
	if err != nil || len(files) != len(programs) {
		t.Errorf("%d modules, %v; expected the %d that are listed", len(files), err, len(programs))
	}
	for _, f := range files {
		folder := filepath.Dir(f)
		if !listed[folder] {
			t.Errorf("%s is not listed", folder)
		}
		t.Run(folder, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), guard)
			defer cancel()
			for _, args := range [][]string{{"mod", "tidy", "-diff"}, {"test", "./..."}} {
				if out, err := command(ctx, folder, "go", args...).CombinedOutput(); err != nil {
					t.Errorf("go %s: %v\n%s%s", args[0], err, out, advice(args[0]))
				}
			}
		})
	}
}

func advice(what string) string {
	if what == "mod" {
		return fmt.Sprintln("make examples tidies all of them")
	}
	return ""
}

// TestOwnTable runs the commands for a table of the reader's own that README.md shows, on
// houses with a price, which it predicts for others.
func TestOwnTable(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	testneeds.GCC.Program(t, os.Getenv, "make")
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?m)^    make tables .*\n(?:    bin/.*\n)+`).Find(page)
	root, err := filepath.Abs("../..")
	if err != nil || block == nil {
		t.Fatalf("README.md has no commands for a table, %v", err)
	}
	dir, err := os.MkdirTemp("", "rs") // no dispatcher is there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	rows := "area,heating,price\n"
	for i := range 200 {
		rows += fmt.Sprintf("%d,%s,%d\n", 40+i*7%190, []string{"gas", "oil"}[i%2], 2000*(40+i*7%190)+50_000*(i%2))
	}
	for name, text := range map[string]string{"houses.csv": rows, "new.csv": "area,heating\n100,gas\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.NewReplacer("make tables", "make -C "+root+" BIN="+dir+"/bin tables").Replace(string(block))
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`explains (?:9\d|100)\.\d % of its variance\nsaved "model.safetensors"\n(?:1[89]|2[012])\d{4}(\.\d+)?\n$`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
