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
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/launch"
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

// check looks at what n ranks printed.
func check(t *testing.T, out string, n int) {
	t.Helper()
	got := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(got)
	var want []string
	for r := range n {
		want = append(want, fmt.Sprintf("rank %d of %d on 1 host: the sum is %d", r, n, n*(n+1)/2))
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
	check(t, string(out), 1)
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
			check(t, out.String(), 4)
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
	check(t, out.String(), 3)
}

// TestMpirun: Open MPI launches the example as it is. It is skipped where Open MPI is not
// installed.
func TestMpirun(t *testing.T) {
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		if os.Getenv("TESTS_NEED_MPI") != "" {
			t.Fatal(err)
		}
		t.Skip("mpirun is not installed: apt-get install openmpi-bin")
	}
	version, err := exec.CommandContext(t.Context(), mpirun, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", mpirun, err)
	}
	if !strings.Contains(string(version), "Open MPI") {
		t.Skipf("%s is not Open MPI's: %.40q", mpirun, version)
	}
	runtimeDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	args := []string{"-n", "4", "--oversubscribe", exe(t)}
	if os.Getuid() == 0 {
		args = append([]string{"--allow-run-as-root"}, args...)
	}
	cmd := exec.CommandContext(ctx, mpirun, args...)
	// this host alone: else it wants ssh to be installed
	cmd.Env = append(os.Environ(), "OMPI_MCA_plm=isolated")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s%s", err, out.String(), errs.String())
	}
	check(t, out.String(), 4)
}
