package command

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// busyCluster starts a cluster of two workers on which a session of both keeps summing a
// tensor that is cut by rows. It ends with the test.
func busyCluster(t *testing.T) (addr string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c, err := cluster.Start(context.Background(), &cluster.Options{InProcess: true, Workers: 2, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	e, err := client.Dial(context.Background(), c.Addr(), &client.Options{Name: "summer", Config: &config.Config{NumWorkers: 2,
		Signals: []config.Signal{{Name: "rows", Shard: &config.Shard{}}}}})
	if err != nil {
		t.Fatal(err)
	}
	sess := tensor.NewSession(e, nil)
	var x *tensor.Tensor
	sess.Signal("rows", func() { x = tensor.From(sess, make([]float32, 64*64), 64, 64) })
	stop, over := make(chan struct{}), make(chan error)
	go func() {
		for {
			y := x.Tanh().Sum()
			_, err := y.Item()
			y.Free()
			select {
			case <-stop:
				over <- err
				return
			default:
			}
			if err != nil {
				<-stop
				over <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		if err := <-over; err != nil {
			t.Error(err)
		}
		e.Close()
	})
	return c.Addr()
}

func TestTop(t *testing.T) {
	addr := busyCluster(t)
	// On a slow machine a worker may not have answered yet, or has only compiled: it is
	// silent, or has no hits, and a later sample has them.
	var r metrics.Report
	for try := 0; ; try++ {
		out, errOut, err := execute(t, "top", "--connect", addr, "--once", "--json", "--interval", "200ms")
		if err != nil {
			t.Fatalf("%v\n%s", err, errOut)
		}
		r = metrics.Report{}
		if err := json.Unmarshal([]byte(out), &r); err != nil || strings.Count(out, "\n") != 1 {
			t.Fatalf("%v in %s", err, out)
		}
		if !slices.ContainsFunc(r.Workers, func(w metrics.Worker) bool { return w.Silent > 0 || w.PlanHits == 0 }) || try == 50 {
			break
		}
	}
	if r.Seconds <= 0 || r.Dispatcher.Clients != 1 || r.Dispatcher.Sessions != 1 || r.Dispatcher.Messages != 0 || r.Dispatcher.TensorBytes != 0 {
		t.Errorf("dispatcher: %+v", r)
	}
	if len(r.Workers) != 2 || r.Workers[0].Name != "w0" || r.Workers[1].Name != "w1" {
		t.Fatalf("workers: %+v", r.Workers)
	}
	received := 1.01 / r.Seconds // the rate of a message whose run alone is in the sample
	for _, w := range r.Workers {
		if w.PID != uint64(os.Getpid()) || w.Sessions != 1 || w.Busy <= 0 || w.Busy > 1 || w.Waiting <= 0 || w.Waiting > w.Busy ||
			w.Runs <= 0 || w.PlanHits <= 0 || w.Messages < w.Runs-received || w.Collectives <= 0 || w.MovedBytes <= 0 || w.ArenaBytes == 0 || w.Ops["tanh"] <= 0 {
			t.Errorf("%+v", w)
		}
	}
	if len(r.Sessions) != 2 || r.Sessions[0].Name != "summer" || r.Sessions[0].Workers != 2 || r.Sessions[0].Runs <= 0 || r.Ops["sum"] <= 0 {
		t.Errorf("sessions: %+v, operations %v", r.Sessions, r.Ops)
	}

	out, _, err := execute(t, "top", "--connect", addr, "--once", "--interval", "100ms")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 client, 1 session (", "\nw0 ", "\nw1 ", "summer", "plan hits"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestTopInterrupted: an interrupt is how it ends, and no failure.
func TestTopInterrupted(t *testing.T) {
	addr := busyCluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out stopAfter
	out.stop, out.lines = cancel, 3
	root := NewRootCommand()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"top", "--connect", addr, "--interval", "20ms", "--json"})
	if code := Main(ctx, root); code != 0 {
		t.Errorf("exit status %d\n%s", code, out.String())
	}
	if n := strings.Count(out.String(), "\n"); n < out.lines {
		t.Errorf("%d objects", n)
	}
}

// stopAfter calls stop once so many lines are written.
type stopAfter struct {
	bytes.Buffer
	lines int
	stop  func()
}

func (s *stopAfter) Write(b []byte) (int, error) {
	n, err := s.Buffer.Write(b)
	if bytes.Count(s.Bytes(), []byte("\n")) >= s.lines {
		s.stop()
	}
	return n, err
}

// TestTrace checks that the file is one that viewers draw, and that it has the workers'
// events: runs, the programs in them, and in these or between them the collectives.
func TestTrace(t *testing.T) {
	addr := busyCluster(t)
	path := filepath.Join(t.TempDir(), "trace.json")
	// On a slow machine a short trace may have nothing but its beginning.
	count := map[string]int{}
	for try := 0; ; try++ {
		out, errOut, err := execute(t, "trace", "--connect", addr, "-o", path, "--seconds", "0.4")
		if err != nil {
			t.Fatalf("%v\n%s", err, errOut)
		}
		if !strings.Contains(out, "events of 2 workers") {
			t.Error(out)
		}
		clear(count)
		f := parsed(t, path)
		for i := range f.Events {
			count[f.Events[i].Phase+" "+f.Events[i].Cat]++
		}
		if len(f.Processes) != 3 {
			t.Errorf("processes: %v", f.Processes)
		}
		if count["X program"] > 0 && count["X collective"]+count["b collective"] > 0 || try == 50 {
			break
		}
	}
	if count["X program"] == 0 || count["X step"] == 0 || count["X message"] == 0 || count["X collective"]+count["b collective"] == 0 || count["C "] == 0 {
		t.Errorf("events: %v", count)
	}
}

// testTraceToOutput checks that -o - is standard output, not a file of that name.
func testTraceToOutput(t *testing.T) {
	addr := busyCluster(t)
	t.Chdir(t.TempDir())
	out, errOut, err := execute(t, "trace", "--connect", addr, "-o", "-", "--seconds", "0.1")
	if _, e := trace.Parse(strings.NewReader(out)); err != nil || e != nil || !strings.Contains(errOut, "events of 2 workers in standard output\n") || len(listing(t, ".")) != 1 {
		t.Errorf("to standard output: %v, %v, %q, %.100q, files %v", err, e, errOut, out, listing(t, "."))
	}
}

// TestTraceDashes checks that a command with an output of its own refuses - as a file,
// before it starts anything, and makes no file of that name.
func TestTraceDashes(t *testing.T) {
	runtimeDir(t)
	t.Chdir(t.TempDir())
	for args, says := range map[string]string{
		"train --trace -":               "--trace -: the command's own output goes to standard output; expected a file, such as --trace run.json, or ./- for",
		"train --log -":                 "--log -: the command's own output",
		"up --trace -":                  "--trace -: ",
		"run --log - -n 1 -- true":      "--log -: ",
		"train --trace x --trace-mib 0": "--trace-mib 0: expected 1 to",
	} {
		failed(t, 2, []string{says}, strings.Fields(args)...)
	}
	if left := listing(t, "."); len(left) != 1 {
		t.Errorf("files %v", left)
	}
	addr := busyCluster(t)
	if _, _, err := execute(t, "trace", "--connect", addr, "-o", "-", "--log", "-"); err == nil || !strings.Contains(err.Error(), "-o - and --log - exclude each other") {
		t.Errorf("two outputs in one: %v", err)
	}
}

// TestTraceOfMany draws a trace of more processes than a drawing has lanes for.
func TestTraceOfMany(t *testing.T) {
	t.Chdir(t.TempDir())
	var events []string
	for pid := range trace.MaxDrawn + 3 {
		events = append(events,
			fmt.Sprintf(`{"name":"process_name","ph":"M","pid":%d,"args":{"name":"worker %[1]d"}}`, pid+1),
			fmt.Sprintf(`{"name":"add","cat":"program","ph":"X","ts":%d,"dur":5,"pid":%[1]d,"tid":1}`, pid+1))
	}
	if err := os.WriteFile("t.json", []byte(`{"displayTimeUnit":"ns","traceEvents":[`+"\n"+strings.Join(events, ",\n")+"\n]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, said, err := execute(t, "trace", "view", "t.json", "--svg", "t.svg", "--png", "t.png")
	if want := fmt.Sprintf("warning: the first %d of %d processes are drawn, and 3 left out\n", trace.MaxDrawn, trace.MaxDrawn+3); err != nil || said != want {
		t.Errorf("%v, %q, expected %q", err, said, want)
	}
	drawn, err := os.ReadFile("t.svg")
	if n := strings.Count(string(drawn), "worker "); err != nil || n != trace.MaxDrawn || !strings.Contains(string(drawn), "3 more processes are not drawn") {
		t.Errorf("%v, %d lanes, expected %d and a note of the others", err, n, trace.MaxDrawn)
	}

	// The picture is written although the output fails.
	root := NewRootCommand()
	root.SetOut(unread{})
	root.SetErr(io.Discard)
	root.SetArgs([]string{"trace", "view", "t.json", "--png", "unread.png"})
	if err := root.ExecuteContext(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("%v, expected the error of the output", err)
	}
	if _, err := os.Stat("unread.png"); err != nil {
		t.Error(err)
	}
}

// unread is an output that takes nothing.
type unread struct{}

func (unread) Write([]byte) (int, error) { return 0, fs.ErrClosed }

// parsed reads a trace.
func parsed(t *testing.T, path string) *trace.File {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := trace.Parse(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestTrainTrace: the trace of a training run has every message of the client at its
// sender and at its receiver, and view and its pictures show it.
func TestTrainTrace(t *testing.T) {
	t.Chdir(t.TempDir())
	out, errOut, err := execute(t, "train", "--data", textFile(t), "--batch", "2", "--sample", "0", "--workers", "2", "--steps", "4", "--loss-every", "2", "--trace", "t.json", "--log", "t.log", "--trace-mib", "32")
	if err != nil || !strings.Contains(errOut, "events of 2 workers in t.json") {
		t.Fatalf("%v\n%s", err, errOut)
	}
	for _, want := range []string{"messages, client and w0, w1: a queue of their own", "tensors, client and w0, w1: shared memory", ": w0 and w1: shared memory"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	f := parsed(t, "t.json")
	s := trace.Summarize(f)
	if s.Matched == 0 || s.Alone != 0 || s.Lost != 0 || s.Matched != s.Sent.Count {
		t.Errorf("%d messages, %d at both ends, %d at one, %d events lost", s.Sent.Count, s.Matched, s.Alone, s.Lost)
	}
	if s.Steps != 2 || s.RoundTrips == 0 || s.Uploads.Bytes == 0 || s.Reads.Count == 0 || len(s.Ops) == 0 || len(s.Lanes) != 3 {
		t.Errorf("%+v", s)
	}
	out, _, err = execute(t, "trace", "view", "t.json", "--svg", "t.svg", "--png", "t.png", "--ops", "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"round trips", "per step", "worker w1", "workers: programs", "Largest: ", "more\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	b, err := os.ReadFile("t.png")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := png.Decode(bytes.NewReader(b)); err != nil || m.Bounds().Dx() < 1000 {
		t.Errorf("the picture: %v", err)
	}
	b, err = os.ReadFile("t.svg")
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(b, new(struct{ XMLName xml.Name })); err != nil || !bytes.Contains(b, []byte("<path")) {
		t.Errorf("the drawing: %v", err)
	}
	if b, err = os.ReadFile("t.log"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seq time_us event", `"send Run"`, `"step"`, `"collective"`, ` path="shared memory"`} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("no %s in the log", want)
		}
	}
}

func TestWatchMistakes(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"top", "--interval", "1ms"}, "--interval 1ms: expected 10ms or more"},
		{[]string{"top", "more"}, "takes no arguments"},
		{[]string{"trace"}, "-o FILE is needed"},
		{[]string{"train", "--in-process", "--trace", "x"}, "--trace and --log are about a cluster"},
		{[]string{"run", "-n", "1", "--trace", t.TempDir(), "--", "true"}, "is a directory, expected the name of a file"},
		{[]string{"run", "-n", "1", "--log", filepath.Join(t.TempDir(), "none", "x"), "--", "true"}, "--log: open "},
		{[]string{"trace", "nosuch"}, `unknown command "nosuch" for "ringside trace": it has view; see`},
		{[]string{"trace", "view"}, "expected one, the file of a trace"},
		{[]string{"trace", "view", os.DevNull}, "it ends after 0 events"},
		{[]string{"trace", "-o", "x", "--seconds", "0"}, "--seconds 0: expected above 0"},
		{[]string{"trace", "-o", filepath.Join(t.TempDir(), "x"), "--connect", "/nowhere/at/all"}, "/nowhere/at/all"},
		{[]string{"top", "--connect", "/nowhere/at/all"}, "/nowhere/at/all"},
	} {
		if _, _, err := execute(t, x.args...); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %v, expected %q", x.args, err, x.want)
		}
	}
}

// testTopFits checks that the tables fit into a terminal of any width, with the most
// important columns, and that without a width nothing is left out.
func testTopFits(t *testing.T) {
	r := &metrics.Report{
		Dispatcher: metrics.Dispatcher{Clients: 12, Sessions: 345, Waiting: 6, Messages: 123456, Bytes: 9.9e9},
		Workers: []metrics.Worker{
			{Name: "w0", PID: 4194304, Busy: 1, Waiting: 0.5, Sessions: 12, Runs: 999, PlanHits: 999, ArenaInUse: 1 << 33, ArenaBytes: 1 << 34,
				GPU: &metrics.GPU{Launches: 12345, HostSteps: 1, UpBytes: 1e9, DownBytes: 1e9, Calls: 1e6, RunCalls: 1000, Opens: 12}},
			{Name: "w1-of-another-host", PID: 1, Silent: 2.5, QueuedBytes: 7},
		},
		Sessions: []metrics.Session{{ID: 1 << 60, Name: "\x1b\na name of a session that is rather long, and é at its end", Worker: "w0", Workers: 2}},
		Ops:      map[string]float64{"matmul": 5, "tanh": 4, "causal_softmax": 3, "layer_norm_grad_w": 2, "cross_entropy_grad": 1},
	}
	for _, cols := range []int{0, 200, 80, 40, 5} {
		var b strings.Builder
		if err := writeTop(&b, r, cols); err != nil {
			t.Fatal(err)
		}
		longest := 0
		for line := range strings.Lines(b.String()) {
			longest = max(longest, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		if cols > 0 && longest > cols || cols == 0 && longest <= 80 {
			t.Errorf("%d columns: a line of %d\n%s", cols, longest, &b)
		}
		if strings.Contains(b.String(), "\x1b") || strings.Contains(b.String(), "\na name") {
			t.Errorf("%d columns: a name changes the terminal's state\n%q", cols, &b)
		}
		for _, want := range append([]string{"runs/s", "worker", "launches/s"}, map[int][]string{0: slices.Concat(workerColumns, gpuColumns), 80: {"busy", "waits"}}[cols]...) {
			if cols >= 40 && !strings.Contains(b.String(), want) {
				t.Errorf("%d columns: no %q in\n%s", cols, want, &b)
			}
		}
	}
}
