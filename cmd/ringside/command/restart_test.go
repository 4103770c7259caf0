package command

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/train"
)

var restartKills = flag.Int("restart.kills", 0, "how many further runs of TestRestarts have a worker killed")

// TestRestarts kills a worker of a training run at several moments: before the first
// checkpoint, after one, and where one is about to be saved. The run goes on by itself
// each time, and ends with the losses and weights of an undisturbed one, to the bit.
func TestRestarts(t *testing.T) {
	text := textFile(t)
	m, err := train.Find("qwen3-tiny")
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 2} {
		if workers > 1 && testsize.Sampled() {
			continue // TestResumeAfterKill resumes such runs
		}
		t.Run(strconv.Itoa(workers)+" workers", func(t *testing.T) {
			runtimeDir(t)
			addr := ""
			run := func(o train.Options, restarts int) (*train.Summary, []string, error) {
				t.Helper()
				at, cmd := place{workers: workers}, newTrain()
				cmd.SetErr(io.Discard)
				cmd.SetContext(context.WithValue(t.Context(), logKey{}, slog.New(slog.DiscardHandler)))
				sess, err := at.open(t.Context(), cmd)
				if err != nil {
					t.Fatal(err)
				}
				defer sess.close()
				addr = sess.addr
				var said []string
				sum, err := trainOn(t.Context(), m, d, &o, sess, endurance{restarts: restarts}, func(why string) { said = append(said, why) })
				return sum, said, err
			}
			dir := t.TempDir()
			o := train.Options{Steps: 16, Batch: 4, Seed: 7, LossEvery: 1, Sample: -1, Save: filepath.Join(dir, "whole")}
			whole, _, err := run(o, 0)
			if err != nil {
				t.Fatal(err)
			}

			// kill has a worker killed after the first of each of these steps.
			kill := func(steps ...int) func(train.Progress) {
				return func(p train.Progress) {
					if len(steps) == 0 || p.Step != steps[0] {
						return
					}
					steps = steps[1:]
					s, err := client.Status(t.Context(), nil, addr)
					if err != nil {
						t.Fatal(err)
					}
					victim := metrics.OfWorker("w"+strconv.Itoa(len(steps)%workers), metrics.PID)
					if err := syscall.Kill(int(s.Get(victim)), syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
			}
			o.Save, o.Checkpoint, o.Every = filepath.Join(dir, "restarted"), filepath.Join(dir, "run"), 4
			o.Progress = kill(2, 9, 12)
			got, said, err := run(o, 3)
			if err != nil || got.Restarts != 3 || len(said) != 3 {
				t.Fatalf("%v: %d restarts, expected 3; it said %q", err, got.Restarts, said)
			}
			for i, from := range []string{"going on from step 0, restart 1 of 3", "step 8, restart 2", "step 8, restart 3"} {
				if !strings.Contains(said[i], " is gone") || !strings.Contains(said[i], from) {
					t.Errorf("restart %d says %q, expected %q", i+1, said[i], from)
				}
			}
			if !slices.Equal(got.Losses, whole.Losses) || got.HeldOut != whole.HeldOut {
				t.Errorf("losses\n%v held out %v, undisturbed\n%v held out %v", got.Losses, got.HeldOut, whole.Losses, whole.HeldOut)
			}
			a, err := os.ReadFile(o.Save)
			b, err2 := os.ReadFile(filepath.Join(dir, "whole"))
			if err := errors.Join(err, err2); err != nil || !bytes.Equal(a, b) {
				t.Errorf("%v; the weights are those of an undisturbed run: %v", err, bytes.Equal(a, b))
			}

			if workers > 1 {
				return
			}
			single := o
			for i := range *restartKills {
				single.Save, single.Checkpoint = filepath.Join(dir, "single"), filepath.Join(dir, fmt.Sprint("single", i))
				single.Progress = kill(1 + i%15)
				got, said, err := run(single, 1)
				if err != nil || got.Restarts != 1 || !slices.Equal(got.Losses, whole.Losses) {
					t.Fatalf("killed after step %d: %v, %d restarts, said %q, losses\n%v, undisturbed\n%v", 1+i%15, err, got.Restarts, said, got.Losses, whole.Losses)
				}
				if a, err := os.ReadFile(single.Save); err != nil || !bytes.Equal(a, b) {
					t.Fatalf("killed after step %d: %v; the weights are those of an undisturbed run: %v", 1+i%15, err, bytes.Equal(a, b))
				}
			}
			if *restartKills > 0 {
				t.Logf("%d workers killed, one in each of as many runs: all ended by themselves with the bits of an undisturbed one", *restartKills)
			}
			// Before its first save to another folder it goes on from where it began.
			from := o.Checkpoint
			o.Resume, o.Checkpoint, o.Steps, o.Progress = from, filepath.Join(dir, "moved"), 24, kill(17)
			if sum, said, err := run(o, 1); err != nil || sum.Restarts != 1 || sum.Resumed != 16 || len(said) != 1 || !strings.Contains(said[0], "going on from step 16") {
				t.Errorf("resumed: %v, %d restarts, from step %d, said %q", err, sum.Restarts, sum.Resumed, said)
			}
			o.Resume, o.Steps = "", 16

			// With all steps taken the loss is that of the last one.
			last := kill(16)
			o.Checkpoint, o.Progress, o.Trained = filepath.Join(dir, "late"), nil, func(int) { last(train.Progress{Step: 16}) }
			if sum, _, err := run(o, 1); err != nil || sum.Restarts != 1 || sum.Resumed != 16 || sum.Loss != whole.Loss || !slices.Equal(sum.Losses, whole.Losses) {
				t.Errorf("after the last step: %v, %d restarts, from step %d, loss %v, expected %v", err, sum.Restarts, sum.Resumed, sum.Loss, whole.Loss)
			}
			o.Trained = nil

			// It gives up after so many, and begins only with a checkpoint.
			o.Checkpoint, o.Progress = filepath.Join(dir, "other"), kill(2, 3)
			if sum, said, err := run(o, 1); !errors.Is(err, client.ErrLost) || sum.Restarts != 1 || len(said) != 1 {
				t.Errorf("two deaths with one restart: %v, %d restarts, said %q", err, sum.Restarts, said)
			}
			o.Checkpoint, o.Every, o.Progress = "", 0, kill(2)
			if sum, _, err := run(o, 3); !errors.Is(err, client.ErrLost) || sum.Restarts != 0 {
				t.Errorf("without a checkpoint: %v, %d restarts", err, sum.Restarts)
			}
		})
	}
}

// elastic is a training run with a dispatcher and one worker, which others join.
type elastic struct {
	*testing.T
	text, addr string
	workers    int
	sess       *seat
}

func startElastic(t *testing.T) *elastic {
	t.Helper()
	x := &elastic{T: t, addr: filepath.Join(runtimeDir(t), "d"), text: textFile(t), workers: 1}
	up := start(t, "up", "-n", "1", "--listen", x.addr)
	up.wait("^ready")
	t.Cleanup(func() { // it removes its files
		_ = up.Process.Signal(syscall.SIGTERM)
		if err := up.end(); err != nil {
			t.Error(err)
		}
	})
	cmd := newTrain()
	cmd.SetErr(io.Discard)
	cmd.SetContext(context.WithValue(t.Context(), logKey{}, slog.New(slog.DiscardHandler)))
	at := place{connect: x.addr}
	var err error
	if x.sess, err = at.open(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.sess.close() })
	return x
}

// join starts another worker.
func (x *elastic) join() *command {
	x.Helper()
	x.workers++
	w := start(x.T, "worker", "--connect", x.addr)
	waitFor(x.T, "a worker to join", func() (bool, error) {
		s, err := client.Status(x.Context(), nil, x.addr)
		return err == nil && s.Get(metrics.Workers) == uint64(x.workers), err
	})
	return w
}

// train takes 10 steps, with a checkpoint after each third. It wants the losses of one
// worker, but for roundings.
func (x *elastic) train(restarts int, progress func(step int)) (sum *train.Summary, said []string) {
	x.Helper()
	m, err := train.Find("qwen3-tiny")
	if err != nil {
		x.Fatal(err)
	}
	d, err := m.Load(x.text)
	if err != nil {
		x.Fatal(err)
	}
	o := train.Options{Steps: 10, Batch: 4, Seed: 7, LossEvery: 1, Sample: -1, Checkpoint: filepath.Join(x.TempDir(), "run"), Every: 3}
	o.Progress = func(p train.Progress) { progress(p.Step) }
	sum, err = trainOn(x.Context(), m, d, &o, x.sess, endurance{restarts: restarts, elastic: true}, func(why string) { said = append(said, why) })
	if err != nil || sum.Steps != 10 {
		x.Fatalf("%v after %d steps; it said %q", err, sum.Steps, said)
	}
	args := []string{"--data", x.text, "--steps", "10", "--batch", "4", "--seed", "7", "--loss-every", "1", "--sample=-1", "--in-process"}
	sameCurve(x.T, "one worker, then two", outcome{Summary: sum}, trained(x.T, args...))
	return sum, said
}

// TestElastic has a second worker join while one trains: from the next checkpoint on both
// do, and the losses are those of one, but for roundings. A third one is of no use to a
// batch of 4.
func TestElastic(t *testing.T) {
	x := startElastic(t)
	sum, said := x.train(0, func(step int) {
		if step == 2 || step == 5 {
			x.join()
		}
	})
	if want := []string{"workers have joined: going on from step 3 with 2 workers"}; !slices.Equal(said, want) {
		t.Errorf("it said %q, expected %q", said, want)
	}
	if sum.Restarts != 0 || x.sess.Workers != 2 || x.sess.counters().Calls == 0 {
		t.Errorf("%d restarts, %d workers, %d collectives", sum.Restarts, x.sess.Workers, x.sess.counters().Calls)
	}
}

// TestElasticLoss kills the worker that has joined. The run goes on by itself with the
// worker that is left, from the last checkpoint.
func TestElasticLoss(t *testing.T) {
	x := startElastic(t)
	x.sess.patience = time.Nanosecond // no worker comes in its place
	var joined *command
	sum, said := x.train(1, func(step int) {
		switch {
		case step == 2 && joined == nil:
			joined = x.join()
		case step == 7 && joined != nil && x.workers == 2:
			x.workers--
			if err := joined.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	})
	if len(said) != 3 || said[0] != "workers have joined: going on from step 3 with 2 workers" ||
		!strings.Contains(said[1], " is gone") || !strings.Contains(said[1], "going on from step 6, restart 1 of 1") || said[2] != "with 1 worker" {
		t.Errorf("it said %q, expected that it went on with two workers from step 3, and with one from step 6", said)
	}
	if sum.Restarts != 1 || x.sess.Workers != 1 {
		t.Errorf("%d restarts, %d workers, expected 1 and 1", sum.Restarts, x.sess.Workers)
	}
}

func TestElasticMistakes(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--checkpoint", "x"}, "--elastic needs --checkpoint DIR and --every N"},
		{[]string{"--every", "3"}, "--elastic needs --checkpoint DIR and --every N"},
		{[]string{"--resume", "x", "--zero1", "--workers", "2"}, "exclude each other"},
		{[]string{"--checkpoint", "x", "--every", "3", "--in-process"}, "exclude each other"},
	} {
		if _, _, err := execute(t, append([]string{"train", "--elastic"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, expected an error with %q", c.args, err, c.says)
		}
	}
}
