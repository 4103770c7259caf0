package train

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// plans counts programs and the memory of the largest.
type plans struct {
	tensor.Engine
	kinds    map[tensor.Hash]int // programs, by hash
	steps    int                 // of an optimizer
	temp     int
	counting bool
}

func (e *plans) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if p := b.Program; p != nil && e.counting {
		e.kinds[b.Hash]++
		e.temp = max(e.temp, compile.Compile(p.Clone(), nil).Temp)
		if slices.ContainsFunc(p.Instrs, func(in tensor.Instr) bool { return in.Op == tensor.OpAdamW }) {
			e.steps++
		}
	}
	return e.Engine.Submit(ctx, b)
}

// counted trains qwen3-tiny and counts.
func counted(t *devicetest.T, o Options) (*Summary, *plans) {
	t.Helper()
	e := &plans{Engine: device.NewEngine(t.Device()), kinds: map[tensor.Hash]int{}}
	s := tensor.NewSession(e, nil)
	t.Cleanup(func() { s.Close() })
	o.Started, o.Trained = func() { e.counting = true }, func(int) { e.counting = false }
	sum, err := find(t, "qwen3-tiny").Train(t.Context(), s, someText(), &o)
	if err != nil {
		t.Fatal(err)
	}
	return sum, e
}

// TestAccumulate wants four batches of 2 to be a step of 8 examples, except for
// roundings, in three programs, with one optimizer step in every fourth batch.
func TestAccumulate(t *testing.T) { devicetest.Each(t, testAccumulate) }

func testAccumulate(t *devicetest.T) {
	o := Options{Steps: 12, Batch: 8, LossEvery: 1, Seed: 3, Sample: -1}
	one, large := counted(t, o)
	o.Batch, o.Accumulate = 2, 4
	four, small := counted(t, o)
	if len(four.Losses) != 12 || four.Steps != 12 {
		t.Fatalf("%d steps, %d losses", four.Steps, len(four.Losses))
	}
	for i, p := range one.Losses {
		if d := math.Abs(p.Loss - four.Losses[i].Loss); !(d < 1e-3*p.Loss) {
			t.Errorf("step %d: loss %v of one batch, %v of four", p.Step, p.Loss, four.Losses[i].Loss)
		}
	}
	if large.steps != 11 || small.steps != 11 || len(small.kinds) != 3 || len(large.kinds) != 1 {
		t.Errorf("%d and %d optimizer steps in %d and %d kinds of programs, expected 11 in 1 and in 3", large.steps, small.steps, len(large.kinds), len(small.kinds))
	}
	n := 0
	for _, k := range small.kinds {
		n += k
	}
	if n != 44 {
		t.Errorf("%d programs after the first step, expected 44", n)
	}
	if small.temp*2 > large.temp {
		t.Errorf("%d bytes of temporaries for a quarter of a step, %d for a whole one", small.temp, large.temp)
	}
	if one.Losses[0].Loss < one.Loss+0.3 {
		t.Errorf("nothing was learned: %v", one.Losses)
	}
}

// TestRecompute wants recomputing to change no bit and to need less memory.
func TestRecompute(t *testing.T) { devicetest.Each(t, testRecompute) }

func testRecompute(t *devicetest.T) {
	o := Options{Steps: 6, Batch: 16, LossEvery: 1, Sample: -1}
	kept, most := counted(t, o)
	o.Recompute = true
	again, less := counted(t, o)
	if !slices.Equal(kept.Losses, again.Losses) || kept.HeldOut != again.HeldOut {
		t.Errorf("losses %v, and %v when layers are recomputed", kept.Losses, again.Losses)
	}
	if less.temp*4 > most.temp*3 {
		t.Errorf("%d bytes of temporaries, %d when all is kept", less.temp, most.temp)
	}
	o.Batch, o.Accumulate = 4, 4
	both, _ := counted(t, o)
	o.Recompute = false
	if parts, _ := counted(t, o); !slices.Equal(parts.Losses, both.Losses) || parts.HeldOut != both.HeldOut {
		t.Errorf("losses %v of four batches a step, and %v when layers are recomputed besides", parts.Losses, both.Losses)
	}
}
