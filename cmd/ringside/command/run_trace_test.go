package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// rankArgument has this binary be a rank of a test: it reduces ten times.
const rankArgument = "rank-of-a-test"

func rankOfTest() int {
	err := func() error {
		ctx := context.Background()
		g, err := collective.Init(ctx, nil)
		if err != nil {
			return err
		}
		defer g.Close()
		x := []float32{1, 2}
		for range 10 {
			if err := collective.AllReduce(ctx, g, x, x, collective.Mean); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestRunTrace: run --trace has the calls of all ranks in one file, which trace view
// reads, and leaves no other behind.
func TestRunTrace(t *testing.T) {
	runtimeDir(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	dir := t.TempDir()
	file, log := filepath.Join(dir, "ranks.json"), filepath.Join(dir, "ranks.log")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := ringside(t, "run", "-n", "3", "--trace", file, "--log", log, "--", self, rankArgument).CombinedOutput()
	if err != nil || !strings.Contains(string(out), " events of 3 ranks in "+file) {
		t.Fatalf("%v: %s", err, out)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	f, err := trace.Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	s, times := trace.Summarize(f), map[string]int{}
	for _, op := range s.Ops {
		times[op.Name] = op.Count
	}
	if len(s.Lanes) != 3 || times["all-reduce"] != 30 || times["barrier"] != 3 || s.Lost != 0 {
		t.Errorf("%d lanes, %v, %d lost; expected 30 all-reduces of 3 ranks, and Init's barrier", len(s.Lanes), times, s.Lost)
	}
	if b, err := os.ReadFile(log); err != nil || strings.Count(string(b), `"all-reduce" "f32[2]" 8 `) != 30 {
		t.Errorf("%v: %s", err, b)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("%v, %v: left behind", left, err)
	}
	out, err = ringside(t, "trace", "view", file, "--svg", filepath.Join(dir, "ranks.svg")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all-reduce") {
		t.Errorf("%v: %s", err, out)
	}
	failed(t, 2, []string{`--trace and --log are for ranks of this host`, `"far"`}, "run", "--hosts", "far:2", "--trace", file, "--", "true")
	out, err = ringside(t, "run", "-n", "1", "--trace", file, "--", "true").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "once they call collective.Init") {
		t.Errorf("%v: %s", err, out)
	}
}
