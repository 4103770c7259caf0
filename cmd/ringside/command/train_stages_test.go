package command

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// TestTrainStages checks that --stages places layers as docs/pipeline.yaml does, to the
// same bits, also with several workers a stage.
func TestTrainStages(t *testing.T) {
	runtimeDir(t)
	args := []string{"--data", textFile(t), "--steps", "4", "--loss-every", "1", "--batch", "8", "--sample=-1"}
	near := trained(t, append(args, "--in-process")...)
	file := trained(t, append(args, "--config", "../../../docs/pipeline.yaml")...)
	for _, c := range []struct {
		args                   []string
		stages, workers, micro int
		same                   bool // as by the file
	}{
		{[]string{"--stages", "2"}, 2, 2, 4, true},
		{[]string{"--stages", "2", "--micro-batches", "2"}, 2, 2, 2, false},
		{[]string{"--stages", "2", "--workers", "4"}, 2, 4, 4, false},
	} {
		got := trained(t, append(args, c.args...)...)
		if got.Stages != c.stages || got.Workers != c.workers || got.Micro != c.micro || got.TensorBytes != 0 {
			t.Errorf("%v: %d stages, %d workers, %d micro-batches, %d tensor bytes through the dispatcher", c.args, got.Stages, got.Workers, got.Micro, got.TensorBytes)
		}
		if got.MovedPerStep == nil || *got.MovedPerStep == 0 || c.same && *got.MovedPerStep != *file.MovedPerStep {
			t.Errorf("%v: sent %v", c.args, got.MovedPerStep)
		}
		for i, l := range near.Losses {
			if d := math.Abs(got.Losses[i].Loss - l.Loss); d > 1e-4*l.Loss || c.same && got.Losses[i] != file.Losses[i] {
				t.Errorf("%v: step %d: loss %v, in this process %v, by the file %v", c.args, l.Step, got.Losses[i].Loss, l.Loss, file.Losses[i].Loss)
			}
		}
	}
}

func TestStagesMistakes(t *testing.T) {
	runtimeDir(t)
	for want, args := range map[string][]string{
		"--stages 0: expected":                      {"--stages", "0"},
		"expected 1 to 3: qwen3-tiny has":           {"--stages", "4"},
		"fashion-cnn has no parts":                  {"--stages", "2", "--model", "fashion-cnn"},
		"--workers 3: expected a multiple of":       {"--stages", "2", "--workers", "3"},
		"say --workers 4 or more":                   {"--stages", "2", "--zero1"},
		"--stages and --config, --mesh":             {"--stages", "2", "--mesh", "2"},
		"--config and --micro-batches exclude":      {"--micro-batches", "2", "--config", "x.yaml"},
		"--micro-batches 3: expected a divisor of":  {"--stages", "2", "--micro-batches", "3", "--data", textFile(t)},
		"--micro-batches 5: expected a divisor of ": {"--micro-batches", "5", "--in-process", "--data", textFile(t)},
	} {
		_, _, err := execute(t, append([]string{"train"}, args...)...)
		var use *usageError
		if !errors.As(err, &use) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, expected %s", args, err, want)
		}
	}
}
