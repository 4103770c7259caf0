package command

import (
	"errors"
	"strings"
	"testing"
)

// TestTrainExact wants processes that train in parts to end with the weights of one.
func TestTrainExact(t *testing.T) {
	runtimeDir(t)
	args := []string{"--data", textFile(t), "--steps", "3", "--batch", "6", "--sample=0", "--exact", "6"}
	one := trained(t, append(args, "--workers", "1")...)
	three := trained(t, append(args, "--workers", "3", "--zero1")...)
	if one.Exact != 6 || len(one.ExactWeights) != 64 || three.ExactWeights != one.ExactWeights {
		t.Errorf("%d parts, weights %q on one worker, %q on three", one.Exact, one.ExactWeights, three.ExactWeights)
	}
}

func TestExactMistakes(t *testing.T) {
	runtimeDir(t)
	for want, args := range map[string][]string{
		"--exact 0: expected":                      {"--exact", "0"},
		"say --workers 1, which has the same":      {"--exact", "4", "--in-process"},
		"workers that divide 4":                    {"--exact", "4", "--workers", "3"},
		"which --auto-shard and a --mesh of two":   {"--exact", "4", "--mesh", "2x2"},
		"--exact and --stages exclude":             {"--exact", "4", "--stages", "2"},
		"--accumulate takes several batches":       {"--exact", "4", "--micro-batches", "2"},
		"--auto-shard, --zero1, --exact exclude":   {"--exact", "4", "--config", "x.yaml"},
		"divisor of the batch, 8, such as with --": {"--exact", "3", "--workers", "1", "--data", textFile(t)},
	} {
		_, _, err := execute(t, append([]string{"train"}, args...)...)
		var use *usageError
		if !errors.As(err, &use) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, expected %s", args, err, want)
		}
	}
}
