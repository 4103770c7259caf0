package train

import (
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"testing"
)

// TestAccumulateMovesOnce wants a step of several batches to send as much as a step of
// one: gradients are added up as each worker's own terms, and one all-reduce of them all
// comes before the optimizer.
func TestAccumulateMovesOnce(t *testing.T) { devicetest.Each(t, testAccumulateMovesOnce) }

func testAccumulateMovesOnce(t *devicetest.T) {
	const steps, batches = 8, 4
	s, e, o := placed(t, parse(t, "workers: 2\nbatch: {shard: {axis: 0}}"), Options{Steps: steps, Batch: 2, Accumulate: batches, LossEvery: 100, Seed: 7, Sample: -1})
	first, last := countsAround(t, s, e, &o)
	if _, err := find(t, "qwen3-tiny").Train(t.Context(), s, someText(), &o); err != nil {
		t.Fatal(err)
	}
	programs, bytes := (last.Known-first.Known)/(steps-1), float64(last.Moved-first.Moved)/(steps-1)
	t.Logf("%d programs a step, %v bytes; the parameters have %d", programs, bytes, tinyParams*4)
	// Beside the gradients only numbers: the targets in a batch, and the losses.
	if want := float64(tinyParams * 4); programs != batches || bytes < want || bytes > want+batches*16 {
		t.Errorf("%d programs a step that send %v bytes, expected %d and %v", programs, bytes, batches, want)
	}
}
