package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/train"
)

// TestResumeAfterKill kills the worker, or the last of several, in the middle of a run,
// between two checkpoints. The resumed run is interrupted and resumed again. All losses
// are bit for bit those of an undisturbed run.
func TestResumeAfterKill(t *testing.T) {
	zero1 := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(zero1, []byte("mesh: 2\nzero1: true\nbatch: {shard: {axis: 0}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join("..", "..", "..", "docs")
	t.Run("one worker", func(t *testing.T) { resumeAfterKill(t, 1, "") })
	t.Run("two with parts of the optimizer's state", func(t *testing.T) { resumeAfterKill(t, 2, zero1) })
	t.Run("two stages", func(t *testing.T) { resumeAfterKill(t, 2, filepath.Join(docs, "pipeline.yaml")) })
	t.Run("two by two", func(t *testing.T) {
		if testsize.Sampled() {
			t.Skip("four workers on fewer cores take seconds, and do what those of both tests before do")
		}
		resumeAfterKill(t, 4, filepath.Join(docs, "sharding.yaml"))
	})
}

// resumeAfterKill plays it with workers that have a config, the file of that name.
func resumeAfterKill(t *testing.T, workers int, file string) {
	dir := runtimeDir(t)
	o, of, more := train.Options{Steps: 60, Batch: 4, Seed: 5, LossEvery: 1, Sample: 8}, &client.Options{}, []string{}
	if file != "" {
		c, err := readConfig(file)
		if err != nil {
			t.Fatal(err)
		}
		of.Config, o.NameParams, o.MicroBatches, more = c, true, c.MicroBatches, []string{"--config", file}
		if len(c.Stages()) > 1 {
			o.StageOf = c.StageFor
		}
	}
	text := textFile(t)
	m, err := train.Find("qwen3-tiny")
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	addr, folder := filepath.Join(dir, "d"), filepath.Join(t.TempDir(), "run")
	up := start(t, "up", "-n", strconv.Itoa(workers), "--listen", addr)
	victim := fmt.Sprintf("w%d", workers-1)
	pid, err := strconv.Atoi(up.wait("^worker " + victim + `: process (\d+)`)[1])
	if err != nil {
		t.Fatal(err)
	}
	up.wait("^ready")
	run := func(ctx context.Context, o train.Options) (*train.Summary, error) {
		e, err := client.Dial(t.Context(), addr, of)
		if err != nil {
			t.Fatal(err)
		}
		s := tensor.NewSession(e, nil)
		defer s.Close()
		sum, err := m.Train(ctx, s, d, &o)
		if st := e.Stats(); (st.Calls > 0) != (workers > 1) {
			t.Errorf("%d collectives on %d workers", st.Calls, workers)
		}
		return sum, err
	}
	at := func(step int, do func()) func(train.Progress) {
		return func(p train.Progress) {
			if p.Step == step {
				do()
			}
		}
	}
	whole, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}

	o.Checkpoint, o.Every = folder, 10
	o.Progress = at(33, func() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	})
	first, err := run(t.Context(), o)
	for _, says := range []string{fmt.Sprintf(`worker %q (pid %d) is gone`, victim, pid), " tensors are lost with it: model.embed_tokens.weight, "} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Fatalf("the worker was killed: %v, expected %q", err, says)
		}
	}
	waitFor(t, "the workers to be there again", func() (bool, error) {
		s, err := client.Status(t.Context(), nil, addr)
		return err == nil && s.Get("workers") == uint64(workers), err
	})

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	second, err := run(ctx, train.Options{Resume: folder, NameParams: o.NameParams, MicroBatches: o.MicroBatches, StageOf: o.StageOf, Progress: at(47, cancel)})
	if err != nil || second.Resumed != 30 || second.Steps != 47 || !second.Stopped {
		t.Fatalf("%v: %+v, expected steps 30 to 47", err, second)
	}
	third := trained(t, append(more, "--data", text, "--connect", addr, "--resume", folder, "--sample", "8")...)
	if third.Resumed != 47 || third.Steps != 60 || third.Checkpoint != folder {
		t.Errorf("%+v, expected steps 47 to 60", third.Summary)
	}
	for from, points := range map[int][]train.Point{0: first.Losses, 30: second.Losses, 47: third.Losses} {
		if len(points) == 0 || !slices.Equal(points, whole.Losses[from:from+len(points)]) {
			t.Errorf("losses from step %d on\n%v\nundisturbed\n%v", from, points, whole.Losses)
		}
	}
	if len(first.Losses) < 33 || third.HeldOut != whole.HeldOut || third.Sample != whole.Sample {
		t.Errorf("%d losses before the kill; held out %v and %v, samples %q and %q", len(first.Losses), third.HeldOut, whole.HeldOut, third.Sample, whole.Sample)
	}
	_ = up.Process.Signal(os.Interrupt)
	if err := up.end(); err != nil {
		t.Errorf("up: %v", err)
	}
}

// TestHangup: the end of the terminal ends a run in good order, as an interrupt does.
func TestHangup(t *testing.T) {
	// Tests started by nohup ignore hang-ups, and so do their children, unless the tests
	// listen for them.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	runtimeDir(t)
	folder := filepath.Join(t.TempDir(), "run")
	c := start(t, "train", "--in-process", "--data", textFile(t), "--steps", "1000000", "--batch", "1", "--checkpoint", folder)
	c.wait("step 10/")
	if err := c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	c.wait("^checkpoint +" + folder)
	var exit *exec.ExitError
	if err := c.end(); !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGHUP) {
		t.Errorf("%v, expected exit status 129", err)
	}
	k, err := checkpoint.Open(folder)
	if err != nil || k.Step < 10 {
		t.Fatalf("%v", err)
	}
	k.Close()
}

// TestResumeMistakes checks that the arguments of --resume and --checkpoint are validated
// before training.
func TestResumeMistakes(t *testing.T) {
	runtimeDir(t)
	text, folder := textFile(t), filepath.Join(t.TempDir(), "run")
	trained(t, "--in-process", "--data", text, "--steps", "3", "--batch", "1", "--sample=-1", "--checkpoint", folder)
	empty, more := t.TempDir(), filepath.Join(filepath.Dir(folder), "more")
	if err := errors.Join(os.Mkdir(more, 0o700), os.WriteFile(filepath.Join(more, "notes"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		use  bool
		says []string
	}{
		{[]string{"--resume", empty}, false, []string{filepath.Join(empty, "manifest.json"), "--resume: ", "the folder " + empty + " is empty", "train --checkpoint DIR saves a run there"}},
		{[]string{"--resume", more}, false, []string{"the folder " + more + ` holds "notes"; checkpoints are in ` + folder}},
		{[]string{"--resume", filepath.Dir(folder)}, false, []string{`holds "more", "run"; checkpoints are in ` + folder}},
		{[]string{"--resume", filepath.Join(empty, "none")}, false, []string{"there is no folder " + filepath.Join(empty, "none")}},
		{[]string{"--resume", folder, "--steps", "2"}, true, []string{"--steps 2: the run in " + folder + " has done 3", "expected more than 3, such as --steps 5"}},
		{[]string{"--resume", folder, "--steps", "3"}, true, []string{"such as --steps 6"}},
		{[]string{"--resume", folder, "--seed", "9"}, false, []string{folder, "seed is 0; 9"}},
		{[]string{"--resume", folder, "--load", "w"}, true, []string{"load w", folder}},
		{[]string{"--checkpoint", folder}, true, []string{folder, "step 3"}},
		{[]string{"--every", "5"}, true, []string{"--every 5 needs --checkpoint DIR"}},
		{[]string{"--every", "0", "--checkpoint", empty}, true, []string{"--every 0"}},
		{[]string{"--every", "-1", "--checkpoint", empty}, true, []string{"--every -1"}},
	} {
		_, _, err := execute(t, append([]string{"train", "--in-process", "--data", text}, c.args...)...)
		var use *usageError
		if err == nil || errors.As(err, &use) != c.use {
			t.Errorf("train %v: %v, want an error, of usage: %v", c.args, err, c.use)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("train %v: %q does not say %q", c.args, err, s)
			}
		}
	}
}
