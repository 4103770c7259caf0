package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/collective/launch"
)

// TestRun checks the ranks' output, their exit status and the summary.
func TestRun(t *testing.T) {
	runtimeDir(t)
	// Rank 1 fails when rank 0 has printed its line.
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FIFO", fifo)
	for _, c := range []struct {
		args           string
		code           int
		out, err       []string // lines of stdout, sorted; stderr
		ranks, retries int      // of the summary, if there is one
	}{
		{args: "-n 2 -- sh -c $echo", out: []string{"[0] rank 0 of 2", "[1] rank 1 of 2"}},
		{args: "-n 2 --prefix=false -- sh -c $echo", out: []string{"rank 0 of 2", "rank 1 of 2"}},
		{args: "-n 2 --env RANK=7 sh -c $echo", out: []string{"[0] rank 7 of 2", "[1] rank 7 of 2"}},
		{args: "-n 2 --tls -- sh -c $tls", out: []string{"[0] TLS 1", "[1] TLS 1"}},
		{args: "-n 2 --json --restarts 1 -- sh -c $fail", code: 4, err: []string{"[0] rank 0 of 2", "ringside: launch: rank failed: rank 1 on localhost: exit status 4"}, ranks: 2, retries: 1},
		{args: "-n 1 --json -- true", ranks: 1},
		{args: "-n 1 -- nosuchprogram", code: 1, err: []string{"in no folder of $PATH needs its path, as ./nosuchprogram"}},
		{args: "-n 1 -- /etc", code: 1, err: []string{"it is a folder, expected a program"}},
		{args: "-n 1 -- /etc/passwd", code: 1, err: []string{"permission denied; chmod +x lets it run"}},
		{args: "-n 3 --hosts a,b -- true", code: 2, err: []string{"have room for 2, one on each unless it is said, as in a:2,b:2"}},
		{args: "-n 1 -- /does/not/exist", code: 1, err: []string{"starting rank 0 on localhost", "no such file"}},
		{args: "-n 2", code: 2, err: []string{"no program"}},
		{args: "-- true", code: 2, err: []string{"expected -n or --hosts"}},
		{args: "-n 0 -- true", code: 2, err: []string{"--ranks 0: expected 1 to 65536"}},
		{args: "-n -3 -- true", code: 2, err: []string{"--ranks -3: expected 1 to 65536"}},
		{args: "-n 1 --restarts -1 -- true", code: 2, err: []string{"--restarts -1: expected 0"}},
		{args: "-n 1 --master-port 70000 -- true", code: 2, err: []string{"--master-port 70000: expected 1 to 65535"}},
		{args: "-n 1 --grace -3s -- true", code: 2, err: []string{"--grace -3s: expected above 0"}},
		{args: "-n x -- true", code: 2, err: []string{`"x"`}},
		{args: "--hosts a:x -- true", code: 2, err: []string{`--hosts`, `"a:x"`}},
		{args: "-n 3 --hosts a:2 -- true", code: 2, err: []string{"room for 2"}},
		{args: "-n 1 --env x -- true", code: 2, err: []string{`"x"`, "NAME=value"}},
	} {
		args := []string{"run"}
		for a := range strings.FieldsSeq(c.args) {
			switch a {
			case "$echo":
				a = "echo rank $RANK of $WORLD_SIZE"
			case "$tls":
				a = "echo TLS $RINGSIDE_TLS"
			case "$fail":
				a = "echo rank $RANK of $WORLD_SIZE; if test $RANK = 1; then read said <$FIFO; exit 4; fi; echo said >$FIFO; sleep 100"
			}
			args = append(args, a)
		}
		cmd := ringside(t, args...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: exit status %d, %v, expected %d: %s", c.args, code, err, c.code, errs.String())
			continue
		}
		for _, part := range c.err {
			if !strings.Contains(errs.String(), part) {
				t.Errorf("%s: standard error lacks %q: %s", c.args, part, errs.String())
			}
		}
		if c.ranks > 0 {
			var sum launch.Summary
			if err := json.Unmarshal(out.Bytes(), &sum); err != nil || sum.Ranks != c.ranks || sum.Restarts != c.retries || sum.ExitCode != c.code || sum.Hosts != 1 {
				t.Errorf("%s: %q, %+v, %v", c.args, out.String(), sum, err)
			}
			continue
		}
		got := slices.Sorted(strings.SplitSeq(strings.TrimSpace(out.String()), "\n"))
		if c.out == nil {
			c.out = []string{""}
		}
		if !slices.Equal(got, c.out) {
			t.Errorf("%s: %q, expected %q", c.args, got, c.out)
		}
	}
}

// ringside is this program with arguments.
func ringside(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	command, err := self(nil)
	if err != nil {
		t.Fatal(err)
	}
	return command(args...)
}

// TestRunInterrupted checks that an interrupt ends all ranks, and the program with the
// status of one.
func TestRunInterrupted(t *testing.T) {
	runtimeDir(t)
	cmd := ringside(t, "run", "-n", "2", "--", "sh", "-c", "trap 'echo bye; exit 0' TERM; echo ready; sleep 1000 & wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(notice, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var said bytes.Buffer
	b := make([]byte, 256)
	for strings.Count(said.String(), "ready\n") < 2 {
		n, err := out.Read(b)
		if err != nil {
			t.Fatalf("%v after %q", err, said.String())
		}
		said.Write(b[:n])
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, err := said.ReadFrom(out); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || strings.Count(said.String(), "bye\n") != 2 {
		t.Errorf("exit status %d, %q; expected 130 and two byes", code, said.String())
	}
}

// testRunInterruptedTwice checks that the first interrupt says which ranks are waited
// for, and that the second ends the program and the ranks at once, also where a script
// has started it in the background.
func testRunInterruptedTwice(t *testing.T) {
	runtimeDir(t)
	args := []string{"run", "-n", "2", "--grace", "1h", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"}
	state, said := interruptedTwice(t, ringside(t, args...))
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGINT || !strings.Contains(said, `ranks="[0 1]"`) {
		t.Errorf("%v, %q; expected the end by an interrupt, and ranks [0 1]", state, said)
	}
	cmd := ringside(t, args...)
	cmd.Args = append([]string{"sh", "-c", `trap '' INT; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	if state, said = interruptedTwice(t, cmd); state.ExitCode() != 130 || !strings.Contains(said, `ranks="[0 1]"`) {
		t.Errorf("started with interrupts ignored: %v, %q; expected exit status 130, and ranks [0 1]", state, said)
	}
}

// interruptedTwice starts a run of two ranks, interrupts it when both are ready, and
// again and again once it says for which ranks it waits. It returns how the run ended and
// what it printed.
func interruptedTwice(t *testing.T, cmd *exec.Cmd) (state *os.ProcessState, said string) {
	t.Helper()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(notice, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var out strings.Builder
	again := time.NewTicker(2 * together)
	defer again.Stop()
	over := make(chan struct{})
	defer close(over)
	for ready, sc := 0, bufio.NewScanner(pipe); sc.Scan(); {
		out.WriteString(sc.Text() + "\n")
		if strings.HasSuffix(sc.Text(), "ready") {
			ready++
		}
		if ready == 2 && strings.HasSuffix(sc.Text(), "ready") {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}
		if strings.Contains(sc.Text(), "waiting for ranks") {
			go func() { // one that is late enough counts
				for {
					select {
					case <-again.C:
						_ = cmd.Process.Signal(syscall.SIGINT) // it may be gone
					case <-over:
						return
					}
				}
			}()
		}
	}
	_ = cmd.Wait()
	return cmd.ProcessState, out.String()
}
