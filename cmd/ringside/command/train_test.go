package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor/train"
)

// trained runs train --json and returns the object in the end.
func trained(t *testing.T, args ...string) outcome {
	t.Helper()
	out, errOut, err := execute(t, append([]string{"train", "--json"}, args...)...)
	if err != nil {
		t.Fatalf("train %v: %v\n%s", args, err, errOut)
	}
	var o outcome
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if d.More() {
		t.Errorf("more than one object in %s", out)
	}
	return o
}

// TestTrainThroughCluster checks that a step is one message of few bytes, that programs
// are sent once, that no tensor goes through the dispatcher, and that the losses are
// those of a run in this process.
func TestTrainThroughCluster(t *testing.T) {
	runtimeDir(t)
	for model, path := range map[string]string{"fashion-mlp": imageFolder(t), "qwen3-tiny": textFile(t)} {
		args := []string{"--model", model, "--data", path, "--steps", "30", "--batch", "4", "--seed", "3", "--sample", "5"}
		far := trained(t, append(args, "--workers", "1")...)
		near := trained(t, append(args, "--in-process")...)
		if !slices.Equal(far.Losses, near.Losses) || far.HeldOut != near.HeldOut || far.Sample != near.Sample {
			t.Errorf("%s: through a cluster %+v, in this process %+v", model, far.Summary, near.Summary)
		}
		if far.Steps != 30 || far.Seed != 3 || far.Batch != 4 || far.Rate <= 0 || far.Error != "" {
			t.Errorf("%s: %+v", model, far.Summary)
		}
		if *far.MessagesPerStep != 1 || *far.BytesPerStep > 256 || *far.RoundTripsPerStep > 1 || far.ProgramBodies > 4 || far.TensorBytes != 0 {
			t.Errorf("%s: %g messages of %g bytes and %g round trips a step, %d programs, %d tensor bytes through the dispatcher; want 1, at most 256, at most 1, at most 4, 0",
				model, *far.MessagesPerStep, *far.BytesPerStep, *far.RoundTripsPerStep, far.ProgramBodies, far.TensorBytes)
		}
		if *far.InputBytesPerStep < 4*64*4 {
			t.Errorf("%s: %g bytes of input a step: they are not counted", model, *far.InputBytesPerStep)
		}
		if near.Traffic != nil || *near.PlanCacheHits < 25 || *near.PlanCacheMisses == 0 {
			t.Errorf("%s: in this process %+v, plan cache %d hits, %d misses", model, near.Traffic, *near.PlanCacheHits, *near.PlanCacheMisses)
		}
		if model == "qwen3-tiny" && (far.BitsPerByte == nil || far.Accuracy != nil) || model == "fashion-mlp" && (far.BitsPerByte != nil || far.Accuracy == nil) {
			t.Errorf("%s: accuracy %v, bits per byte %v", model, far.Accuracy, far.BitsPerByte)
		}
	}
}

func TestTrainSummary(t *testing.T) {
	runtimeDir(t)
	file := filepath.Join(t.TempDir(), "w.safetensors")
	args := []string{"train", "--data", textFile(t), "--steps", "20", "--batch", "2", "--sample", "8", "--prompt", "the quick ", "--save", file}
	out, errOut, err := execute(t, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, errOut)
	}
	for _, want := range []string{"qwen3-tiny, 115072 parameters", "worker w0", "20 of batch 2", "1 a step of", "bits per byte", "sample:\nthe quick "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(errOut, "qwen3-tiny: step 20/20  loss ") {
		t.Errorf("no progress in %q", errOut)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestTrainInterrupted checks that an interrupted run prints its summary so far and ends
// with 130.
func TestTrainInterrupted(t *testing.T) {
	runtimeDir(t)
	for _, place := range []string{"--in-process", "--workers=1"} {
		ctx, cancel := context.WithCancel(t.Context())
		root := NewRootCommand()
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(writerFunc(func(b []byte) (int, error) {
			if strings.Contains(string(b), "step 10/") {
				cancel()
			}
			return len(b), nil
		}))
		root.SetArgs([]string{"train", "--data", textFile(t), "--steps", "100000", "--batch", "1", "--json", place})
		if status := Main(ctx, root); status != 130 {
			t.Errorf("%s: exit status %d, expected 130", place, status)
		}
		var o outcome
		if err := json.Unmarshal([]byte(out.String()), &o); err != nil || !o.Stopped || o.Steps != 10 || o.Planned != 100000 {
			t.Errorf("%s: %s, %v; want a stop at step 10", place, out.String(), err)
		}
	}
}

// TestTrainInterruptedLate checks that a run that is interrupted while it is evaluated
// says how it goes on.
func TestTrainInterruptedLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := filepath.Join(t.TempDir(), "run")
	root := NewRootCommand()
	var said strings.Builder
	root.SetOut(&said)
	root.SetErr(writerFunc(func(b []byte) (int, error) {
		if strings.Contains(string(b), "step 5/5") {
			cancel()
		}
		return said.Write(b)
	}))
	root.SetArgs([]string{"train", "--in-process", "--data", textFile(t), "--steps", "5", "--batch", "1", "--checkpoint", dir})
	if status := Main(ctx, root); status != 130 || !strings.HasSuffix(said.String(), "ringside: interrupted; --resume "+dir+" goes on from the last checkpoint\n") {
		t.Errorf("exit status %d, %q", status, &said)
	}
}

// TestTrainInterruptedEarly checks the exit status of a run that ends before its first
// step and has nothing to sum up.
func TestTrainInterruptedEarly(t *testing.T) {
	runtimeDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, how := range [][]string{{"--in-process"}, {"--in-process", "--json"}, {"--workers=1"}} {
		root := NewRootCommand()
		var out, errs strings.Builder
		root.SetOut(&out)
		root.SetErr(&errs)
		root.SetArgs(append([]string{"train", "--data", textFile(t)}, how...))
		if code := Main(ctx, root); code != 130 || out.Len() > 0 || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("%v: exit status %d, %q, %q; expected 130 and no summary", how, code, &out, &errs)
		}
	}
}

// testTrainTerminated checks that a run that SIGTERM stops says what is kept, and ends
// with 143.
func testTrainTerminated(t *testing.T) {
	runtimeDir(t)
	dir := filepath.Join(t.TempDir(), "run")
	weights := filepath.Join(t.TempDir(), "w.safetensors")
	for _, c := range []struct {
		keep []string
		says string
	}{
		{nil, "ringside: stopped by SIGTERM; nothing was kept: --checkpoint DIR"},
		{[]string{"--save", weights}, "ringside: stopped by SIGTERM; the weights are in " + weights},
		{[]string{"--checkpoint", dir}, "ringside: stopped by SIGTERM; --resume " + dir + " goes on from step "},
	} {
		cmd := ringside(t, append([]string{"train", "--in-process", "--data", textFile(t), "--steps", "1000000", "--batch", "1"}, c.keep...)...)
		out, said := atStep10(t, cmd, func() {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		})
		if code := cmd.ProcessState.ExitCode(); code != 143 || !strings.Contains(said, c.says) || !strings.Contains(out, "stopped before step 1000000") {
			t.Errorf("%v: exit status %d, %q, %q; expected 143, %q", c.keep, code, out, said, c.says)
		}
	}
}

// atStep10 runs train, which is not started yet, calls stop when it says that it has
// taken ten steps, and returns what it wrote until its end.
func atStep10(t *testing.T, cmd *exec.Cmd, stop func()) (out, said string) {
	t.Helper()
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(notice, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	for sc := bufio.NewScanner(pipe); sc.Scan(); {
		if strings.Contains(sc.Text(), "step 10/") {
			stop()
		}
		stderr.WriteString(sc.Text() + "\n")
	}
	_ = cmd.Wait()
	return stdout.String(), stderr.String()
}

// testTrainOnAFolder checks that it is said which files are trained on.
func testTrainOnAFolder(t *testing.T) {
	file := textFile(t)
	dir := filepath.Dir(file)
	for i := range 6 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.bin", i)), []byte{0, 1}, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"train", "--in-process", "--steps", "1", "--batch", "1", "--sample=-1", "--data"}
	_, said, err := execute(t, append(args, dir)...)
	if want := "data: 1 file of text in " + dir + ", 13.5kB: \"" + filepath.Base(file) + "\"\nwarning: left out 6 files, no text or too large: \"0.bin\", \"1.bin\", \"2.bin\", \"3.bin\" and 2 more\n"; err != nil || !strings.HasPrefix(said, want) {
		t.Errorf("%v, %q, expected %q", err, said, want)
	}
	deep := filepath.Join(dir, "a", "b")
	if err := errors.Join(os.MkdirAll(deep, 0o700), os.Rename(file, filepath.Join(deep, "fox.txt"))); err != nil {
		t.Fatal(err)
	}
	// The second folder has no other files.
	for _, folder := range []string{dir, filepath.Join(dir, "a")} {
		name := strings.TrimPrefix(filepath.Join(deep, "fox.txt"), folder+"/")
		if _, said, err = execute(t, append(args, folder)...); err != nil || !strings.HasPrefix(said, fmt.Sprintf("data: 1 file of text in %s, 13.5kB: %q\n", folder, name)) {
			t.Errorf("in a subfolder: %v, %q", err, said)
		}
	}
	if err := os.Rename(filepath.Join(deep, "fox.txt"), file); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		deep:                          deep + " holds no text file of at most 67108864 bytes, it is empty; qwen3-tiny learns from text",
		filepath.Join(dir, "a"):       "but what is left out: ",
		filepath.Join(dir, "nowhere"): "nowhere: no such file or directory, expected a file or a folder of text",
	} {
		if _, _, err := execute(t, append(args, path)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %q", path, err, says)
		}
	}
	if _, _, err := execute(t, "train", "--in-process", "--model", "fashion-mlp", "--data", file); err == nil || !strings.Contains(err.Error(), "fashion-mlp learns from images") {
		t.Errorf("text for a model of images: %v", err)
	}
	if _, said, err = execute(t, append(args, file)...); err != nil || strings.Contains(said, "data:") || strings.Contains(said, "warning:") {
		t.Errorf("a file: %v, %q", err, said)
	}
	for name, c := range map[string]struct{ line, says string }{
		"t.csv": {"1,2.5,3\n", "t.csv is learnt as text, byte by byte; to predict a column of a table, see the examples classifier"},
		"latin": {"Gr\xf6\xdfe\n", "latin is no text (byte 2 is no UTF-8)"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Repeat(c.line, 500)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, said, err = execute(t, append(args, path)...); err != nil || !strings.HasPrefix(said, "warning: "+dir) || !strings.Contains(said, c.says) {
			t.Errorf("%s: %v, %q, expected %q", name, err, said, c.says)
		}
	}
}

// testNamesOfFiles has files whose names hold control characters, and a text of which
// less than a piece is held out: what train, eval and export say of them is on lines of
// its own.
func testNamesOfFiles(t *testing.T) {
	const odd = "a\x1b[31m\nb"
	dir := filepath.Join(t.TempDir(), odd)
	text, weights, run := filepath.Join(dir, odd+".txt"), filepath.Join(dir, "w.safetensors"), filepath.Join(dir, "run")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(text, []byte(strings.Repeat("a fox ", 40)), 0o600)); err != nil {
		t.Fatal(err)
	}
	check := func(what string, texts ...string) {
		t.Helper()
		for _, said := range texts {
			if strings.Contains(said, "\x1b") || strings.Contains(said, "[31m\n") {
				t.Errorf("%s: %q, expected no control characters of a name", what, said)
			}
		}
	}
	train := []string{"train", "--in-process", "--steps", "1", "--batch", "1", "--sample=-1", "--data"}
	out, said, err := execute(t, append(train, text, "--save", weights, "--checkpoint", run)...)
	check("train", out, said)
	if want := "warning: 12 bytes of "; err != nil || !strings.Contains(said, want) || !strings.Contains(said, "of 240, less than a piece of 64: ") || !strings.Contains(said, "expected a text of 1300 bytes or more") {
		t.Errorf("%v, %q, expected %q, and why", err, said, want)
	}
	if n := strings.Count(out, `\x1b[31m\nb`); err != nil || n != 4 {
		t.Errorf("%v, %d names in %q, expected those of the data, the weights and the run", err, n, out)
	}
	out, said, err = execute(t, "eval", "--load", weights)
	check("eval", out, said)
	if err != nil || !strings.HasPrefix(said, "warning: 12 bytes of ") {
		t.Errorf("eval: %v, %q", err, said)
	}
	out, said, err = execute(t, "export", "--load", run, "--to", filepath.Join(dir, "out"))
	check("export", out, said)
	if err != nil || strings.Count(out, "\n") != 2 {
		t.Errorf("export: %v, %q, expected a line for each file", err, out)
	}
	none := filepath.Join(dir, "none")
	for _, args := range [][]string{
		append(train, none), append(train, text, "--load", none), append(train, text, "--resume", none), append(train, text, "--load", text),
		append(train, text, "--save", filepath.Join(text, "w.safetensors")), append(train, text, "--save", dir), append(train, text, "--checkpoint", text),
		append(train, text, "--log-dir", text), append(train, text, "--cpuprofile", filepath.Join(none, "p")),
		{"eval", "--load", dir}, {"generate", "--load", none}, {"export", "--load", weights, "--to", text}, {"plan", "dump", "--config", none},
		{"gather", "init", "--model", none}, {"gather", "apply", "--window", "1", "--model", weights, "--aggregate", none, "--manifest", none},
	} {
		_, said, err := execute(t, args...)
		if err == nil {
			t.Errorf("%q: no error", args)
			continue
		}
		check(fmt.Sprint(args), said, printable(err.Error()))
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestTrainMistakes(t *testing.T) {
	runtimeDir(t)
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		use  bool // a mistake in what was typed
		says []string
	}{
		{[]string{"--model", "parrot"}, true, []string{`"parrot"`, "fashion-mlp", "qwen3-tiny"}},
		{[]string{"--steps", "-4", "--in-process", "--data", textFile(t)}, true, []string{"--steps -4"}},
		{[]string{"--in-process", "--workers", "2", "--data", textFile(t)}, true, []string{"exclude each other", "--workers"}},
		{[]string{"--workers", "-2", "--data", textFile(t)}, true, []string{"--workers -2"}},
		{[]string{"--model", "fashion-mlp", "--data", empty}, false, []string{empty, "train-images-idx3-ubyte", "--data"}},
		{[]string{"--data", filepath.Join(empty, "gone")}, false, []string{"gone"}},
		{[]string{"--data", textFile(t), "--connect", filepath.Join(empty, "nobody")}, false, []string{"nobody"}},
		{[]string{"--data", textFile(t), "--in-process", "--load", filepath.Join(empty, "w")}, false, []string{filepath.Join(empty, "w")}},
	} {
		_, _, err := execute(t, append([]string{"train"}, c.args...)...)
		var use *usageError
		if err == nil || errors.As(err, &use) != c.use {
			t.Errorf("train %v: %v, want an error, of usage: %v", c.args, err, c.use)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("train %v: %q does not say %q", c.args, err, s)
			}
		}
	}
}

func TestHelpListsModels(t *testing.T) {
	out, _, err := execute(t, "train", "--help")
	if err != nil {
		t.Fatal(err)
	}
	// It may be on several lines.
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	for _, m := range train.Models() {
		if !strings.Contains(words(out), words(m.Name+" "+m.Doc)) {
			t.Errorf("no %s in\n%s", m.Name, out)
		}
	}
}
