package examples

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/checkpoint"
)

// slurm is a cluster of one node, whose daemons run for one test.
type slurm struct {
	dir string
	env []string // of commands that talk to it
}

// configuration gives the node more cores than the machine may have: the test is about
// who is started and ended, not about speed.
const configuration = `ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]d
SlurmUser=root
SlurmdUser=root
SlurmdParameters=config_overrides
AuthType=auth/munge
AuthInfo=socket=%[4]s/munge/socket
StateSaveLocation=%[4]s/state
SlurmdSpoolDir=%[4]s/spool
SlurmctldPidFile=%[4]s/slurmctld.pid
SlurmdPidFile=%[4]s/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
JobRequeue=1
NodeName=%[1]s NodeAddr=127.0.0.1 Port=%[3]d CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// startSlurm starts munged, slurmctld and slurmd, which end with the test.
func startSlurm(t *testing.T) *slurm {
	t.Helper()
	limitstest.NeedRoot(t, os.Getenv, "starting Slurm's daemons")
	for _, name := range []string{"munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol"} {
		testneeds.Slurm.Program(t, os.Getenv, name)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	s := &slurm{dir: t.TempDir()}
	for _, d := range []string{"munge", "state", "spool"} {
		if err := os.Mkdir(filepath.Join(s.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	key := make([]byte, 128)
	rand.Read(key)
	conf := filepath.Join(s.dir, "slurm.conf")
	for path, text := range map[string][]byte{
		filepath.Join(s.dir, "munge", "key"): key,
		conf:                                 fmt.Appendf(nil, configuration, host, freePort(t), freePort(t), s.dir),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.env = append(os.Environ(), "SLURM_CONF="+conf, "RINGSIDE_FLIGHT=off")
	munge := func(name string) string { return filepath.Join(s.dir, "munge", name) }
	s.daemon(t, "munged", "--foreground", "--force", "--key-file="+munge("key"), "--socket="+munge("socket"), "--pid-file="+munge("pid"), "--seed-file="+munge("seed"))
	until(t, "munged listens", func() bool { _, err := os.Stat(munge("socket")); return err == nil })
	s.daemon(t, "slurmctld", "-D", "-c", "-f", conf)
	s.daemon(t, "slurmd", "-D", "-f", conf)
	until(t, "the node is idle", func() bool {
		out, err := s.command(t.Context(), "sinfo", "-h", "-o", "%T").Output()
		return err == nil && strings.TrimSpace(string(out)) == "idle"
	})
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := tcp.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// daemon starts a program that ends with the test; if that fails, it shows what the
// program said.
func (s *slurm) daemon(t *testing.T, name string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, said.String())
		}
	})
}

func (s *slurm) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	return cmd
}

// until asks again and again, until true or the end of patience.
func until(t *testing.T, what string, ask func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(guard)
	for !ask() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// between is the number of steps between two checkpoints of the batch script.
const between = 50

// batch trains as docs/launch.md says, and puts the job back in the queue when a step
// fails.
const batch = `#!/bin/bash
#SBATCH --ntasks=4 --requeue --open-mode=append --output=%[1]s/out
srun --kill-on-bad-exit=1 %[2]s -steps %[3]d -every %[4]d -checkpoint %[1]s/run || scontrol requeue "$SLURM_JOB_ID"
`

// weights are the hashes that ranks print, and losses what they print of a step, with all
// digits of the loss.
var (
	weights = regexp.MustCompile(`same weights on all ranks: ([0-9a-f]{64})`)
	losses  = regexp.MustCompile(`rank \d: step (\d+) of \d+: loss of its rows \d\S*\n`)
)

// lossLines returns the lines with the losses that ranks printed, sorted: the ranks'
// lines come in any order.
func lossLines(out []byte) []string {
	lines := losses.FindAllString(string(out), -1)
	slices.Sort(lines)
	return lines
}

// firstDiff returns the first lines in which two lists differ.
func firstDiff(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%q, %q", a[i], b[i])
		}
	}
	return "one list is longer"
}

// TestSlurm has Slurm start the ranks of the data-parallel example: the losses of all
// steps and the weights are bit for bit those that ranks of launch.Run have, also where a
// step was killed, and the job went on from its checkpoint.
func TestSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Slurm")
	}
	s := startSlurm(t)
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	exe := filepath.Join(s.dir, "dataparallel")
	if out, err := command(ctx, "dataparallel", "go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	hash := func(who string, out []byte, err error) string {
		t.Helper()
		found := weights.FindAllSubmatch(out, -1)
		if err != nil || len(found) != 4 {
			t.Fatalf("%s: %v: %s", who, err, out)
		}
		return string(found[0][1])
	}
	const steps = 3000
	dir, err := os.MkdirTemp("", "rs") // a short name, for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("RINGSIDE_FLIGHT", "off")
	program := []string{exe, "-steps", fmt.Sprint(steps), "-every", "1"}
	out, err := ranks(ctx, program, 4)
	want, wantLosses := hash("ringside run", out, err), lossLines(out)
	if len(wantLosses) != 4*steps {
		t.Fatalf("ringside run: %d losses, expected one for each of 4 ranks and %d steps", len(wantLosses), steps)
	}

	out, err = s.command(ctx, "srun", append([]string{"-n", "4"}, program...)...).CombinedOutput()
	if got := hash("srun", out, err); got != want {
		t.Errorf("started by srun the weights are %s, by ringside run %s", got, want)
	}
	if got := lossLines(out); !slices.Equal(got, wantLosses) {
		t.Errorf("started by srun the losses differ from those by ringside run: %d lines, %d lines, the first that differ: %s",
			len(got), len(wantLosses), firstDiff(got, wantLosses))
	} else {
		t.Logf("%d losses are the same bit by bit, started by srun and by ringside run", len(got))
	}
	killed := s.killedOnce(ctx, t, exe, steps)
	if got := hash("sbatch", killed, nil); got != want {
		t.Errorf("killed and started again the weights are %s, of an undisturbed run %s", got, want)
	}
	from := regexp.MustCompile(`from step (\d+)`).FindSubmatch(killed)
	if from == nil || string(from[1]) == "0" {
		t.Fatalf("the job did not go on from a checkpoint: %s", killed)
	}
	sameAfter(t, lossLines(killed), wantLosses, string(from[1]))
}

// sameAfter checks the losses of a job that was killed and went on after a step: each
// that it printed is one of the undisturbed run's, and all of later steps are there. A
// rank may be killed before it prints that of an earlier one.
func sameAfter(t *testing.T, got, want []string, from string) {
	t.Helper()
	begin, err := strconv.Atoi(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range got {
		if _, ok := slices.BinarySearch(want, line); !ok {
			t.Errorf("killed and started again it printed %q, which an undisturbed run did not", line)
		}
	}
	later := 0
	for _, line := range want {
		if n, err := strconv.Atoi(losses.FindStringSubmatch(line)[1]); err != nil || n <= begin || n%between != 0 {
			continue
		}
		later++
		if _, ok := slices.BinarySearch(got, line); !ok {
			t.Errorf("killed and started again it did not print %q", line)
		}
	}
	t.Logf("%d losses of a killed run are an undisturbed run's, among them all %d after step %d", len(got), later, begin)
}

// killedOnce runs the batch script, kills its step after the first checkpoint, and
// returns what the job printed by its end.
func (s *slurm) killedOnce(ctx context.Context, t *testing.T, exe string, steps int) []byte {
	t.Helper()
	script := filepath.Join(s.dir, "batch.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, batch, s.dir, exe, steps, between), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := s.command(ctx, "sbatch", "--parsable", script).CombinedOutput()
	if err != nil {
		t.Fatalf("sbatch: %v: %s", err, out)
	}
	job := strings.TrimSpace(string(out))
	until(t, "the job's first checkpoint", func() bool {
		c, err := checkpoint.Open(filepath.Join(s.dir, "run"))
		if err == nil {
			err = c.Close()
		}
		return err == nil
	})
	if out, err := s.command(ctx, "scancel", "--signal=KILL", job+".0").CombinedOutput(); err != nil {
		t.Fatalf("scancel: %v: %s", err, out)
	}
	// A job that is put back in the queue waits there for a while before it may begin. It
	// is held there if it begins before slurmd has removed the folder of its first start.
	var state []byte
	until(t, "the job has ended", func() bool {
		state, err = s.command(ctx, "scontrol", "show", "job", job).Output()
		if bytes.Contains(state, []byte("JobState=PENDING")) {
			// An error says that it has begun meanwhile.
			_ = s.command(ctx, "scontrol", "update", "JobId="+job, "StartTime=now").Run()
			if bytes.Contains(state, []byte("Reason=launch_failed")) {
				_ = s.command(ctx, "scontrol", "release", job).Run()
			}
		}
		return err == nil && bytes.Contains(state, []byte("JobState=COMPLETED"))
	})
	if bytes.Contains(state, []byte("Restarts=0 ")) {
		t.Errorf("the job was not started again: %s", state)
	}
	printed, err := os.ReadFile(filepath.Join(s.dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	return printed
}
