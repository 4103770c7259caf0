package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/launch"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/shm/testneeds"
)

// guard is when a test counts as hanging.
const guard = time.Minute

// TestMain makes the test binary the example when it is called without a flag.
func TestMain(m *testing.M) {
	os.Setenv("RINGSIDE_FLIGHT", "off") // nothing in the user's cache
	if len(os.Args) == 1 {
		main()
		return
	}
	os.Exit(m.Run())
}

// runtimeDir gives this test a runtime folder of its own, in which nothing may be left.
func runtimeDir(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				t.Errorf("%s is left in the runtime folder", path)
			}
			return err
		})
		os.RemoveAll(dir)
	})
}

func exe(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// check looks at what n ranks printed, which are on so many hosts.
func check(t *testing.T, out string, n int, hosts string) {
	t.Helper()
	got := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(got)
	var want []string
	for r := range n {
		want = append(want, fmt.Sprintf("rank %d of %d on %s: the sum is %d", r, n, hosts, n*(n+1)/2))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the ranks printed\n%s\nexpected\n%s", out, strings.Join(want, "\n"))
	}
}

func TestAlone(t *testing.T) {
	runtimeDir(t)
	out, err := exec.CommandContext(t.Context(), exe(t)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	check(t, string(out), 1, "1 host")
}

func TestRingsideRun(t *testing.T) {
	for name, port := range map[string]int{"by a socket": 0, "by the port": -1} {
		t.Run(name, func(t *testing.T) {
			runtimeDir(t)
			ctx, cancel := context.WithTimeout(t.Context(), guard)
			defer cancel()
			var out bytes.Buffer
			o := launch.Options{Program: []string{exe(t)}, Ranks: 4, Environ: os.Environ(), Stdout: &out, Stderr: &out}
			if port != 0 { // as torchrun has it, with nothing of ours
				o.Env = []string{"RINGSIDE_RENDEZVOUS=", "RINGSIDE_SECRET="}
			}
			if _, err := launch.Run(ctx, o); err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
			check(t, out.String(), 4, "1 host")
		})
	}
}

// TestRestart: rank 1 dies before the others have found it; they are started again, and
// meet in the next epoch.
func TestRestart(t *testing.T) {
	runtimeDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	var out bytes.Buffer
	script := `if [ $TORCHELASTIC_RESTART_COUNT = 0 ] && [ $RANK = 1 ]; then kill -9 $$; fi; exec "$0"`
	sum, err := launch.Run(ctx, launch.Options{
		Program: []string{"/bin/sh", "-c", script, exe(t)}, Ranks: 3, Restarts: 1, Environ: os.Environ(), Stdout: &out,
	})
	if err != nil || sum.Restarts != 1 || sum.Failures[0].Rank != 1 || sum.Failures[0].How != "signal: killed" {
		t.Fatalf("%+v, %v: %s", sum, err, out.String())
	}
	check(t, out.String(), 3, "1 host")
}

// commandOfPage returns the command of docs/launch.md that begins with those words, as a
// script with this test for the example.
func commandOfPage(t *testing.T, begin string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/launch.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if text, ok := strings.CutPrefix(line, "    "+begin); ok {
			text = strings.TrimSpace(begin + text)
			if fields := strings.Fields(text); filepath.Base(fields[len(fields)-1]) == "allreduce" {
				return strings.TrimSuffix(text, fields[len(fields)-1]) + exe(t)
			}
		}
	}
	t.Fatalf("docs/launch.md has no command that begins with %q and ends with the example", begin)
	return ""
}

// openMPI checks that mpirun is Open MPI's, and gives commands the environment that lets
// root have more ranks than cores.
func openMPI(t *testing.T) {
	t.Helper()
	mpirun := testneeds.MPI.Program(t, os.Getenv, "mpirun")
	version, err := exec.CommandContext(t.Context(), mpirun, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", mpirun, err)
	}
	if !strings.Contains(string(version), "Open MPI") {
		testneeds.MPI.Skipf(t, os.Getenv, "%s is not Open MPI's: %.40q", mpirun, version)
	}
	for _, name := range []string{"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"} {
		t.Setenv(name, "1")
	}
}

// launched runs a launcher's command and returns what the ranks printed.
func launched(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// The launcher may outlive its shell, and holds the output.
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v: %s%s", cmd.Args, err, out.String(), errs.String())
	}
	return out.String()
}

// TestMpirun has Open MPI launch the example on this host, as docs/launch.md says.
func TestMpirun(t *testing.T) {
	openMPI(t)
	runtimeDir(t)
	// this host alone: else it wants ssh to be installed
	t.Setenv("OMPI_MCA_plm", "isolated")
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	check(t, launched(t, exec.CommandContext(ctx, "sh", "-c", commandOfPage(t, "mpirun -n 4"))), 4, "1 host")
}

// TestMpirunHosts has Open MPI launch the example on two hosts, which are namespaces of
// this one, as docs/launch.md says. In the place of ssh it calls a script that enters the
// second.
func TestMpirunHosts(t *testing.T) {
	openMPI(t)
	hosts := nettest.ForTest(t, os.Getenv)
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	agent := filepath.Join(t.TempDir(), "agent")
	enter := strings.Join(hosts[1].Command(ctx, "sh").Args, " ")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = %s ] || exit 1\nshift\nexec %s -c \"$*\"\n", hosts[1].Addr, enter)
	if err := os.WriteFile(agent, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OMPI_MCA_plm_rsh_agent", agent)
	t.Setenv("XDG_RUNTIME_DIR", "/dev/shm") // which the hosts don't share
	t.Setenv("RINGSIDE_SECRET", "a secret of 16 bytes or more")
	command := strings.NewReplacer("node1", hosts[0].Addr, "node2", hosts[1].Addr).Replace(commandOfPage(t, "mpirun -n 4 --host"))
	check(t, launched(t, hosts[0].Command(ctx, "sh", "-c", command)), 4, "2 hosts")
}

// TestTorchrun has torchrun launch the example, as docs/launch.md says, with the
// variables that torch 1.13's needs with Python 3.11.
func TestTorchrun(t *testing.T) {
	testneeds.Torch.Program(t, os.Getenv, "torchrun")
	runtimeDir(t)
	port, err := tcp.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PET_MASTER_PORT", strconv.Itoa(port))
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	check(t, launched(t, exec.CommandContext(ctx, "sh", "-c", commandOfPage(t, "PET_REDIRECTS"))), 4, "1 host")
}
