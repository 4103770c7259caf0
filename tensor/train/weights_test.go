package train

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/nn/model"
)

// TestAfterTraining checks that the weights of a run, from a file, a folder or a
// checkpoint, give the run's own held-out loss and sample.
func TestAfterTraining(t *testing.T) { devicetest.Each(t, testAfterTraining) }

func testAfterTraining(t *devicetest.T) {
	m := find(t, "qwen3-tiny")
	folder, kept := t.TempDir(), filepath.Join(t.TempDir(), "run")
	o := Options{Steps: 3, Batch: 2, Sample: 12, Prompt: "the ", Seed: 4, Save: filepath.Join(folder, weightsName), Checkpoint: kept}
	sum, err := m.Train(t.Context(), inProcess(t), someText(), &o)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{o.Save, folder, kept} {
		if is, err := ModelOf(path); err != nil || is.Name != m.Name {
			t.Errorf("%s: model %v, %v", path, is, err)
		}
		e, err := m.Evaluate(t.Context(), inProcess(t), someText(), path)
		if err != nil || e.HeldOut != sum.HeldOut || *e.BitsPerByte != *sum.BitsPerByte || e.Parameters != sum.Parameters || e.Weights != path {
			t.Errorf("%s: %+v, %v; the run had a loss of %v", path, e, err, sum.HeldOut)
		}
		text := []byte(o.Prompt)
		for b, err := range m.Continue(t.Context(), inProcess(t), path, text, o.Sample, model.Sampling{Temperature: 0.7, TopK: 40, Seed: o.Seed}) {
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			text = append(text, b)
		}
		if got := strings.ToValidUTF8(string(text), "\uFFFD"); got != sum.Sample {
			t.Errorf("%s: %q, the run wrote %q", path, got, sum.Sample)
		}
		again := Options{Steps: 1, Batch: 2, Sample: -1, Load: path}
		if next, err := m.Train(t.Context(), inProcess(t), someText(), &again); err != nil || next.Losses[0].Loss >= sum.Losses[0].Loss {
			t.Errorf("%s: training on: %+v, %v", path, next, err)
		}
	}

	nothing, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	s := inProcess(t)
	if err := nn.Save(other, []tensor.Named{{Name: "a", T: tensor.Ones(s, tensor.F32, 2)}}, nil); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{nothing: checkpoint.ErrNone, other: ErrModel, filepath.Join(nothing, "gone"): os.ErrNotExist} {
		if _, err := ModelOf(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, expected %v", path, err, want)
		}
	}
	inside := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.Link(other, inside); err != nil {
		t.Fatal(err)
	}
	if _, err := ModelOf(filepath.Dir(inside)); err == nil || !strings.HasPrefix(err.Error(), inside+" does not say") {
		t.Errorf("a folder: %v, expected the file in it", err)
	}
	small := find(t, "qwen3-small")
	for path, says := range map[string]string{nothing: "nor is model.safetensors", o.Save: "weights of qwen3-tiny, expected those of qwen3-small", kept: "weights of qwen3-tiny"} {
		if _, err := small.Evaluate(t.Context(), s, someText(), path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s for another model: %v, expected %q", path, err, says)
		}
		if _, err := small.Train(t.Context(), s, someText(), &Options{Load: path}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("training on from %s: %v, expected %q", path, err, says)
		}
	}
	if _, err := m.Evaluate(t.Context(), s, someText(), other); !errors.Is(err, nn.ErrMismatch) {
		t.Errorf("another model's weights: %v", err)
	}
	net, err := m.network(s)
	if err != nil {
		t.Fatal(err)
	}
	params := net.Params()
	for i := range params {
		params[i].T = params[i].T.MulS(math.NaN())
	}
	if err := nn.Save(other, params, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Evaluate(t.Context(), s, someText(), other); !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), other) {
		t.Errorf("weights of NaN: %v", err)
	}
	if _, err := m.Evaluate(t.Context(), s, someImages(), kept); !errors.Is(err, ErrData) {
		t.Errorf("images for a language model: %v", err)
	}
	mlp := find(t, "fashion-mlp")
	images := Options{Steps: 1, Batch: 2, Save: filepath.Join(t.TempDir(), "mlp")}
	if _, err := mlp.Train(t.Context(), inProcess(t), someImages(), &images); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		m    *Model
		path string
		want error
	}{{t.Context(), mlp, images.Save, ErrModel}, {ctx, m, o.Save, context.Canceled}, {t.Context(), m, images.Save, nn.ErrMismatch}} {
		for _, err := range c.m.Continue(c.ctx, inProcess(t), c.path, []byte("a"), 1, model.Sampling{}) {
			if !errors.Is(err, c.want) {
				t.Errorf("%v continues from %s: %v, expected %v", c.m.Name, c.path, err, c.want)
			}
		}
	}
}

// TestSavedData checks what weights say of the data that they learnt from: the path and
// the fingerprint in a file and a checkpoint, the fingerprint in an export, nothing in a
// file that is older. A path that is no text does not keep a file from being written.
func TestSavedData(t *testing.T) { devicetest.Each(t, testSavedData) }

func testSavedData(t *devicetest.T) {
	m, dir := find(t, "qwen3-tiny"), t.TempDir()
	d := someText().(*Text)
	d.From = filepath.Join(dir, "fox.txt")
	if err := os.WriteFile(d.From, d.Train, 0o600); err != nil {
		t.Fatal(err)
	}
	odd := &Text{d.Text, filepath.Join(dir, "\xff.txt")}
	other := someText().(*Text)
	other.Text.Train = other.Text.Train[1:]
	file, kept, old, published, unnamed := filepath.Join(dir, "file"), filepath.Join(dir, "run"), filepath.Join(dir, "old"), filepath.Join(dir, "published"), filepath.Join(dir, "unnamed")
	for o, on := range map[*Options]*Text{{Save: file, Checkpoint: kept}: d, {Save: unnamed}: odd} {
		o.Steps, o.Batch, o.Sample = 1, 1, -1
		if _, err := m.Train(t.Context(), inProcess(t), on, o); err != nil {
			t.Fatal(err)
		}
	}
	s := inProcess(t)
	if _, err := m.Export(t.Context(), s, file, published); err != nil {
		t.Fatal(err)
	}
	net, err := m.open(t.Context(), s, file)
	if err != nil {
		t.Fatal(err)
	}
	if err := nn.Save(old, net.Params(), map[string]string{noteModel: m.Name}); err != nil {
		t.Fatal(err)
	}
	print := fingerprint(d)
	for _, c := range []struct {
		path, from string
		tells      string // of other data
	}{
		{file, d.From, d.From},
		{kept, d.From, d.From},
		{unnamed, "", print},
		{published, "", print},
		{old, "", ""},
	} {
		if from, err := DataOf(c.path); err != nil || from != c.from {
			t.Errorf("%s: learnt from %q, %v; expected %q", c.path, from, err, c.from)
		}
		for on, tells := range map[*Text]string{d: "", {d.Text, "elsewhere"}: "", other: c.tells} {
			if e, err := m.Evaluate(t.Context(), s, on, c.path); err != nil || e.TrainedOn != tells {
				t.Errorf("%s judged on %s: %+v, %v; expected to be trained on %q", c.path, on.From, e, err, tells)
			}
		}
	}
}
