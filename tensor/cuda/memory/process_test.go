package memory_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/memory"
)

// TestWatchProcess hears of the end of a process that is killed, hears nothing after
// Close, and refuses a number that no process has.
func TestWatchProcess(t *testing.T) {
	start := func() *exec.Cmd {
		cmd := exec.Command("cat")
		in, err := cmd.StdinPipe()
		check(t, err)
		t.Cleanup(func() { in.Close() })
		check(t, cmd.Start())
		return cmd
	}
	cmd := start()
	ended := make(chan struct{})
	p, err := memory.WatchProcess(cmd.Process.Pid, func() { close(ended) })
	check(t, err)
	if p.Ended() {
		t.Error("a process that runs has ended")
	}
	check(t, cmd.Process.Kill())
	<-ended
	if !p.Ended() {
		t.Error("a process that was killed has not ended")
	}
	check(t, p.Close())
	cmd.Wait()

	other := start()
	p, err = memory.WatchProcess(other.Process.Pid, func() { t.Error("heard of the end after Close") })
	check(t, err, p.Close(), other.Process.Kill())
	other.Wait()
	if _, err := memory.WatchProcess(1<<22+1, func() {}); err == nil {
		t.Error("a number beyond all processes is watched")
	}
	if _, err := memory.WatchProcess(-os.Getpid(), func() {}); err == nil {
		t.Error("a number below 0 is watched")
	}
}
