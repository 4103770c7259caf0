package launch

import (
	"errors"
	"log/slog"
	"os/exec"
	"syscall"
	"testing"
)

// TestKeeper: groups that have not ended are killed when the keeper hears no more, and no
// others.
func TestKeeper(t *testing.T) {
	var cmds [4]*exec.Cmd
	k := newKeeper(slog.New(slog.DiscardHandler))
	for i := range cmds {
		cmds[i] = exec.Command("sleep", "1000")
		cmds[i].SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
		k.begin(cmds[i].Process.Pid)
	}
	for _, i := range []int{1, 0} {
		k.end(cmds[i].Process.Pid)
	}
	k.close()
	for i, cmd := range cmds {
		want := syscall.SIGKILL
		if i < 2 {
			want = syscall.SIGTERM
			if err := cmd.Process.Signal(want); err != nil {
				t.Error(err)
			}
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != want {
			t.Errorf("process %d: %v, expected %v", i, err, want)
		}
	}
}
