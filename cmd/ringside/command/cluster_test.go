package command

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
	"github.com/ringside-go/ringside/tensor/data"
)

// patience bounds what a test waits for; nothing is measured by it.
const patience = time.Minute

// command is the program as another process, whose lines can be waited for.
type command struct {
	*exec.Cmd
	t     *testing.T
	lines chan string
	done  chan error
}

func start(t *testing.T, args ...string) *command {
	t.Helper()
	return startCmd(t, exec.Command(executable(t), args...))
}

// executable returns the path of this program, which runs commands; see TestMain.
func executable(t *testing.T) string {
	t.Helper()
	exe, err := thisProgram()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func startCmd(t *testing.T, cmd *exec.Cmd) *command {
	t.Helper()
	c := &command{Cmd: cmd, t: t, lines: make(chan string, 1000), done: make(chan error, 1)}
	r, w := io.Pipe()
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for sc := bufio.NewScanner(r); sc.Scan(); {
			c.lines <- sc.Text()
		}
	}()
	go func() {
		err := c.Wait()
		w.Close()
		c.done <- err
	}()
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// wait reads lines until one matches, and returns its groups.
func (c *command) wait(pattern string) []string {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	var seen []string
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-c.lines:
			if m := re.FindStringSubmatch(line); ok && m != nil {
				return m
			}
			if seen = append(seen, line); !ok {
				c.t.Fatalf("%v ended without %q:\n%s", c.Args[1:], pattern, strings.Join(seen, "\n"))
			}
		case <-limit:
			c.t.Fatalf("%v: no %q in\n%s", c.Args[1:], pattern, strings.Join(seen, "\n"))
		}
	}
}

// end waits for the process's end.
func (c *command) end() error {
	c.t.Helper()
	select {
	case err := <-c.done:
		return err
	case <-time.After(patience):
		c.t.Fatalf("%v does not end", c.Args[1:])
		return nil
	}
}

// TestUp runs a cluster that train finds by itself, that restarts a killed worker, and
// that an interrupt ends. Its trace has the worker that was killed and the one that took
// its place.
func TestUp(t *testing.T) {
	runtimeDir(t)
	file := filepath.Join(t.TempDir(), "up.json")
	up := start(t, "up", "-n", "2", "--trace", file)
	up.wait(`^dispatcher: process \d+`)
	pids := map[string]int{}
	for _, name := range []string{"w0", "w1"} {
		pid, err := strconv.Atoi(up.wait("^worker " + name + `: process (\d+)`)[1])
		if err != nil {
			t.Fatal(err)
		}
		pids[name] = pid
	}
	addr := up.wait(`^ready at (\S+);`)[1]
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pids["w0"]))
	if score, _ := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || score < workerScore {
		t.Errorf("oom_score_adj of the worker is %q, %v, expected %d or more", b, err, workerScore)
	}

	out, _, err := execute(t, "doctor", "--json")
	if err != nil || !strings.Contains(out, "2 workers, 0 sessions") {
		t.Errorf("doctor: %s, %v; want 2 workers", out, err)
	}
	args := []string{"--data", textFile(t), "--steps", "5", "--batch", "2", "--sample=-1"}
	o := trained(t, args...)
	if !strings.Contains(o.Engine, addr) {
		t.Errorf("train ran on %s, want the cluster at %s", o.Engine, addr)
	}
	// A worker that is killed takes along what it has not told the trace yet: the one
	// that trained lives on.
	name := "w0"
	if strings.Contains(o.Engine, fmt.Sprintf("w0 (pid %d)", pids["w0"])) {
		name = "w1"
	}
	pid := pids[name]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	up.wait("process of the cluster died.*" + name)
	waitFor(t, "the worker to be there again", func() (bool, error) {
		s, err := client.Status(t.Context(), nil, addr)
		if err != nil {
			return false, err
		}
		now := s.Get("worker." + name + ".pid")
		return now != 0 && now != uint64(pid), nil
	})
	trained(t, args...)

	if err := up.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	up.wait("^ended$")
	if err := up.end(); err != nil {
		t.Errorf("up: %v", err)
	}
	if f := parsed(t, file); len(f.Processes) != 4 {
		t.Errorf("the trace has %v, expected a dispatcher and three workers", f.Processes)
	} else if s := trace.Summarize(f); len(s.Ops) == 0 {
		t.Errorf("the trace has no operations: %+v", s)
	}
}

// waitFor asks until the answer is yes.
func waitFor(t *testing.T, what string, ask func() (bool, error)) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for {
		ok, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// TestTrainSaysWhatDied: the worker is killed in the middle, then the dispatcher.
func TestTrainSaysWhatDied(t *testing.T) {
	dir := runtimeDir(t)
	for _, victim := range []string{"worker", "dispatcher"} {
		addr := filepath.Join(dir, victim)
		d := start(t, "dispatcher", "--listen", addr)
		d.wait("^dispatcher at")
		// The worker is to end with its dispatcher.
		w := start(t, "worker", "--connect", addr, "--name", "left", "--reconnect", "0")
		w.wait("^worker left")
		waitFor(t, "the worker", func() (bool, error) {
			s, err := client.Status(t.Context(), nil, addr)
			return err == nil && s.Get("workers") == 1, err
		})
		dies := map[string]*command{"worker": w, "dispatcher": d}[victim]
		var out, errOut strings.Builder
		root := NewRootCommand()
		root.SetOut(&out)
		root.SetErr(writerFunc(func(b []byte) (int, error) {
			if strings.Contains(string(b), "step 10/") {
				_ = dies.Process.Kill()
			}
			return errOut.Write(b)
		}))
		root.SetArgs([]string{"train", "--connect", addr, "--data", textFile(t), "--steps", "1000000", "--batch", "1", "--json"})
		err := root.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(dies.Process.Pid)) {
			t.Errorf("the %s was killed: %v, want an error that names process %d\n%s", victim, err, dies.Process.Pid, errOut.String())
		}
		var o outcome
		if e := json.Unmarshal([]byte(out.String()), &o); e != nil || o.Error != err.Error() || o.Steps < 10 || o.Seconds <= 0 {
			t.Errorf("the %s was killed: summary %s, %v; want the steps that were done and the error", victim, out.String(), e)
		}
		for _, c := range []*command{w, d} {
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.end()
		}
		if victim == "dispatcher" { // its socket is left; the next dispatcher removes it
			again := start(t, "dispatcher", "--listen", addr)
			again.wait("^dispatcher at")
			_ = again.Process.Signal(syscall.SIGTERM)
			if err := again.end(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDispatcherAndWorker: the parts by themselves, and their refusals.
func TestDispatcherAndWorker(t *testing.T) {
	dir := runtimeDir(t)
	addr := filepath.Join(dir, "d")
	d := start(t, "dispatcher", "--listen", addr)
	d.wait("^dispatcher at " + addr)

	_, _, err := execute(t, "dispatcher", "--listen", addr)
	if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), strconv.Itoa(d.Process.Pid)) {
		t.Errorf("a second dispatcher: %v, want an error that names %s and process %d", err, addr, d.Process.Pid)
	}
	w := start(t, "worker", "--connect", addr, "--name", "left", "--simd", "go")
	w.wait("^worker left, cpu go")
	waitFor(t, "the worker", func() (bool, error) {
		s, err := client.Status(t.Context(), nil, addr)
		return err == nil && s.Get("workers") == 1, err
	})
	_, _, err = execute(t, "worker", "--connect", addr, "--name", "left")
	if err == nil || !strings.Contains(err.Error(), "left") {
		t.Errorf("a second worker of the name: %v, want an error that names it", err)
	}
	o := trained(t, "--connect", addr, "--data", textFile(t), "--steps", "3", "--batch", "1", "--sample=-1")
	if !strings.HasPrefix(o.Engine, "worker left") {
		t.Errorf("trained on %s, want worker left", o.Engine)
	}
	_ = d.Process.Signal(syscall.SIGTERM)
	if err := d.end(); err != nil {
		t.Errorf("dispatcher: %v", err)
	}
	if err := w.end(); err == nil {
		t.Error("a worker whose dispatcher is gone ends without an error")
	}
}

func TestWorkerMistakes(t *testing.T) {
	dir := runtimeDir(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"worker", "--connect", filepath.Join(dir, "nobody")}, "nobody"},
		{[]string{"worker", "--simd", "mmx"}, "mmx"},
		{[]string{"up", "-n", "0"}, "expected 1 to"},
		{[]string{"dispatcher", "--listen", "relative"}, "relative"},
	} {
		if _, _, err := execute(t, c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want an error with %q", c.args, err, c.says)
		}
	}
}

func TestDemo(t *testing.T) {
	runtimeDir(t)
	out, errOut, err := execute(t, "demo", "--json", "--steps", "12", "--images", imageFolder(t), "--text", textFile(t))
	if err != nil {
		t.Fatalf("%v\n%s", err, errOut)
	}
	workers := map[string]bool{}
	d := json.NewDecoder(strings.NewReader(out))
	for _, model := range []string{"fashion-mlp", "qwen3-tiny"} {
		var o outcome
		if err := d.Decode(&o); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if o.Model != model || o.Steps != 12 || *o.MessagesPerStep != 1 {
			t.Errorf("%+v, want 12 steps of %s", o, model)
		}
		workers[strings.Fields(o.Engine)[1]] = true
	}
	if len(workers) != 2 {
		t.Errorf("clients were served by %v, want two workers", workers)
	}
	for _, want := range []string{"dispatcher: process", "worker w1: process", "fashion-mlp: step 12/12", "qwen3-tiny: step 12/12"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("no %q in\n%s", want, errOut)
		}
	}
}

func TestDemoSaysWhatFailed(t *testing.T) {
	runtimeDir(t)
	out, errOut, err := execute(t, "demo", "--steps", "12", "--images", t.TempDir(), "--text", textFile(t))
	if err == nil || !strings.Contains(err.Error(), "fashion-mlp: ") || !strings.Contains(err.Error(), "train-images") {
		t.Errorf("%v, want an error of fashion-mlp that says which file is missing\n%s", err, errOut)
	}
	if !strings.Contains(out, "bits per byte") {
		t.Errorf("the other model's summary is missing: %s", out)
	}
}

// TestDemoClientInterrupted checks that a client which an interrupt ends while it
// evaluates counts as interrupted, and one that fails by itself as failed.
func TestDemoClientInterrupted(t *testing.T) {
	t.Chdir(t.TempDir()) // where sh finds the client's script, train
	for status, fails := range map[int]bool{130: false, 1: true} {
		script := fmt.Sprintf(`trap 'kill $!; echo "{\"steps\":5,\"error\":\"it ended\"}"; exit %d' INT
sleep 1000 >/dev/null 2>&1 &
echo ready >&2
wait
`, status)
		if err := os.WriteFile("train", []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		d := demoClient{model: "m"}
		err := d.train(ctx, "/bin/sh", "nowhere", 0, writerFunc(func(b []byte) (int, error) {
			cancel()
			return len(b), nil
		}))
		if d.result.Summary == nil || d.result.Steps != 5 || (err != nil) != fails {
			t.Errorf("exit status %d: %v, %+v", status, err, d.result.Summary)
		}
	}
}

// testDemoModels checks that a model whose usual data is missing is left out before
// anything is trained, and that data of a flag must be there.
func testDemoModels(t *testing.T) {
	here, gone := t.TempDir(), filepath.Join(t.TempDir(), "gone")
	images := func(ok bool) func(...string) (*data.ImageFiles, error) {
		return func(...string) (*data.ImageFiles, error) {
			if !ok {
				return nil, data.ErrNotFound
			}
			return &data.ImageFiles{}, nil
		}
	}
	text := func(ok bool) func(...string) (string, error) {
		return func(...string) (string, error) {
			if !ok {
				return "", data.ErrNotFound
			}
			return here, nil
		}
	}
	for _, c := range []struct {
		images, text         string
		hasImages, hasText   bool
		models, left, failed string
	}{
		{"", "", true, true, "fashion-mlp qwen3-tiny", "", ""},
		{"", "", false, true, "qwen3-tiny", "--images", ""},
		{"", "", true, false, "fashion-mlp", "--text", ""},
		{"", "", false, false, "", "", "--images"},
		{here, here, false, false, "fashion-mlp qwen3-tiny", "", ""},
		{gone, "", true, true, "", "", "--images: stat " + gone},
		{"", gone, true, true, "", "", "--text: stat " + gone},
	} {
		models, left, err := demoModels(c.images, c.text, images(c.hasImages), text(c.hasText))
		var names []string
		for _, m := range models {
			names = append(names, m.model)
		}
		if got := strings.Join(names, " "); got != c.models || (err != nil) != (c.failed != "") || err != nil && !strings.Contains(err.Error(), c.failed) ||
			(len(left) > 0) != (c.left != "") || len(left) > 0 && !strings.Contains(left[0].Error(), c.left) {
			t.Errorf("%+v: %s, left %v, %v", c, got, left, err)
		}
	}
}

func TestBench(t *testing.T) {
	runtimeDir(t)
	out, _, err := execute(t, "bench", "ops", "transfer", "--json", "--rounds", "2", "--scale", "50")
	if err != nil {
		t.Fatal(err)
	}
	bars := map[string]bool{}
	for line := range strings.Lines(out) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if name, ok := m["bar"]; ok {
			bars[fmt.Sprint(name)] = true
		}
	}
	for _, name := range []string{"ops_per_second", "op_roundtrip_over_unix", "upload_over_memcpy", "view_over_copy"} {
		if !bars[name] {
			t.Errorf("no bar %s in\n%s", name, out)
		}
	}
	out, _, err = execute(t, "bench", "step", "--rounds", "2", "--scale", "50")
	if err != nil || !strings.Contains(out, "cores") || !strings.Contains(out, "step_cluster_over_inprocess = ") {
		t.Errorf("%v, want the machine and a table with bars:\n%s", err, out)
	}
	for _, args := range [][]string{{"marathon"}, {"ops", "--rounds", "-1"}} {
		if _, _, err := execute(t, append([]string{"bench"}, args...)...); err == nil {
			t.Errorf("bench %v: no error", args)
		}
	}
	if _, _, err := execute(t, "bench-peer", "nobody"); err == nil {
		t.Error("bench-peer nobody: no error")
	}
}
