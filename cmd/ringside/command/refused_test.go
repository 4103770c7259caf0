package command

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/limits/limitstest"
)

// refused is a command that fails, and what it says.
type refused struct {
	args []string
	says []string
}

// check runs the command.
func (r refused) check(t *testing.T, exe string) {
	t.Helper()
	said, err := exec.Command(exe, r.args...).CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%v: %v, expected exit status 1:\n%.2000s", r.args, err, said)
	}
	for _, s := range r.says {
		// Doctor aligns its columns with spaces.
		if !strings.Contains(strings.Join(strings.Fields(string(said)), " "), s) {
			t.Errorf("%v does not say %q:\n%.2000s", r.args, s, said)
		}
	}
}

// TestMemfdRefused runs commands where the system refuses memfd_create.
func TestMemfdRefused(t *testing.T) {
	runtimeDir(t)
	exe, text := executable(t), textFile(t)
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		says := "memfd_create: " + errno.Error() + ": allow it in the seccomp profile of this container or service"
		limitstest.WithoutMemfd(t, os.Getenv, errno, func() {
			for _, r := range []refused{
				{[]string{"doctor"}, []string{"fail shared memory no sealed memory files (memfd): " + errno.Error(), "-> a kernel from 3.17 on has it; where a filter of system calls refuses memfd_create, allow it"}},
				{[]string{"up", "-n", "1"}, []string{says}},
				{[]string{"train", "--workers", "1", "--data", text, "--steps", "1"}, []string{says}},
			} {
				r.check(t, exe)
			}
		})
	}
}

// TestWithoutProc runs commands where /proc is not mounted. Those that start processes of
// this program can't; training in one process works.
func TestWithoutProc(t *testing.T) {
	runtimeDir(t)
	exe, text := executable(t), textFile(t)
	limitstest.WithoutProc(t, os.Getenv, func() {
		const says = "finding this program: readlink /proc/self/exe: no such file or directory: mount /proc here"
		for _, r := range []refused{
			{[]string{"doctor"}, []string{"fail memory /proc is not mounted", "-> mount /proc here: ", "usable; what control groups allow is not known without /proc"}},
			{[]string{"up", "-n", "1"}, []string{says}},
			{[]string{"train", "--workers", "1", "--data", text, "--steps", "1"}, []string{says}},
			{[]string{"demo"}, []string{says}},
		} {
			r.check(t, exe)
		}
		here := []string{"train", "--in-process", "--data", text, "--steps", "1", "--batch", "2", "--sample=-1"}
		if said, err := exec.Command(exe, here...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%.2000s", here, err, said)
		}
	})
}
