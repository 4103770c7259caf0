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
// one that has further steps names them where --steps asks for fewer.
func TestAtItsEnd(t *testing.T) {
	runtimeDir(t)
	text, folder := textFile(t), filepath.Join(t.TempDir(), "run")
	args := []string{"train", "--in-process", "--data", text, "--sample=0", "--json"}
	trained(t, append(args[1:], "--steps", "3", "--batch", "1", "--checkpoint", folder)...)
	if _, said, err := execute(t, append(args, "--resume", folder)...); err != nil || !strings.Contains(said, "is at its end, step 3, and is evaluated; --steps 6 trains it as long again") {
		t.Errorf("%v: %s", err, said)
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

// TestEvalOtherData: a checkpoint is judged on the data of its run, and on other data
// only with a warning of it.
func TestEvalOtherData(t *testing.T) {
	runtimeDir(t)
	text, folder := textFile(t), filepath.Join(t.TempDir(), "run")
	trained(t, "--in-process", "--data", text, "--steps", "3", "--batch", "1", "--sample=-1", "--checkpoint", folder)
	body, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.txt")
	if err := os.WriteFile(other, bytes.ToUpper(body), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		data  string
		warns bool
	}{
		{nil, text, false},
		{[]string{"--data", text}, text, false},
		{[]string{"--data", other}, other, true},
	} {
		out, said, err := execute(t, append([]string{"eval", "--json", "--load", folder}, c.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		var e train.Evaluation
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatal(err)
		}
		warning := "warning: judged on other data than the run in " + folder + " learnt from: " + other + "; that was " + text
		if e.Data != c.data || (e.TrainedOn == text) != c.warns || strings.Contains(said, warning) != c.warns {
			t.Errorf("eval %q: on %s, trained on %q, said %q", c.args, e.Data, e.TrainedOn, said)
		}
	}
	if _, _, err := execute(t, "train", "--in-process", "--data", other, "--resume", folder); err == nil || !strings.Contains(err.Error(), "than it was trained on, which was "+text) {
		t.Errorf("resumed on other data: %v", err)
	}
	if err := os.Remove(text); err != nil {
		t.Fatal(err)
	}
	if _, _, err := execute(t, "eval", "--load", folder); err == nil || !strings.Contains(err.Error(), "--data is needed: the run in "+folder+" learnt from "+text) {
		t.Errorf("the data is not there: %v", err)
	}
}
