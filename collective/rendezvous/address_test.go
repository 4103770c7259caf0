package rendezvous

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestMain makes the test binary a rank that prints its launcher.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "launcher" {
		fmt.Print(launcherPID(os.Args[2]))
		return
	}
	os.Exit(m.Run())
}

// TestLauncherPID: the ranks of this process are, also by way of shells, launched by this
// process.
func TestLauncherPID(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{exe, "launcher", "TEST_RANK"},
		{"/bin/sh", "-c", exe + " launcher TEST_RANK; true"},
		{"/bin/sh", "-c", `/bin/sh -c "` + exe + ` launcher TEST_RANK; true"; true`},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "TEST_RANK=0")
		out, err := cmd.Output()
		if err != nil || string(out) != strconv.Itoa(os.Getpid()) {
			t.Errorf("%s: launched by %s, %v; expected %d", strings.Join(args, " "), out, err, os.Getpid())
		}
	}
	if pid := launcherPID(""); pid != os.Getppid() {
		t.Errorf("without a variable: %d, expected the parent %d", pid, os.Getppid())
	}
}
