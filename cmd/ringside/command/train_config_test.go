package command

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The examples of docs/sharding.md: a config is followed, and changes no number.
func TestTrainWithConfig(t *testing.T) {
	t.Run("sharding", func(t *testing.T) { trainWithConfig(t, "sharding.yaml", 4, 10) })
	t.Run("sequence", func(t *testing.T) { trainWithConfig(t, "sequence.yaml", 2, 20) })
	t.Run("pipeline", func(t *testing.T) { trainWithConfig(t, "pipeline.yaml", 2, 5) })
}

// trainWithConfig trains by a config for some workers, which must take part in at least
// the given number of collectives.
func trainWithConfig(t *testing.T, name string, workers int, calls float64) {
	runtimeDir(t)
	file := filepath.Join("..", "..", "..", "docs", name)
	args := []string{"--model", "qwen3-tiny", "--data", textFile(t), "--steps", "4", "--loss-every", "1", "--batch", "4", "--sample", "0"}
	far := trained(t, append(args, "--config", file)...)
	near := trained(t, append(args, "--in-process")...)
	if far.Traffic == nil || far.Workers != workers || far.TensorBytes != 0 {
		t.Fatalf("not %d workers, or tensors went through the dispatcher: %+v", workers, far.Traffic)
	}
	if far.CollectivesPerStep == nil || *far.CollectivesPerStep < calls || *far.MovedPerStep == 0 {
		t.Errorf("nothing was cut: %+v", far.Traffic)
	}
	if len(far.Losses) != len(near.Losses) || len(far.Losses) != 4 {
		t.Fatalf("%d losses, in this process %d", len(far.Losses), len(near.Losses))
	}
	for i, l := range near.Losses {
		if got := far.Losses[i].Loss; math.Abs(got-l.Loss) > 1e-4*l.Loss {
			t.Errorf("step %d: loss %g, in this process %g", l.Step, got, l.Loss)
		}
	}
}

func TestTrainBadConfig(t *testing.T) {
	runtimeDir(t)
	file := filepath.Join(t.TempDir(), "c.yaml")
	for text, want := range map[string]string{
		"batch:\n  shard: {axis: 0, along: model}\n":                file + ":2:27: batch.shard.along: model: unknown dim of the mesh, expected data",
		"workers: 2\nmicro_batches: 3\nbatch: {shard: {axis: 0}}\n": "micro-batches is 3, expected a divisor of the batch, 8",
		"batch: {shard: {axis: 0}}\n":                               "cuts tensors among workers and gives no number of them: add a line to it such as workers: 2",
		"workers: 2\nbatch: {shard: {axis: 0, x: 1}}\n":             file + ":2:29: batch.shard.x",
		"workers: 2\nmodel.norm.weight:\n  shard: {axis: -2}\n":     file + ":3:17: model.norm.weight.shard.axis: -2: a tensor of model.norm.weight has the shape [64], expected -1 to 0",
		"workers: 3\nlayers: {shard: {axis: 0}}\n\"*.up_proj.weight\":\n  shard: {axis: 1, even: true}\n": file +
			":4:26: *.up_proj.weight.shard.even: true: dim 1 of a tensor of model.layers.0.mlp.up_proj.weight, of shape [192 64], is cut in 3, expected a multiple of 3 there, workers that divide 64, or even: false",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _, err := execute(t, "train", "--data", textFile(t), "--config", file)
		if err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%q gave %v, expected %s\n%s", text, err, want, out)
		}
	}
	folder := t.TempDir()
	if _, _, err := execute(t, "train", "--data", textFile(t), "--config", folder); err == nil || !strings.Contains(err.Error(), folder+" is no regular file") {
		t.Errorf("a folder for a config gave %v", err)
	}
	if _, _, err := execute(t, "train", "--data", textFile(t), "--config", file, "--workers", "2"); err == nil || !strings.Contains(err.Error(), "--config and --workers") {
		t.Errorf("--config with --workers gave %v", err)
	}
	if err := os.WriteFile(file, []byte("batch: {shard: {axis: 0}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := execute(t, "train", "--data", textFile(t), "--config", file, "--in-process"); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("--config with --in-process gave %v", err)
	}
}

// TestTrainUnusedSignal checks that a signal the model has nothing for, and no other, is
// reported with its line, and that training goes on.
func TestTrainUnusedSignal(t *testing.T) {
	runtimeDir(t)
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("workers: 2\nbatch: {shard: {axis: 0}}\nbacth:\n  shard: {axis: 0}\noptimizer.state: {shard: {axis: 0}}\n\"*.up_proj.weight\": {shard: {axis: 0}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errOut, err := execute(t, "train", "--data", textFile(t), "--config", file, "--steps", "2", "--sample=-1")
	if err != nil {
		t.Fatal(err)
	}
	if want := "warning: " + file + ":3:1: bacth: the program has no such signal"; strings.Count(errOut, "warning:") != 1 || !strings.Contains(errOut, want) {
		t.Errorf("said was\n%s\nexpected one %q", errOut, want)
	}
}
