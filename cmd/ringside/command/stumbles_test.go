package command

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/nn"
)

// stumble is a mistake that a newcomer makes, or a thing that misleads one: commands with
// what each must print, or a test.
type stumble struct {
	name     string
	commands []string
	status   int
	says     string // in what it prints, on whichever output
	once     string // that is all of one line, once; empty for no such text
	test     func(t *testing.T)
}

// check runs the commands.
func (s *stumble) check(t *testing.T) {
	for _, c := range s.commands {
		cmd := ringside(t, strings.Fields(c)...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != s.status || !bytes.Contains(out, []byte(s.says)) {
			t.Errorf("%s: exit status %d, %v, expected %d and %q\n%s", c, code, err, s.status, s.says, out)
		}
		if s.once != "" && (bytes.Count(out, []byte(s.once)) != 1 || bytes.Count(out, []byte("\n")) != 1) {
			t.Errorf("%s: expected one line that says %q once\n%s", c, s.once, out)
		}
	}
}

// TestStumbles runs what newcomers stumbled over, in the order in which they told of it.
func TestStumbles(t *testing.T) {
	runtimeDir(t)
	open := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "ringside", "dispatcher")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, bytes.Repeat([]byte("k"), 32), 0o600); err != nil {
		t.Fatal(err)
	}
	odd := "run -n 3 -- " + self + " " + rankArgument + " odd"
	for _, s := range []stumble{
		{name: "samples and prompts with control characters", test: testPrintable},
		{name: "the status of a run that is stopped", test: testTrainTerminated},
		{name: "a second interrupt of run", test: testRunInterruptedTwice},
		{name: "top at 80 columns", test: testTopFits},
		{name: "two graphs in one output", test: testPlanDot},
		{name: "a dash for standard output", test: testTraceToOutput},
		{name: "a misspelt flag", commands: []string{"train --stepss 3"}, status: 2, says: "did you mean --steps?"},
		{name: "flags of torchrun, mpirun and training scripts", test: testOtherFlags},
		{name: "values that complete", test: testCompletions},
		{name: "a misspelt variable", test: testUnknownVariable},
		{name: "help for no command", commands: []string{"help nosuch", "help train nosuch", "help plan nosuch", "completion nosuch"}, status: 2, says: `unknown command "nosuch"`},
		{name: "completion for no shell", commands: []string{"completion nosuch", "help completion nosuch"}, status: 2, says: "it has bash, fish, powershell, zsh"},
		{name: "help for a command without commands", commands: []string{"help train nosuch"}, status: 2, says: "it has none"},
		{name: "a path that is said twice", commands: []string{"inspect", "top --once"}, status: 1, says: "; start one with: ringside up", once: socket},
		{name: "a benchmark outside of a clone", test: testBenchOutside},
		{name: "images that the demo lacks", test: testDemoModels},
		{name: "tests that make test leaves out", test: testMakeNamesSkipped},
		{name: "a folder with binary files", test: testTrainOnAFolder},
		{name: "names of files with control characters, and little text held out", test: testNamesOfFiles},
		{name: "a folder that others may write", commands: []string{"up --listen " + filepath.Join(open, "s")}, status: 1,
			says: "others may write; expected 0700; use a directory of this user's own, such as " + filepath.Dir(socket) + " (--listen FILE, the absolute path of a socket in it)"},
		{name: "a method among functions", test: testBarrierIsAMethod},
		{name: "the number of a first call", commands: []string{odd}, status: 1, says: "all-reduce #1 "},
		{name: "a mismatch of three ranks", commands: []string{odd}, status: 1, says: "rank 1 is in all-reduce #1 ", once: "calls do not match"},
		{name: "a port that is in use", commands: []string{"up -n 1 --secret-file " + key + " --listen-tcp " + taken.Addr().String()}, status: 1,
			says: "--listen-tcp: ipc: address in use: ", once: taken.Addr().String()},
		{name: "an innocent tensor", test: testSaveBlames},
		{name: "operations without their names in Go", test: testOperationNames},
		{name: "weights that are not there, or not weights", test: testWrongWeights},
		{name: "weights of a program's own model", test: testForeignWeights},
		{name: "data that is no text", test: testBinaryData},
		{name: "one minimum of a text", test: testShortText},
		{name: "a run that goes on with other data", test: testResumeOtherData},
		{name: "losses of two kinds", test: testLossesSay},
		{name: "checkpoints during the run without a folder", commands: []string{"train --steps 20 --every 5"}, status: 2, says: "--every 5 needs --checkpoint DIR"},
		{name: "restarts without a checkpoint", commands: []string{"train --restarts 2"}, status: 2, says: "--restarts 2 needs --checkpoint DIR"},
		{name: "workers that join without checkpoints", commands: []string{"train --elastic", "train --elastic --every 5"}, status: 2, says: "--elastic needs --checkpoint DIR and --every N"},
		{name: "profiles without a page", commands: []string{"train --pprof"}, status: 2, says: "--pprof needs --http ADDR"},
		{name: "a host without a port", commands: []string{"train --connect localhost"}, status: 1, says: `"localhost" has no port, expected localhost:PORT`},
	} {
		t.Run(s.name, func(t *testing.T) {
			if s.test != nil {
				s.test(t)
			} else {
				s.check(t)
			}
		})
	}
}

// testOtherFlags: names that flags have elsewhere lead to ours. TestHints has more.
func testOtherFlags(t *testing.T) {
	for args, says := range map[string]string{
		"run -np 2 true":              "did you mean -n?",
		"run --nproc_per_node 2 true": "did you mean --ranks?",
		"train --epochs 3":            "did you mean --steps?",
		"train --batch-size 3":        "did you mean --batch?",
	} {
		failed(t, 2, []string{says}, strings.Fields(args)...)
	}
}

// testUnknownVariable: a variable that is no flag's is told.
func testUnknownVariable(t *testing.T) {
	cmd := ringside(t, "version")
	cmd.Env = append(os.Environ(), "RINGSIDE_STEPSS=3")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil || !strings.Contains(errs.String(), "RINGSIDE_STEPSS is no flag's variable, did you mean RINGSIDE_STEP or RINGSIDE_STEPS?") {
		t.Errorf("%v, %q", err, &errs)
	}
}

// testBenchOutside: outside of a clone a benchmark says where its peers can be built.
func testBenchOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	cmd := ringside(t, "bench", "latency", "--rounds", "1", "--scale", "1000")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("run this in a clone of ringside")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// testMakeNamesSkipped: make test says which target names the tests that it leaves out,
// and that target exists.
func testMakeNamesSkipped(t *testing.T) {
	makefile := readText(t, filepath.Join(root, "Makefile"))
	for target, says := range map[string]string{"test": "were left out: make skipped names them", "skipped": "--- SKIP"} {
		rule := regexp.MustCompile(`(?m)^` + target + `:.*\n(\t.*\n)+`).FindString(makefile)
		if !strings.Contains(rule, says) {
			t.Errorf("Makefile: the rule of %s is %q, expected %q in it", target, rule, says)
		}
	}
}

// testBarrierIsAMethod: pages call Barrier what it is, a method of Group.
func testBarrierIsAMethod(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	found := 0
	for _, page := range append(pages, "../../../collective/doc.go") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("collective.Barrier")) {
			t.Errorf("%s has collective.Barrier, expected the method Group.Barrier", page)
		}
		found += bytes.Count(text, []byte("Group.Barrier"))
	}
	if found < 2 {
		t.Errorf("%d mentions of Group.Barrier, expected those of the migration page and the package", found)
	}
}

// testSaveBlames: after an operation has failed, Save names that and no tensor.
// TestSaveAfterAnError of package nn has the rest.
func testSaveBlames(t *testing.T) {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := tensor.Zeros(s, tensor.F32, 2, 3)
	w.Matmul(w)
	err = nn.Save(filepath.Join(t.TempDir(), "x"), []tensor.Named{{Name: "weight", T: w}}, nil)
	if err == nil || !strings.Contains(err.Error(), "an earlier error of the session: matmul") || strings.Contains(err.Error(), "weight") {
		t.Error(err)
	}
}

// testOperationNames: the page of operations has their names in Go. TestOpsDoc of package
// tensor checks that they exist.
func testOperationNames(t *testing.T) {
	text, err := os.ReadFile("../../../docs/ops.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| \\d+ \\| \\w+ \\| `\\.?[A-Z]").FindAll(text, -1)
	if !strings.Contains(string(text), "| in Go |") || len(rows) < 70 {
		t.Errorf("%d operations have a name in Go, expected a column of them", len(rows))
	}
}
