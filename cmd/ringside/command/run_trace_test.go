package command

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// rankArgument has this binary be a rank of a test: it reduces ten times. With an
// argument behind it rank 1 reduces one element less than the others.
const rankArgument = "rank-of-a-test"

func rankOfTest(odd bool) int {
	err := func() error {
		ctx := context.Background()
		g, err := collective.Init(ctx, nil)
		if err != nil {
			return err
		}
		defer g.Close()
		x := []float32{1, 2}
		if odd && g.Rank() == 1 {
			x = x[:1]
		}
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
	out, err = ringside(t, "run", "-n", "1", "--trace", file, "--", "true").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "once they call collective.Init") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestRunTraceOfHosts: the calls of ranks on two hosts are in one file, in which each
// call of all ranks overlaps on all of them, and no host keeps a file.
func TestRunTraceOfHosts(t *testing.T) {
	hosts := nettest.ForTest(t, os.Getenv)
	runtimeDir(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nhost=$1; shift; case $host in\n"
	for _, h := range hosts {
		enter := h.Command(t.Context(), "sh", "-c").Args
		script += h.Addr + `) exec ` + strings.Join(enter, " ") + " \"$*\" ;;\n"
	}
	rsh := filepath.Join(dir, "rsh")
	if err := os.WriteFile(rsh, []byte(script+"esac\nexit 255\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	file, log := filepath.Join(dir, "ranks.json"), filepath.Join(dir, "ranks.log")
	// /dev/shm is each host's own
	out, err := ringside(t, "run", "--rsh", rsh, "--hosts", hosts[0].Addr+":2,"+hosts[1].Addr, "--env", "XDG_RUNTIME_DIR=/dev/shm",
		"--trace", file, "--log", log, "--", self, rankArgument).CombinedOutput()
	if err != nil || !strings.Contains(string(out), " events of 3 ranks in "+file+", fetched from other hosts in ") {
		t.Fatalf("%v: %s", err, out)
	}
	f := parsed(t, file)
	for i, host := range []int{0, 0, 1} {
		if name := f.Processes[1+i]; !strings.HasPrefix(name, fmt.Sprintf("rank %d on %s (process ", i, hosts[host].Addr)) {
			t.Errorf("rank %d is %q", i, name)
		}
	}
	type span struct{ began, ended float64 }
	calls, set := map[string]span{}, 0
	for i := range f.Events {
		e := &f.Events[i]
		if strings.HasPrefix(e.Name, "clock set by calls, to ") && e.PID == 3 {
			set++
		}
		if e.Cat != "call" || e.Name != "all-reduce" && e.Name != "barrier" {
			continue
		}
		key := fmt.Sprint(e.Args["call"])
		c, ok := calls[key]
		if !ok {
			c = span{math.Inf(-1), math.Inf(1)}
		}
		calls[key] = span{max(c.began, e.TS), min(c.ended, e.TS+*e.Dur)}
	}
	// The clocks of both hosts are this machine's, which may differ by the wall clock's
	// adjustments.
	for key, c := range calls {
		if c.began > c.ended+1000 {
			t.Errorf("call %s begins at %g µs on one rank, after it ended at %g on another", key, c.began, c.ended)
		}
	}
	if len(calls) != 11 || set != 1 {
		t.Errorf("%d calls, the clock set %d times; expected 11 and 1", len(calls), set)
	}
	if left, err := filepath.Glob("/tmp/ringside-events-*-[01]"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v: left behind", left, err)
	}
}
