package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// root is where the pages lie.
const root = "../../.."

// shellWords begin the lines of a page that are for a shell; other indented lines are
// what a program prints.
var shellWords = []string{"ringside", "make", "go", "head", "mpirun", "torchrun", "kubectl", "tar", "systemctl", "python3", "env/bin/pip", "./run.sh"}

// elsewhere are commands of pages that the named test runs, or that need what no test
// has. Each must be in a page.
var elsewhere = map[string]string{
	"make demo":                      "TestDemo",
	"make test":                      ".ci/run",
	"make python":                    "test_wheel.py",
	"python3 -m venv":                "test_wheel.py",
	"env/bin/pip install":            "test_wheel.py",
	"go mod edit":                    "the examples' go.mod has the line",
	"go mod tidy":                    "TestModules",
	"go -C cmd/examples/":            "TestPrograms",
	"ringside run -n 4 -- ./allred":  "TestPrograms",
	"ringside gather run --store s3": "TestT28Gather",
	"mpirun -n 4 ./allreduce":        "TestMpirun",
	"mpirun -n 4 --host":             "two hosts",
	"ringside run --hosts":           "TestHosts",
	"torchrun":                       "torchrun, which Debian's torch lacks",
	"kubectl":                        "Kubernetes",
	"tar -C /usr/local":              "writes to /usr/local",
	"systemctl":                      "a user's systemd",
	"./run.sh":                       "TestBundle",
	"ringside up --device cuda":      "TestUpOnGPUs",
	"ringside train --device cuda":   "TestTrainOnGPUs",
	"ringside worker --device":       "a GPU",
	"ringside plan dump --session":   "TestPlanDumpSession",
	"ringside bench":                 "TestBench",
	"ringside train ... --hosts 2":   "TestTrainOnTwoHosts",
	"ringside worker --join 10.0":    "the same line is in README.md",
	"ringside train --connect 10.0.": "two hosts",
}

// endless commands end by an interrupt, once they have printed something.
var endless = regexp.MustCompile(`^ringside (up|worker|top)\b`)

// placeholders of pages, and what stands for them here.
var placeholders = strings.NewReplacer(
	"ringside train ... ", "ringside train --model qwen3-tiny --data book.txt ",
	"ringside plan dump ... ", "ringside plan dump --model qwen_t64 ",
	" --config F", " --config docs/sharding.yaml",
	"plot RUN... --png FILE", "plot DIR --png runs.png",
	"; or --dot, --json", "",
)

// pageLine is a command of a page.
type pageLine struct {
	at   string // page:line
	text string
}

// pageLines returns the commands of a page. Two blanks or a # end a command. A block with
// a loop is one command.
func pageLines(t *testing.T, page string) (lines []pageLine) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range regexp.MustCompile(`(?m)(^    .*\n)+`).FindAllIndex(b, -1) {
		if block := string(b[at[0]:at[1]]); strings.Contains(block, "    for ") {
			lines = append(lines, pageLine{page, "set -e\n" + block})
			clear(b[at[0]:at[1]])
		}
	}
	fenced := false
	for i, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		text, ok := strings.CutPrefix(line, "    ")
		if word, _, _ := strings.Cut(text, " "); !ok || fenced || !slices.Contains(shellWords, word) {
			continue
		}
		text, _, _ = strings.Cut(text, "  ")
		text, _, _ = strings.Cut(text, " # ")
		lines = append(lines, pageLine{fmt.Sprintf("%s:%d", page, i+1), strings.TrimSpace(text)})
	}
	return lines
}

// TestPages runs the commands of README.md and docs, page by page in one folder, beside a
// cluster of two workers. Training is shortened. Commands that other tests run are only
// parsed, where they are ringside's.
func TestPages(t *testing.T) {
	if testing.Short() || testsize.Raced {
		t.Skip("runs some fifty commands; without -short and -race")
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	tests := testNames(t)
	used := map[string]bool{}
	run, parsed, left := 0, 0, 0
	for _, path := range append(pages, filepath.Join(root, "README.md")) {
		page, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		lines := pageLines(t, page)
		if len(lines) == 0 {
			continue
		}
		t.Run(page, func(t *testing.T) {
			p := newPagePlace(t)
			for _, l := range lines {
				if strings.Contains(l.text, "\n") { // in an empty folder
					run++
					newPagePlace(t).run(t, l)
					continue
				}
				why := ""
				for begin := range elsewhere {
					if strings.HasPrefix(l.text, begin) {
						why, used[begin] = elsewhere[begin], true
					}
				}
				switch {
				case why == "":
					run++
					p.run(t, l)
				case strings.HasPrefix(l.text, "ringside "):
					parsed++
					p.parse(t, l)
				default:
					left++
				}
			}
		})
	}
	for begin := range elsewhere {
		if !used[begin] {
			t.Errorf("no page has a command that begins with %q", begin)
		}
	}
	for begin, test := range elsewhere {
		if strings.HasPrefix(test, "Test") && !tests[test] {
			t.Errorf("%s is to run %q: there is no such test", test, begin)
		}
	}
	t.Logf("%d commands were run, %d parsed, %d are other programs'", run, parsed, left)
	if run < 30 {
		t.Errorf("%d commands were run, expected at least 30", run)
	}
}

// TestPageTrace runs the program that docs/watching.md shows, which traces itself, beside
// a cluster of two workers, and has trace view read what it wrote.
func TestPageTrace(t *testing.T) {
	if testing.Short() || testsize.Raced {
		t.Skip("builds a program; without -short and -race")
	}
	b, err := os.ReadFile(filepath.Join(root, "docs/watching.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllSubmatch(b, -1)
	i := slices.IndexFunc(blocks, func(m [][]byte) bool { return bytes.Contains(m[1], []byte("trace.Start")) })
	if i < 0 {
		t.Fatal("docs/watching.md has no program that traces itself")
	}
	const module = "github.com/ringside-go/ringside/"
	source := "package main\n\nimport (\n\"context\"\n\"fmt\"\n\"os\"\n"
	for _, path := range []string{"ipc/local", "tensor", "tensor/cluster/client", "tensor/cluster/trace"} {
		source += fmt.Sprintf("%q\n", module+path)
	}
	source += ")\n\nfunc main() {\nif err := run(context.Background()); err != nil {\nfmt.Println(err)\nos.Exit(1)\n}\n}\n\nfunc run(ctx context.Context) error {\n" + string(blocks[i][1]) + "return nil\n}\n"
	p := newPagePlace(t)
	file, exe := filepath.Join(p.dir, "page.go"), filepath.Join(p.dir, "page")
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	// A folder that is only in the overlay is in this module, and needs no go.mod.
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(abs, "docs/traced/main.go"): file}})
	if err := errors.Join(err, os.WriteFile(file, []byte(source), 0o600), os.WriteFile(file+".json", overlay, 0o600)); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", file+".json", "-o", exe, "./docs/traced")
	build.Dir = abs
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := p.sh(t, "./page && ringside trace view mine.json", nil)
	for _, says := range []string{"19 of ", "my program", "matmul"} {
		if err != nil || !strings.Contains(out, says) {
			t.Errorf("%v, expected %q\n%s", err, says, out)
		}
	}
}

// TestPageConfigs parses the configs that docs/sharding.md shows.
func TestPageConfigs(t *testing.T) {
	const page = "docs/sharding.md"
	b, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(b, -1)
	if len(blocks) < 2 {
		t.Errorf("%s: %d configs, expected at least 2", page, len(blocks))
	}
	for _, block := range blocks {
		if _, err := config.Parse(page, block[1]); err != nil {
			t.Error(err)
		}
	}
}

// testNames returns the names of the tests in folders that have commands of pages.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, pattern := range []string{"cmd/*/*_test.go", "cmd/*/*/*_test.go", "collective/launch/*_test.go", "tensor/cuda/gpucheck/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range name.FindAllSubmatch(b, -1) {
				names[string(m[1])] = true
			}
		}
	}
	return names
}

// pagePlace is where the commands of a page run: a folder with what they name.
type pagePlace struct {
	dir string
	env []string
	// of the cluster
	address string
}

func newPagePlace(t *testing.T) *pagePlace {
	p := &pagePlace{dir: t.TempDir(), address: freeAddress(t)}
	runtimeDir(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"docs", "cmd"} {
		if err := os.Symlink(filepath.Join(abs, folder), filepath.Join(p.dir, folder)); err != nil {
			t.Fatal(err)
		}
	}
	book, err := os.ReadFile(textFile(t))
	if err != nil {
		t.Fatal(err)
	}
	shim := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = train ]; then shift; exec '%[1]s' train --steps 4 --sample 8 --data book.txt \"$@\"; fi\nexec '%[1]s' \"$@\"\n", exe)
	for name, content := range map[string]string{
		"ringside": shim, "prog": "#!/bin/sh\necho $RANK\n", "book.txt": string(book), "F": strings.Repeat("0123456789abcdef", 2),
		"step.program": string(program(t)),
	} {
		mode := os.FileMode(0o600)
		if strings.HasPrefix(content, "#!") {
			mode = 0o700
		}
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	p.env = append(os.Environ(), "PATH="+p.dir+":"+os.Getenv("PATH"))
	if out, err := p.sh(t, "ringside train --in-process --save model.safetensors", nil); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	up := exec.Command(filepath.Join(p.dir, "ringside"), "up", "-n", "2", "--listen-tcp", p.address, "--secret-file", "F")
	up.Dir, up.Env = p.dir, p.env
	c := startCmd(t, up)
	c.wait(`^ready at `)
	t.Cleanup(func() {
		_ = up.Process.Signal(os.Interrupt)
		if err := c.end(); err != nil {
			t.Errorf("up: %v", err)
		}
	})
	return p
}

// program returns the bytes of a program that a session records.
func program(t *testing.T) []byte {
	t.Helper()
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x := tensor.Ones(s, tensor.F32, 4, 4).Exp()
	tape, err := s.Tape()
	if err != nil {
		t.Fatal(err)
	}
	x.Free()
	return tape.Append(nil)
}

// freeAddress returns an address at which nothing listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run runs a command of a page to its end, or until its first line if it is endless.
func (p *pagePlace) run(t *testing.T, l pageLine) {
	t.Helper()
	text := placeholders.Replace(l.text)
	env := []string(nil)
	if strings.HasPrefix(text, "ringside up") { // beside the other one
		dir, err := os.MkdirTemp("", "rs")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		env = []string{"XDG_RUNTIME_DIR=" + dir}
		text = regexp.MustCompile(`HOST:PORT|10\.0\.0\.1:7000`).ReplaceAllString(text, freeAddress(t))
	}
	text = strings.ReplaceAll(text, "HOST:PORT", p.address)
	if !endless.MatchString(text) || strings.Contains(text, "--once") {
		if out, err := p.sh(t, text, env); err != nil {
			t.Errorf("%s: %s: %v\n%s", l.at, text, err, out)
		}
		return
	}
	cmd := exec.Command("/bin/sh", "-c", "exec "+text)
	cmd.Dir, cmd.Env = p.dir, append(p.env, env...)
	c := startCmd(t, cmd)
	c.wait(map[bool]string{true: "^ready at ", false: "."}[strings.HasPrefix(text, "ringside up")])
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Errorf("%s: %s: %v", l.at, text, err)
	}
	if err := c.end(); err != nil {
		t.Errorf("%s: %s: %v", l.at, text, err)
	}
}

// parse has a command's flags parsed: --help comes after errors in them.
func (p *pagePlace) parse(t *testing.T, l pageLine) {
	t.Helper()
	text, _, _ := strings.Cut(placeholders.Replace(l.text), " -- ")
	text = strings.NewReplacer(" ...", "", "[", "", "]", "").Replace(text)
	if out, err := p.sh(t, text+" --help", nil); err != nil {
		t.Errorf("%s: %s: %v\n%s", l.at, text, err, out)
	}
}

func (p *pagePlace) sh(t *testing.T, text string, env []string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", text)
	cmd.Dir, cmd.Env = p.dir, append(p.env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
