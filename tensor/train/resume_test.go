package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

// stopAt returns a context, and options that end it once step n's loss was read.
func stopAt(t testing.TB, o Options, n int) (context.Context, *Options) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	o.Progress = func(p Progress) {
		if p.Step == n {
			cancel()
		}
	}
	return ctx, &o
}

// openBelow lists the files of a folder, removed or not, that this process has open.
func openBelow(t testing.TB, dir string) (held []string) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, dir) {
			held = append(held, to)
		}
	}
	return held
}

// TestResume wants a run that is stopped and resumed twice, each time in a new session,
// to take the steps of one without a stop, and to end with the same weights. Saving in
// between must change nothing.
func TestResume(t *testing.T) { devicetest.Each(t, testResume) }

func testResume(t *devicetest.T) {
	sessions := map[string]func(t *devicetest.T) *tensor.Session{
		"in process": inProcess,
		"cluster": func(t *devicetest.T) *tensor.Session {
			s, _ := throughCluster(t)
			return s
		},
	}
	for name, c := range same {
		for where, session := range sessions {
			t.Run(name+" "+where, func(t *devicetest.T) {
				m := find(t, name)
				dir := t.TempDir()
				o := c.o
				o.Save = filepath.Join(dir, "whole")
				whole, err := m.Train(t.Context(), session(t), c.data(), &o)
				if err != nil {
					t.Fatal(err)
				}
				o.Save, o.Checkpoint, o.Every = "", filepath.Join(dir, "run"), 4
				ctx, first := stopAt(t, o, 9)
				sum, err := m.Train(ctx, session(t), c.data(), first)
				if err != nil {
					t.Fatal(err)
				}
				losses := sum.Losses
				if !sum.Stopped || sum.Steps != 9 || sum.Checkpoint != o.Checkpoint {
					t.Fatalf("stopped %v at %d, saved to %q", sum.Stopped, sum.Steps, sum.Checkpoint)
				}
				ctx, second := stopAt(t, Options{Resume: o.Checkpoint}, 23)
				if sum, err = m.Train(ctx, session(t), c.data(), second); err != nil {
					t.Fatal(err)
				}
				losses = append(losses, sum.Losses...)
				third := &Options{Resume: o.Checkpoint, Save: filepath.Join(dir, "resumed"), Sample: c.o.Sample, Prompt: c.o.Prompt}
				third.Progress = func(p Progress) {
					// A worker closes files aside, perhaps after its next step.
					held := openBelow(t, o.Checkpoint)
					for end := time.Now().Add(10 * time.Second); len(held) > 0 && time.Now().Before(end); runtime.Gosched() {
						held = openBelow(t, o.Checkpoint)
					}
					if len(held) > 0 {
						t.Fatalf("after step %d files of the checkpoint are open: %v", p.Step, held)
					}
				}
				if sum, err = m.Train(t.Context(), session(t), c.data(), third); err != nil {
					t.Fatal(err)
				}
				losses = append(losses, sum.Losses...)
				if sum.Resumed != 23 || sum.Steps != c.o.Steps || sum.Seed != c.o.Seed {
					t.Errorf("resumed at %d, steps %d, seed %d", sum.Resumed, sum.Steps, sum.Seed)
				}
				if !slices.Equal(losses, whole.Losses) {
					t.Errorf("losses\n%v\nof the run that was not stopped\n%v", losses, whole.Losses)
				}
				if sum.HeldOut != whole.HeldOut || sum.Sample != whole.Sample {
					t.Errorf("held out %v and %v, samples %q and %q", sum.HeldOut, whole.HeldOut, sum.Sample, whole.Sample)
				}
				a, err := os.ReadFile(filepath.Join(dir, "whole"))
				b, err2 := os.ReadFile(filepath.Join(dir, "resumed"))
				if err != nil || err2 != nil || string(a) != string(b) {
					t.Errorf("weights differ: %v %v", err, err2)
				}
				k, err := checkpoint.Open(o.Checkpoint)
				if err != nil {
					t.Fatal(err)
				}
				defer k.Close()
				if k.Step != uint64(c.o.Steps) {
					t.Errorf("the folder has step %d in the end", k.Step)
				}
			})
		}
	}
}

// TestResumeOther wants a checkpoint of another run, model or data to be refused, with
// the difference, and to stay as it is.
func TestResumeOther(t *testing.T) { devicetest.Each(t, testResumeOther) }

func testResumeOther(t *devicetest.T) {
	dir := filepath.Join(t.TempDir(), "run")
	m, text := find(t, "qwen3-tiny"), someText()
	base := Options{Steps: 4, Batch: 2, Seed: 3, LossEvery: 1, Sample: -1, Checkpoint: dir}
	ctx, first := stopAt(t, base, 2)
	if _, err := m.Train(ctx, inProcess(t), text, first); err != nil {
		t.Fatal(err)
	}
	other := someText().(*Text)
	other.Train[100]++
	for name, c := range map[string]struct {
		model string
		data  Data
		o     Options
		is    error
		want  string
	}{
		"none":      {"qwen3-tiny", text, Options{Resume: t.TempDir()}, checkpoint.ErrNone, "manifest.json is not there"},
		"model":     {"qwen3-small", text, Options{Resume: dir}, checkpoint.ErrMismatch, `is of the model "qwen3-tiny", not of qwen3-small; give that model again`},
		"data":      {"qwen3-tiny", other, Options{Resume: dir}, checkpoint.ErrMismatch, " was trained on, which was fox; give that again (text of "},
		"seed":      {"qwen3-tiny", text, Options{Resume: dir, Seed: 4}, checkpoint.ErrMismatch, "its seed is 3; 4 would be another run"},
		"batch":     {"qwen3-tiny", text, Options{Resume: dir, Batch: 4}, checkpoint.ErrMismatch, "its batch is 2; 4 would be another run"},
		"shorter":   {"qwen3-tiny", text, Options{Resume: dir, Steps: 1}, checkpoint.ErrMismatch, "2 steps are done, expected at most the 1 that the run is to have"},
		"both":      {"qwen3-tiny", text, Options{Resume: dir, Load: "x"}, ErrOption, "the weights come from one of them"},
		"overwrite": {"qwen3-tiny", text, Options{Checkpoint: dir, Steps: 2}, ErrOption, `holds step 2 of "qwen3-tiny"; resume it, or save elsewhere`},
		"nowhere":   {"qwen3-tiny", text, Options{Every: 3}, ErrOption, "every is 3, expected a checkpoint to save to as well"},
		"no folder": {"qwen3-tiny", text, Options{Checkpoint: "/dev/null/x"}, nil, "/dev/null"},
	} {
		_, err := find(t, c.model).Train(t.Context(), inProcess(t), c.data, &c.o)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nexpected %q", name, err, c.want)
		}
	}
	k, err := checkpoint.Open(dir)
	if err != nil || k.Step != 2 {
		t.Fatalf("%v", err)
	}
	k.Close()
	// A run that is at its end can only be evaluated, and a run may continue for longer
	// than it was planned.
	for _, steps := range []int{2, 6} {
		sum, err := m.Train(t.Context(), inProcess(t), text, &Options{Resume: dir, Steps: steps, Sample: -1})
		if err != nil || sum.Steps != steps || sum.Resumed != 2 || sum.HeldOut == 0 {
			t.Errorf("%v: %+v", err, sum)
		}
	}
}

// TestDivergedIsNotSaved wants a run that diverges to leave the last sound checkpoint.
func TestDivergedIsNotSaved(t *testing.T) { devicetest.Each(t, testDivergedIsNotSaved) }

func testDivergedIsNotSaved(t *devicetest.T) {
	dir := filepath.Join(t.TempDir(), "run")
	m := find(t, "fashion-mlp")
	_, err := m.Train(t.Context(), inProcess(t), someImages(), &Options{Steps: 200, Batch: 8, LR: 1e30, LossEvery: 200, Checkpoint: dir, Every: 1})
	if !errors.Is(err, ErrDiverged) {
		t.Fatalf("%v: learning rate 1e30 does no harm", err)
	}
	k, err := checkpoint.Open(dir)
	if errors.Is(err, checkpoint.ErrNone) {
		return // it broke at once
	}
	if err != nil {
		t.Fatal(err)
	}
	k.Close()
	sum, err := m.Train(t.Context(), inProcess(t), someImages(), &Options{Resume: dir, Steps: int(k.Step)})
	// The loss that was saved is that before the step, whose weights may give another.
	if err != nil && !(errors.Is(err, ErrDiverged) && strings.Contains(err.Error(), "held-out")) || sum.Steps != int(k.Step) {
		t.Errorf("%v: %+v", err, sum)
	}
}
