package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/train"
)

// TestAtItsEnd: a run that goes on after its last step says that it does not train, and
// one that has further steps names them where --steps asks for fewer. It needs no --data.
func TestAtItsEnd(t *testing.T) {
	runtimeDir(t)
	text, folder := textFile(t), filepath.Join(t.TempDir(), "run")
	args := []string{"train", "--in-process", "--data", text, "--sample=0", "--json"}
	trained(t, append(args[1:], "--steps", "3", "--batch", "1", "--checkpoint", folder)...)
	if _, said, err := execute(t, "train", "--in-process", "--sample=0", "--json", "--resume", folder); err != nil || !strings.Contains(said, "is at its end, step 3, and is evaluated; --steps 6 trains it as long again") {
		t.Errorf("%v: %s", err, said)
	}
	if _, said, err := execute(t, "train", "--in-process", "--sample=0", "--resume", folder); err != nil || strings.Contains(said, "were not kept") {
		t.Errorf("its weights are in the checkpoint: %v: %s", err, said)
	}
	if _, said, err := execute(t, "train", "--in-process", "--data", text, "--sample=0", "--steps", "1", "--batch", "1"); err != nil || !strings.Contains(said, "the weights were not kept: --save FILE") {
		t.Errorf("a run that keeps nothing: %v: %s", err, said)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	m, err := train.Find("qwen3-tiny")
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := &train.Options{Resume: folder, Steps: 9, LossEvery: 1, Sample: -1, Progress: func(p train.Progress) {
		if p.Step == 5 {
			stop()
		}
	}}
	if sum, err := m.Train(ctx, s, d, o); err != nil || !sum.Stopped || sum.Steps >= 9 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if _, _, err := execute(t, append(args, "--resume", folder, "--steps", "4")...); err == nil || !strings.Contains(err.Error(), ", or none to go on to its own end") {
		t.Errorf("fewer steps than done: %v", err)
	}
}

// TestEvalOtherData: weights are judged on the data that they learnt from, and on other
// data only with a warning of it.
func TestEvalOtherData(t *testing.T) {
	runtimeDir(t)
	text, folder := textFile(t), filepath.Join(t.TempDir(), "run")
	file, published := filepath.Join(t.TempDir(), "a.safetensors"), filepath.Join(t.TempDir(), "b.safetensors")
	trained(t, "--in-process", "--data", text, "--steps", "3", "--batch", "1", "--sample=-1", "--checkpoint", folder, "--save", file)
	if _, _, err := execute(t, "export", "--load", file, "--to", published); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.txt")
	if err := os.WriteFile(other, bytes.ToUpper(body), 0o600); err != nil {
		t.Fatal(err)
	}
	evaluated := func(load string, args ...string) (e train.Evaluation, said string) {
		t.Helper()
		out, said, err := execute(t, append([]string{"eval", "--json", "--load", load}, args...)...)
		if err == nil {
			err = json.Unmarshal([]byte(out), &e)
		}
		if err != nil {
			t.Fatal(err)
		}
		return e, said
	}
	for _, load := range []string{folder, file} {
		for _, c := range []struct {
			args  []string
			data  string
			warns bool
		}{
			{nil, text, false},
			{[]string{"--data", text}, text, false},
			{[]string{"--data", other}, other, true},
		} {
			e, said := evaluated(load, c.args...)
			warning := "warning: judged on other data than the run that wrote " + load + " learnt from: " + other + "; that was " + text + "\n"
			if e.Data != c.data || (e.TrainedOn == text) != c.warns || strings.Contains(said, warning) != c.warns {
				t.Errorf("eval of %s %q: on %s, trained on %q, said %q", load, c.args, e.Data, e.TrainedOn, said)
			}
		}
	}
	if e, said := evaluated(published, "--data", text); e.TrainedOn != "" || strings.Contains(said, "warning") {
		t.Errorf("an export: trained on %q, said %q", e.TrainedOn, said)
	}
	if e, said := evaluated(published); !strings.Contains(said, "that was text of 12825 bytes, sha256 ") || strings.Contains(said, text) || e.Data == text {
		t.Errorf("an export on the default data: trained on %q, said %q", e.TrainedOn, said)
	}
	if _, _, err := execute(t, "train", "--in-process", "--data", other, "--resume", folder); err == nil || !strings.HasPrefix(err.Error(), "--resume: "+other+" is other data than the run in "+folder+" was trained on, which was "+text+"; give that again (") {
		t.Errorf("resumed on other data: %v", err)
	}
	if err := os.Remove(text); err != nil {
		t.Fatal(err)
	}
	if _, _, err := execute(t, "eval", "--load", folder); err == nil || !strings.Contains(err.Error(), "--data is needed: the run that wrote "+folder+" learnt from "+text) {
		t.Errorf("the data is not there: %v", err)
	}
	if e, said := evaluated(file); e.TrainedOn != text || !strings.Contains(said, "; that was "+text+", which is not there; --data says where it is\n") {
		t.Errorf("the data of a file is not there: %+v, said %q", e, said)
	}
}

// TestEvalOfImages: weights of images are judged on the folder that they learnt from.
func TestEvalOfImages(t *testing.T) {
	runtimeDir(t)
	images, folder := imageFolder(t), filepath.Join(t.TempDir(), "run")
	file := filepath.Join(t.TempDir(), "a.safetensors")
	trained(t, "--in-process", "--model", "fashion-mlp", "--data", images, "--steps", "3", "--batch", "10", "--checkpoint", folder, "--save", file)
	for _, load := range []string{folder, file} {
		if out, said, err := execute(t, "eval", "--load", load); err != nil || !strings.Contains(out, images) || strings.Contains(said, "warning") {
			t.Errorf("eval of %s: %v, %q, said %q", load, err, out, said)
		}
	}
	if err := os.RemoveAll(images); err != nil {
		t.Fatal(err)
	}
	for _, load := range []string{folder, file} {
		if out, said, err := execute(t, "eval", "--load", load); err == nil && !strings.Contains(said, "which is not there") {
			t.Errorf("eval of %s without its data: %q, said %q", load, out, said)
		}
	}
}
