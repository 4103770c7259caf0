package command

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// root is where the pages lie.
const root = "../../.."

// shellWords begin the lines of a page that are for a shell; other indented lines are
// what a program prints.
var shellWords = []string{
	"ringside", "make", "go", "head", "mpirun", "torchrun", "kubectl", "tar", "systemctl", "python3", "env/bin/pip", "./run.sh",
	"bin/ownmodel", "for", "ls",
}

// assignment is the values of variables before a command.
var assignment = regexp.MustCompile(`^([A-Z_]+=\S+ )+`)

// elsewhere are commands of pages, by how they begin, that TestPages does not run, and
// what does: a test of Go, or file:text of another test or script. Each must be in a
// page, and each test must exist.
var elsewhere = map[string]string{
	"make demo":                      "TestDemo",
	"make test":                      ".ci/run:make test",
	"make python":                    "Makefile:python-test: python ",
	"python3 -m venv":                "cmd/libringside/python/tests/test_wheel.py:def test_wheel",
	"env/bin/pip install":            "cmd/libringside/python/tests/test_wheel.py:def test_wheel",
	"for rank in 0 1":                "cmd/libringside/python/tests/test_pages.py:def test_ranks",
	"make tables":                    "TestOwnTable",
	"bin/ownmodel":                   "TestOwnTable",
	"mpirun -n 4 ./allreduce":        "TestMpirun",
	"ringside run --hosts":           "TestHosts",
	"ringside gather run --store s3": "TestT28Gather",
	"./run.sh":                       "TestBundle",
	"ringside train --device cuda":   "TestTrainNCCL",
	"ringside plan dump --session":   "TestPlanDumpSession",
	"ringside bench step":            "TestBench",
	"ringside bench torch":           "TestTorch",
	"ringside bench ddp":             "TestDDP",
	"ringside bench exact":           "TestExactCost",
	"ringside bench python":          "TestPython",
	"ringside bench torch-backend":   "TestBackend",
	"ringside bench reduce":          "TestPlaneScenarios",
	"ringside bench collective":      "TestCollectiveHosts",
	"ringside train ... --hosts 2":   "TestTrainOnTwoHosts",

	"mpirun -n 4 --host": "cmd/examples/allreduce/main_test.go:func TestMpirunHosts",
	// torchrun has the variables of the row behind it
	"torchrun":                    "cmd/examples/allreduce/main_test.go:func TestTorchrun",
	"PET_REDIRECTS=9:1 PET_TEE":   "cmd/examples/allreduce/main_test.go:func TestTorchrun",
	"kubectl":                     "collective/launch/kubernetes/kubectl_test.go:func TestKubectl",
	"tar -C /usr/local":           "TestService",
	"systemctl --user enable":     "TestService",
	"ls ~/.cache/ringside/flight": "TestFlightInCache",
}

// elsewhereOf returns the longest beginning in elsewhere of a command.
func elsewhereOf(text string) (begin string) {
	for b := range elsewhere {
		if strings.HasPrefix(text, b) && len(b) > len(begin) {
			begin = b
		}
	}
	return begin
}

// endless commands end by an interrupt, once they have printed something. A benchmark of
// all scenarios has no end here either: it takes minutes.
var endless = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )?ringside (up|worker|top|bench)\b`)

// placeholders of pages, and what stands for them here.
var placeholders = strings.NewReplacer(
	"ringside train ... ", "ringside train --model qwen3-tiny --data book.txt ",
	"ringside plan dump ... ", "ringside plan dump --model qwen_t64 ",
	" --config F", " --config docs/sharding.yaml",
	"plot RUN... --png FILE", "plot DIR --png runs.png",
	"; or --dot, --json", "",
	"worker --join 10.0.0.1:7000 --secret-file secret", "worker --join HOST:PORT --secret-file F",
	"--connect 10.0.0.1:7000 --secret-file secret --workers 4", "--connect HOST:PORT --secret-file F --workers 2",
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
		if block := string(b[at[0]:at[1]]); strings.Contains(block, "    for ") && strings.Count(block, "\n") > 1 {
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
		if word, _, _ := strings.Cut(assignment.ReplaceAllString(text, ""), " "); !ok || fenced || !slices.Contains(shellWords, word) {
			continue
		}
		text, _, _ = strings.Cut(text, "  ")
		text, _, _ = strings.Cut(text, " # ")
		lines = append(lines, pageLine{fmt.Sprintf("%s:%d", page, i+1), strings.TrimSpace(text)})
	}
	return lines
}

// pageCount counts what becomes of the commands of pages.
type pageCount struct {
	here    int
	without int             // commands for GPUs that did not run, because there is no gcc
	used    map[string]bool // of elsewhere
	tests   map[string]int  // commands by the test that runs them
}

// TestPages runs the commands of README.md and docs, page by page in one folder, beside a
// cluster of two workers. Training is shortened; what is for another host is done on this
// one, and GPUs are the stand-in's. Commands in elsewhere are only parsed, where they are
// ringside's.
func TestPages(t *testing.T) {
	if testing.Short() || testsize.Raced {
		t.Skip("runs some sixty commands; without -short and -race")
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	names := testNames(t)
	count := &pageCount{used: map[string]bool{}, tests: map[string]int{}}
	for _, path := range append(pages, filepath.Join(root, "README.md")) {
		page, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if lines := pageLines(t, page); len(lines) > 0 {
			t.Run(page, func(t *testing.T) { count.page(t, lines) })
		}
	}
	for begin, test := range elsewhere {
		if !count.used[begin] {
			t.Errorf("no page has a command that begins with %q", begin)
		}
		if !testExists(t, names, test) {
			t.Errorf("%s is to run %q: there is no such test", test, begin)
		}
	}
	count.print(t)
}

// byTest is a text of counts by test.
func byTest(counts map[string]int) string {
	var texts []string
	for test, n := range counts {
		texts = append(texts, fmt.Sprintf("%s %d", test, n))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// page runs the commands of a page.
func (c *pageCount) page(t *testing.T, lines []pageLine) {
	p := newPagePlace(t)
	for _, l := range lines {
		begin := elsewhereOf(l.text)
		c.used[begin] = true
		switch {
		case strings.Contains(l.text, "\n"): // in an empty folder
			c.here++
			newPagePlace(t).run(t, l)
			continue
		case begin == "" && strings.Contains(l.text, "--device cuda"):
			c.without++ // unless the stand-in can be built
			t.Run("over the stand-in", func(t *testing.T) {
				p.runOnGPUs(t, l)
				c.without--
				c.here++
			})
			continue
		case begin == "":
			c.here++
			p.run(t, l)
			continue
		default:
			c.tests[elsewhere[begin]]++
		}
		if strings.HasPrefix(l.text, "ringside ") {
			p.parse(t, l)
		}
	}
}

// print logs the counts, and checks that the pages were read.
func (c *pageCount) print(t *testing.T) {
	t.Helper()
	others := 0
	for _, n := range c.tests {
		others += n
	}
	t.Logf("%d commands: run here %d, run by other tests %d, left out without gcc %d",
		c.here+others+c.without, c.here, others, c.without)
	t.Logf("run by %s", byTest(c.tests))
	if c.without > 0 {
		testneeds.GCC.Logf(t, os.Getenv, "%d commands did not run over the stand-in", c.without)
	}
	if c.here+c.without < 50 {
		t.Errorf("%d commands were run, expected at least 50", c.here)
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
	for _, pattern := range []string{"bench/*_test.go", "cmd/*/*_test.go", "cmd/*/*/*_test.go", "collective/launch/*_test.go", "tensor/cuda/gpucheck/*_test.go"} {
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

// testExists reports whether a test that elsewhere names is there.
func testExists(t *testing.T, names map[string]bool, test string) bool {
	t.Helper()
	file, text, ok := strings.Cut(test, ":")
	if !ok {
		return names[test]
	}
	b, err := os.ReadFile(filepath.Join(root, file))
	return err == nil && strings.Contains(string(b), text)
}

// pagePlace is where the commands of a page run: a folder with what they name.
type pagePlace struct {
	dir     string
	clone   string // of this repository
	env     []string
	address string // of the cluster
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
	p.clone = abs
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
		"step.program": string(program(t)), "main.go": mainOfReadme(t), "go.sum": readText(t, filepath.Join(root, "go.sum")),
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

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// mainOfReadme returns the program that README.md has its reader write.
func mainOfReadme(t *testing.T) string {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(readText(t, filepath.Join(root, "README.md")), -1)
	i := slices.IndexFunc(blocks, func(m []string) bool { return strings.HasPrefix(m[1], "import (") })
	if i < 0 || i+1 == len(blocks) {
		t.Fatal("README.md has no program with its imports")
	}
	return "package main\n\n" + blocks[i][1] + "\nfunc main() {\nif err := run(context.Background()); err != nil {\npanic(err)\n}\n}\n\nfunc run(ctx context.Context) error {\n" + blocks[i+1][1] + "return nil\n}\n"
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
	port, err := tcp.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// runOnGPUs runs a command of a page with the stand-in as the driver and as NCCL.
func (p *pagePlace) runOnGPUs(t *testing.T, l pageLine) {
	t.Helper()
	dir := filepath.Dir(standIn(t))
	text := strings.Replace(l.text, "/opt/nccl/lib/libnccl.so.2", filepath.Join(dir, fakecuda.Collectives), 1)
	q := *p
	q.env = append(slices.Clone(p.env), "LD_LIBRARY_PATH="+dir)
	q.run(t, pageLine{l.at, text})
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
	text = strings.NewReplacer("HOST:PORT", p.address, "../../../allreduce", filepath.Join(p.dir, "allreduce"), "=/path/to/clone", "="+p.clone).Replace(text)
	if !endless.MatchString(text) || strings.Contains(text, "--once") {
		if out, err := p.sh(t, text, env); err != nil {
			t.Errorf("%s: %s: %v\n%s", l.at, text, err, out)
		}
		return
	}
	cmd := exec.Command("/bin/sh", "-c", "exec env "+text)
	cmd.Dir, cmd.Env = p.dir, append(p.env, env...)
	c := startCmd(t, cmd)
	which := endless.FindStringSubmatch(text)[1]
	c.wait(map[string]string{"up": "^ready at ", "worker": `^worker \S+, .*, at `, "top": ".", "bench": `^ +cluster +ms +\d`}[which])
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Errorf("%s: %s: %v", l.at, text, err)
	}
	status := map[string]int{"bench": 130}[which] // the others end as they should
	if err := c.end(); cmd.ProcessState.ExitCode() != status {
		t.Errorf("%s: %s: %v, expected status %d", l.at, text, err, status)
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
