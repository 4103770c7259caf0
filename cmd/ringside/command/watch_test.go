package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	// On a slow machine a worker may not have answered yet: it is silent, and the next
	// sample has it.
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
		if !slices.ContainsFunc(r.Workers, func(w metrics.Worker) bool { return w.Silent > 0 || w.Runs == 0 }) || try == 50 {
			break
		}
	}
	if r.Seconds <= 0 || r.Dispatcher.Clients != 1 || r.Dispatcher.Sessions != 1 || r.Dispatcher.Messages != 0 || r.Dispatcher.TensorBytes != 0 {
		t.Errorf("dispatcher: %+v", r)
	}
	if len(r.Workers) != 2 || r.Workers[0].Name != "w0" || r.Workers[1].Name != "w1" {
		t.Fatalf("workers: %+v", r.Workers)
	}
	for _, w := range r.Workers {
		if w.PID != uint64(os.Getpid()) || w.Sessions != 1 || w.Busy <= 0 || w.Busy > 1 || w.Waiting <= 0 || w.Waiting > w.Busy ||
			w.Runs <= 0 || w.PlanHits <= 0 || w.Messages < w.Runs || w.Collectives <= 0 || w.MovedBytes <= 0 || w.ArenaBytes == 0 || w.Ops["tanh"] <= 0 {
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

// TestTrace checks the file against its format, and that it has the workers' events:
// runs, the programs in them, and in these or between them the collectives.
func TestTrace(t *testing.T) {
	addr := busyCluster(t)
	path := filepath.Join(t.TempDir(), "trace.json")
	var file struct {
		DisplayTimeUnit string
		TraceEvents     []traceEvent
	}
	count := map[string]int{}
	// On a slow machine a short trace may have nothing but its beginning.
	for try := 0; ; try++ {
		out, errOut, err := execute(t, "trace", "--connect", addr, "-o", path, "--seconds", "0.4")
		if err != nil {
			t.Fatalf("%v\n%s", err, errOut)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file.TraceEvents = nil
		if err := json.Unmarshal(b, &file); err != nil {
			t.Fatal(err)
		}
		if file.DisplayTimeUnit != "ns" || !strings.Contains(out, "events of 2 workers") {
			t.Errorf("%q, %s", file.DisplayTimeUnit, out)
		}
		clear(count)
		for _, e := range file.TraceEvents {
			count[e.Phase+" "+e.Cat]++
		}
		if count["X program"] > 0 && count["X collective"]+count["b collective"] > 0 || try == 50 {
			break
		}
	}
	if count["X program"] == 0 || count["X message"] == 0 || count["X collective"]+count["b collective"] == 0 || count["M "] != 5 || count["C "] == 0 ||
		count["b collective"] != count["e collective"] {
		t.Errorf("events: %v", count)
	}
	checkNesting(t, file.TraceEvents)
	t.Chdir(t.TempDir())
	out, errOut, err := execute(t, "trace", "--connect", addr, "-o", "-", "--seconds", "0.1")
	if err != nil || json.Unmarshal([]byte(out), &file) != nil || !strings.Contains(errOut, "events of 2 workers") || len(listing(t, ".")) != 1 {
		t.Errorf("to standard output: %v, %q, %.100q, files %v", err, errOut, out, listing(t, "."))
	}
}

// checkNesting checks that any two events of a thread are nested or apart: viewers draw
// nothing else.
func checkNesting(t *testing.T, all []traceEvent) {
	t.Helper()
	var nested []traceEvent
	for _, e := range all {
		switch e.Phase {
		case "X":
			if e.Dur == nil || *e.Dur < 0 || e.Name == "" || e.PID == 0 {
				t.Fatalf("%+v", e)
			}
			nested = append(nested, e)
		case "M", "C", "b", "e", "i":
		default:
			t.Fatalf("phase of %+v", e)
		}
	}
	slices.SortStableFunc(nested, func(a, b traceEvent) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TS, b.TS), cmp.Compare(*b.Dur, *a.Dur))
	})
	const rounding = 2e-3 // microseconds
	var open []traceEvent
	for i, e := range nested {
		if i > 0 && e.PID != nested[i-1].PID {
			open = nil
		}
		for len(open) > 0 && open[len(open)-1].TS+*open[len(open)-1].Dur <= e.TS+rounding {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && open[len(open)-1].TS+*open[len(open)-1].Dur+rounding < e.TS+*e.Dur {
			t.Fatalf("%+v ends after %+v, in which it began", e, open[len(open)-1])
		}
		open = append(open, e)
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
		{[]string{"trace", "-o", "x", "--seconds", "0"}, "--seconds 0: expected above 0"},
		{[]string{"trace", "-o", filepath.Join(t.TempDir(), "x"), "--connect", "/nowhere/at/all"}, "/nowhere/at/all"},
		{[]string{"top", "--connect", "/nowhere/at/all"}, "/nowhere/at/all"},
	} {
		if _, _, err := execute(t, x.args...); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %v, expected %q", x.args, err, x.want)
		}
	}
}

// TestTopFits checks that the tables fit into a terminal of any width, with the most
// important columns, and that without a width nothing is left out.
func TestTopFits(t *testing.T) {
	r := &metrics.Report{
		Dispatcher: metrics.Dispatcher{Clients: 12, Sessions: 345, Waiting: 6, Messages: 123456, Bytes: 9.9e9},
		Workers: []metrics.Worker{
			{Name: "w0", PID: 4194304, Busy: 1, Waiting: 0.5, Sessions: 12, Runs: 999, PlanHits: 999, ArenaInUse: 1 << 33, ArenaBytes: 1 << 34},
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
		for _, want := range append([]string{"runs/s", "worker"}, map[int][]string{0: workerColumns, 80: {"busy", "waits"}}[cols]...) {
			if cols >= 40 && !strings.Contains(b.String(), want) {
				t.Errorf("%d columns: no %q in\n%s", cols, want, &b)
			}
		}
	}
}
