package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/nn"
)

func inProcess(t *devicetest.T) *tensor.Session {
	t.Helper()
	return t.Session(nil)
}

// throughCluster returns a session on a dispatcher and a worker, and the engine under it.
func throughCluster(t *devicetest.T) (*tensor.Session, *client.Engine) {
	t.Helper()
	return throughWorkers(t, 1, nil)
}

// throughWorkers returns a session with so many workers of a cluster, each on a device of
// its own of the test's kind, and the engine under it.
func throughWorkers(t *devicetest.T, workers int, o *client.Options) (*tensor.Session, *client.Engine) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c, err := cluster.Start(context.Background(), &cluster.Options{Dir: dir, InProcess: true, Workers: workers,
		Worker: func(name string) (*worker.Options, error) {
			d, err := t.Open(shm.ArenaOptions{Segment: worker.Segments()})
			return &worker.Options{Name: name, Device: d}, err
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	e, err := client.Dial(context.Background(), c.Addr(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := tensor.NewSession(e, nil)
	t.Cleanup(func() { s.Close() })
	return s, e
}

// patterns returns images that a small model can tell apart: class c has a bright band of
// rows.
func patterns(count int, key string) *data.Images {
	set := &data.Images{Count: count, Rows: mnistSide, Cols: mnistSide, Classes: mnistClasses}
	for i := range count {
		class := int(data.Index(data.Key(key), uint64(i), mnistClasses))
		set.Labels = append(set.Labels, byte(class))
		for p := range mnistSide * mnistSide {
			v := byte(data.Index(data.Key(key+" noise"), uint64(i*mnistSide*mnistSide+p), 100))
			if row := p / mnistSide; row >= 2*class && row < 2*class+4 {
				v += 120
			}
			set.Pixels = append(set.Pixels, v)
		}
	}
	return set
}

func someImages() Data {
	return &Images{Train: patterns(640, "train"), Test: patterns(600, "test"), From: "patterns"}
}

func someText() Data {
	text := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog; ", 200))
	return &Text{&data.Text{Train: text[:8000], Held: text[8000:]}, "fox"}
}

func find(t testing.TB, name string) *Model {
	t.Helper()
	m, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// same are runs that are quick and still learn something.
var same = map[string]struct {
	data func() Data
	o    Options
}{
	"fashion-mlp": {someImages, Options{Steps: 40, Batch: 32, LossEvery: 1, Seed: 7}},
	"qwen3-tiny":  {someText, Options{Steps: 40, Batch: 4, LossEvery: 1, Seed: 7, Sample: 20, Prompt: "the quick "}},
}

// TestInProcessAndClusterAgree wants losses and figures to be the same bits, and a step
// to be one message.
func TestInProcessAndClusterAgree(t *testing.T) { devicetest.Each(t, testInProcessAndClusterAgree) }

func testInProcessAndClusterAgree(t *devicetest.T) {
	for name, c := range same {
		t.Run(name, func(t *devicetest.T) {
			m := find(t, name)
			near, err := m.Train(t.Context(), inProcess(t), c.data(), &c.o)
			if err != nil {
				t.Fatal(err)
			}
			s, e := throughCluster(t)
			o := c.o
			var first, last client.Stats
			o.Started = func() { first = e.Stats() }
			o.Trained = func(int) { last = e.Stats() }
			far, err := m.Train(t.Context(), s, c.data(), &o)
			if err != nil {
				t.Fatal(err)
			}
			if len(near.Losses) != c.o.Steps || !slices.Equal(near.Losses, far.Losses) {
				t.Errorf("losses\n%v\nthrough the cluster\n%v", near.Losses, far.Losses)
			}
			if near.HeldOut != far.HeldOut || near.Sample != far.Sample {
				t.Errorf("held out %v and %v, samples %q and %q", near.HeldOut, far.HeldOut, near.Sample, far.Sample)
			}
			if near.Losses[0].Loss < near.Loss+0.3 {
				t.Errorf("nothing learned: %v", near.Losses)
			}
			steps := uint64(c.o.Steps - 1)
			if n := last.Messages - first.Messages; n != steps {
				t.Errorf("%d messages for %d steps, want as many", n, steps)
			}
			if n := last.RoundTrips - first.RoundTrips; n != steps {
				t.Errorf("%d round trips for %d steps, want as many: every loss is read", n, steps)
			}
			if last.Bodies != 2 {
				t.Errorf("%d programs sent, want 2: the weights, and a step", last.Bodies)
			}
		})
	}
}

// TestLossEvery wants fewer reads of the loss to change none of them, and to cost fewer
// round trips.
func TestLossEvery(t *testing.T) { devicetest.Each(t, testLossEvery) }

func testLossEvery(t *devicetest.T) {
	for name, c := range same {
		t.Run(name, func(t *devicetest.T) {
			m, o := find(t, name), c.o
			all, err := m.Train(t.Context(), inProcess(t), c.data(), &o)
			if err != nil {
				t.Fatal(err)
			}
			s, e := throughCluster(t)
			o.LossEvery = 15
			o.inFlight = time.Hour // the duration of a step depends on the machine
			var first, last client.Stats
			o.Started = func() { first = e.Stats() }
			o.Trained = func(int) { last = e.Stats() }
			var reported []int
			o.Progress = func(p Progress) { reported = append(reported, p.Step) }
			few, err := m.Train(t.Context(), s, c.data(), &o)
			if err != nil {
				t.Fatal(err)
			}
			want := []Point{all.Losses[14], all.Losses[29], all.Losses[39]}
			if !slices.Equal(few.Losses, want) {
				t.Errorf("losses %v, want %v", few.Losses, want)
			}
			if !slices.Equal(reported, []int{15, 30, 40}) {
				t.Errorf("progress at steps %v, want 15, 30, 40", reported)
			}
			if n, m := last.RoundTrips-first.RoundTrips, last.Messages-first.Messages; n > 6 || m != 39 {
				t.Errorf("%d round trips and %d messages in 39 steps; want at most 6 and 39", n, m)
			}
			if n := (last.Bytes - first.Bytes) / 39; n > 256 {
				t.Errorf("%d bytes a step, want at most 256", n)
			}
			if few.HeldOut != all.HeldOut {
				t.Errorf("held out %v and %v", few.HeldOut, all.HeldOut)
			}
		})
	}
}

// TestLearns wants both models to learn the structure of their data.
func TestLearns(t *testing.T) { devicetest.Each(t, testLearns) }

func testLearns(t *devicetest.T) {
	sum, err := find(t, "fashion-mlp").Train(t.Context(), inProcess(t), someImages(), &Options{Steps: 60, Batch: 32})
	if err != nil || *sum.Accuracy < 0.95 {
		t.Errorf("accuracy %v, %v; want 0.95", *sum.Accuracy, err)
	}
	sum, err = find(t, "qwen3-tiny").Train(t.Context(), inProcess(t), someText(), &Options{Steps: 150, Batch: 4, Sample: 30, Prompt: "the quick "})
	if err != nil {
		t.Fatal(err)
	}
	if *sum.BitsPerByte > 1.2 || !strings.HasPrefix(sum.Sample, "the quick ") || len(sum.Sample) != 40 {
		t.Errorf("%v bits per byte, sample %q; want at most 1.2, and 30 bytes behind the prompt", *sum.BitsPerByte, sum.Sample)
	}
}

// TestSaveAndLoad wants a run that begins with saved weights to begin where the other
// ended.
func TestSaveAndLoad(t *testing.T) { devicetest.Each(t, testSaveAndLoad) }

func testSaveAndLoad(t *devicetest.T) {
	for name, c := range same {
		t.Run(name, func(t *devicetest.T) {
			m, file := find(t, name), filepath.Join(t.TempDir(), "w.safetensors")
			o := c.o
			o.Save = file
			first, err := m.Train(t.Context(), inProcess(t), c.data(), &o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // no step at all
			o.Save, o.Load = filepath.Join(t.TempDir(), "again.safetensors"), file
			if _, err := m.Train(ctx, inProcess(t), c.data(), &o); err != nil {
				t.Fatal(err)
			}
			a, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(o.Save)
			if err != nil {
				t.Fatal(err)
			}
			if string(a) != string(b) {
				t.Error("weights that were loaded and saved again are others")
			}
			o.Save, o.Steps = "", 1
			next, err := m.Train(t.Context(), inProcess(t), c.data(), &o)
			if err != nil {
				t.Fatal(err)
			}
			if next.Losses[0].Loss > first.Losses[0].Loss-0.3 {
				t.Errorf("first loss with loaded weights %v, without %v: want it lower", next.Losses[0].Loss, first.Losses[0].Loss)
			}
		})
	}
	o := same["fashion-mlp"].o
	o.Save = filepath.Join(t.TempDir(), "mlp.safetensors")
	if _, err := find(t, "fashion-mlp").Train(t.Context(), inProcess(t), someImages(), &o); err != nil {
		t.Fatal(err)
	}
	o.Load = o.Save
	_, err := find(t, "fashion-cnn").Train(t.Context(), inProcess(t), someImages(), &o)
	if !errors.Is(err, nn.ErrMismatch) || !strings.Contains(err.Error(), "holds weights of fashion-mlp, expected those of fashion-cnn") || len(err.Error()) > 300 {
		t.Errorf("loading another model's weights: %v, want an error that names the models, and not each tensor", err)
	}
}

// TestStopped wants a context that is done to end the run between two steps, with the
// summary so far.
func TestStopped(t *testing.T) { devicetest.Each(t, testStopped) }

func testStopped(t *devicetest.T) {
	for _, every := range []int{1, 10} {
		ctx, cancel := context.WithCancel(t.Context())
		s, _ := throughCluster(t)
		o := Options{Steps: 1000, Batch: 4, LossEvery: every, Save: filepath.Join(t.TempDir(), "w.safetensors")}
		o.Progress = func(p Progress) {
			if p.Step == 20 {
				cancel()
			}
		}
		sum, err := find(t, "fashion-mlp").Train(ctx, s, someImages(), &o)
		if err != nil {
			t.Fatal(err)
		}
		if !sum.Stopped || sum.Steps != 20 || sum.Losses[len(sum.Losses)-1].Step != 20 || sum.Accuracy != nil {
			t.Errorf("reading every %d: %+v, want a stop at step 20 without an evaluation", every, sum)
		}
		if _, err := os.Stat(o.Save); err != nil {
			t.Errorf("reading every %d: weights were not saved: %v", every, err)
		}
	}
}

func TestDiverged(t *testing.T) { devicetest.Each(t, testDiverged) }

func testDiverged(t *devicetest.T) {
	sum, err := find(t, "fashion-mlp").Train(t.Context(), inProcess(t), someImages(), &Options{Steps: 50, Batch: 8, LR: 1e38, LossEvery: 1})
	if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), fmt.Sprintf("step %d", sum.Steps)) {
		t.Errorf("%v after %d steps, want ErrDiverged that names the step", err, sum.Steps)
	}
	if _, err := json.Marshal(sum); err != nil || len(sum.Losses) != sum.Steps-1 {
		t.Errorf("a summary of the %d losses of %d steps: %v", len(sum.Losses), sum.Steps, err)
	}
}

func TestBadOptions(t *testing.T) { devicetest.Each(t, testBadOptions) }

func testBadOptions(t *devicetest.T) {
	small := &Images{Train: &data.Images{Count: 1, Rows: 8, Cols: 8, Classes: 2}, From: "small"}
	short := &Text{&data.Text{Train: make([]byte, 64), Held: make([]byte, 9)}, "short"}
	for _, c := range []struct {
		model string
		data  Data
		o     Options
		want  error
		says  string
	}{
		{"fashion-mlp", someImages(), Options{Steps: -1}, ErrOption, "steps is -1"},
		{"fashion-mlp", someImages(), Options{Batch: 1 << 20}, ErrOption, "batch is 1048576, expected 1 to 65536"},
		{"fashion-mlp", someImages(), Options{Accumulate: -2}, ErrOption, "accumulate is -2"},
		{"fashion-mlp", someImages(), Options{Recompute: true}, ErrOption, "fashion-mlp has no parts"},
		{"fashion-mlp", someImages(), Options{LR: -1}, ErrOption, "lr is -1"},
		{"fashion-mlp", someImages(), Options{LossEvery: -3}, ErrOption, "loss-every is -3"},
		{"fashion-mlp", someImages(), Options{Seed: 1 << 60}, ErrOption, "below 2^53"},
		{"qwen3-tiny", someText(), Options{Sample: 1 << 30}, ErrOption, "sample is 1073741824"},
		{"fashion-mlp", someImages(), Options{Outer: &otherPeers{}}, ErrOption, "inner is 0"},
		{"fashion-mlp", someImages(), Options{Outer: &otherPeers{}, Inner: 1, Checkpoint: "c"}, ErrOption, "checkpoint is c, expected none"},
		{"fashion-mlp", small, Options{}, ErrData, "small: images of 8x8"},
		{"fashion-mlp", someText(), Options{}, ErrData, "images"},
		{"qwen3-tiny", someImages(), Options{}, ErrData, "text"},
		{"qwen3-tiny", short, Options{}, ErrData, "64 bytes to train on"},
		{"fashion-mlp", someImages(), Options{Load: "/nowhere/w.safetensors"}, os.ErrNotExist, "/nowhere/w.safetensors"},
	} {
		_, err := find(t, c.model).Train(t.Context(), inProcess(t), c.data, &c.o)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %+v: %v, want %v with %q", c.model, c.o, err, c.want, c.says)
		}
	}
}

func TestFind(t *testing.T) {
	for _, m := range Models() {
		if got, err := Find(m.Name); err != nil || got.Name != m.Name || got.Doc == "" {
			t.Errorf("Find(%q) = %+v, %v", m.Name, got, err)
		}
	}
	_, err := Find("parrot")
	if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "parrot") || !strings.Contains(err.Error(), "qwen3-tiny") {
		t.Errorf("Find of nothing: %v, want ErrModel that lists all", err)
	}
}

func TestLoad(t *testing.T) {
	_, err := find(t, "fashion-mlp").Load(t.TempDir())
	if !errors.Is(err, data.ErrNotFound) {
		t.Errorf("images of an empty folder: %v, want ErrNotFound", err)
	}
	empty := filepath.Join(t.TempDir(), "empty.txt")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = find(t, "qwen3-tiny").Load(empty); !errors.Is(err, data.ErrFormat) || !strings.Contains(err.Error(), empty) {
		t.Errorf("text of an empty file: %v, want ErrFormat that names it", err)
	}
}
