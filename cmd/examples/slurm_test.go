package examples

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
	if os.Getuid() != 0 {
		t.Skip("Slurm's daemons are root's")
	}
	for _, name := range []string{"munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("TESTS_NEED_SLURM") != "" {
				t.Fatalf("the environment promises Slurm: %v", err)
			}
			t.Skipf("without Slurm (make tools-slurm installs it): %v", err)
		}
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

// freePort returns a port that nothing listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
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

// batch trains as docs/launch.md says, and puts the job back in the queue when a step
// fails.
const batch = `#!/bin/bash
#SBATCH --ntasks=4 --requeue --open-mode=append --output=%[1]s/out
srun --kill-on-bad-exit=1 %[2]s -steps %[3]d -every 50 -checkpoint %[1]s/run || scontrol requeue "$SLURM_JOB_ID"
`

// weights are the hashes that ranks print.
var weights = regexp.MustCompile(`same weights on all ranks: ([0-9a-f]{64})`)

// TestSlurm has Slurm start the ranks of the data-parallel example: their weights are
// those that ranks of launch.Run have, also where a step was killed, and the job went on
// from its checkpoint.
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
	out, err := ranks(ctx, []string{exe, "-steps", fmt.Sprint(steps)}, 4)
	want := hash("ringside run", out, err)

	out, err = s.command(ctx, "srun", "-n", "4", exe, "-steps", fmt.Sprint(steps)).CombinedOutput()
	if got := hash("srun", out, err); got != want {
		t.Errorf("started by srun the weights are %s, by ringside run %s", got, want)
	}
	killed := s.killedOnce(ctx, t, exe, steps)
	if got := hash("sbatch", killed, nil); got != want {
		t.Errorf("killed and started again the weights are %s, of an undisturbed run %s", got, want)
	}
	if from := regexp.MustCompile(`from step (\d+)`).FindSubmatch(killed); from == nil || string(from[1]) == "0" {
		t.Errorf("the job did not go on from a checkpoint: %s", killed)
	}
}

// killedOnce runs the batch script, kills its step after the first checkpoint, and
// returns what the job printed by its end.
func (s *slurm) killedOnce(ctx context.Context, t *testing.T, exe string, steps int) []byte {
	t.Helper()
	script := filepath.Join(s.dir, "batch.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, batch, s.dir, exe, steps), 0o700); err != nil {
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
	// A job that is put back in the queue waits there for a while before it may begin.
	var state []byte
	until(t, "the job has ended", func() bool {
		state, err = s.command(ctx, "scontrol", "show", "job", job).Output()
		if bytes.Contains(state, []byte("JobState=PENDING")) {
			// An error says that it has begun meanwhile.
			_ = s.command(ctx, "scontrol", "update", "JobId="+job, "StartTime=now").Run()
		}
		return err == nil && bytes.Contains(state, []byte("JobState=COMPLETED"))
	})
	if !bytes.Contains(state, []byte("Restarts=1 ")) {
		t.Errorf("the job was not started again once: %s", state)
	}
	printed, err := os.ReadFile(filepath.Join(s.dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	return printed
}
