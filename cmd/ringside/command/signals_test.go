package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestStopOn: the first signal ends at once, those that come together with it do nothing,
// and after them an interrupt has its own effect again.
func TestStopOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := make(chan os.Signal) // a signal that is not taken stops the bubble
		began := time.Now()
		var said []string
		say := func(what string) { said = append(said, fmt.Sprint(what, " after ", time.Since(began))) }
		time.AfterFunc(time.Hour, func() {
			c <- syscall.SIGTERM
			c <- os.Interrupt
		})
		time.AfterFunc(time.Hour+together/2, func() { c <- os.Interrupt })
		stopOn(c, func(s os.Signal) { say(s.String()) }, func() { say("rearmed") })
		want := []string{"terminated after 1h0m0s", fmt.Sprint("rearmed after ", time.Hour+together)}
		if !slices.Equal(said, want) {
			t.Errorf("%q, expected %q", said, want)
		}
	})
}

// TestInterruptedAsOne: interrupts that come together, of which timeout(1) sends two, end
// a run in good order: it has a summary, and its trace is whole.
func TestInterruptedAsOne(t *testing.T) {
	runtimeDir(t)
	file := filepath.Join(t.TempDir(), "run.json")
	cmd := ringside(t, "train", "--workers", "1", "--data", textFile(t), "--steps", "1000000", "--batch", "1", "--trace", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, said := atStep10(t, cmd, func() {
		for range 20 {
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Error(err)
			}
			for pending(t, cmd.Process.Pid) { // the kernel would make two of them one
			}
		}
	})
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(out, "stopped before step 1000000") || !strings.Contains(said, "ringside: interrupted; ") {
		t.Errorf("%v, %q, %q; expected exit status 130 and a summary", cmd.ProcessState, out, said)
	}
	if f := parsed(t, file); len(f.Events) < 100 {
		t.Errorf("a trace of %d events", len(f.Events))
	}
}

// pending reports whether a process has a SIGINT that no thread has taken.
func pending(t *testing.T, pid int) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\nShdPnd:")
	line, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set&(1<<(syscall.SIGINT-1)) != 0
}
