package command

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// gpuPatience bounds a run over the stand-in, whose interpreter is slow.
const gpuPatience = 20 * time.Minute

// shortText makes a file of text whose evaluation takes little time.
func shortText(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "short.txt")
	if err := os.WriteFile(path, bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog; "), 30), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// trainedApart runs train --json as a process of its own, which finds the stand-in.
func trainedApart(t *testing.T, args ...string) (o outcome) {
	t.Helper()
	cmd := ringside(t, append([]string{"train", "--json"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(gpuPatience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("train %v: %v\n%s", args, err, &errs)
	}
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	return o
}

// sameLosses checks that losses are those of the cpu engine to 1e-3.
func sameLosses(t *testing.T, what string, got, want outcome) {
	t.Helper()
	if len(got.Losses) != len(want.Losses) || len(want.Losses) == 0 {
		t.Errorf("%s: %d losses, expected %d and some", what, len(got.Losses), len(want.Losses))
		return
	}
	for i, x := range got.Losses {
		if y := want.Losses[i]; x.Step != y.Step || !(math.Abs(x.Loss-y.Loss) <= 1e-3) {
			t.Errorf("%s: loss %g at step %d, on the cores %g at step %d", what, x.Loss, x.Step, y.Loss, y.Step)
		}
	}
}

// TestTrainOnGPUs trains a language model by clusters of train's own, whose workers are
// processes over the stand-in, two on one GPU or on one each, and goes on from a
// checkpoint: the losses are those of the cores. TestStepsOnGPUs has the other ways.
func TestTrainOnGPUs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes: the stand-in interprets kernels")
	}
	runtimeDir(t)
	standIn(t)
	args := []string{"--data", shortText(t), "--batch", "2", "--sample=-1", "--seed", "3", "--loss-every", "1"}
	want := trained(t, append(args, "--steps", "2", "--in-process")...)
	for _, how := range [][]string{
		{"--device", "cuda:0", "--mesh", "1x2", "--auto-shard"}, {"--device", "auto", "--workers", "2"},
	} {
		sameLosses(t, strings.Join(how, " "), trainedApart(t, slices.Concat(args, how, []string{"--steps", "2"})...), want)
	}
	dir := filepath.Join(t.TempDir(), "run")
	args = append(args, "--device", "cuda", "--workers", "2")
	trainedApart(t, slices.Concat(args, []string{"--steps", "1", "--checkpoint", dir})...)
	rest := trainedApart(t, slices.Concat(args, []string{"--steps", "2", "--resume", dir})...)
	if rest.Resumed != 1 {
		t.Errorf("resumed at step %d, expected 1", rest.Resumed)
	}
	want.Losses = want.Losses[1:]
	sameLosses(t, "resumed", rest, want)
}
