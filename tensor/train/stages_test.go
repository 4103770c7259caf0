package train

import (
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// TestStageConfig wants the example of the documentation to be the config that
// StageConfig returns for the model.
func TestStageConfig(t *testing.T) {
	text, err := os.ReadFile("../../docs/pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Parse("pipeline.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := find(t, "qwen3-tiny").StageConfig(2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Check(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Stages(), want.Stages()) {
		t.Errorf("stages %v, expected %v", got.Stages(), want.Stages())
	}
	for _, part := range []string{"model.embed_tokens", "model.layers.0", "model.layers.1", "model.norm", "lm_head"} {
		k, ok := got.StageFor(PartSignal(part))
		l, _ := want.StageFor(PartSignal(part))
		if !ok || k != l {
			t.Errorf("%s is on stage %d, expected %d", part, k, l)
		}
	}
	four, err := find(t, "qwen3-small").StageConfig(4, 2)
	if err != nil {
		t.Fatal(err)
	}
	if s := four.Stages(); len(s) != 4 || !slices.Equal(s[3].Workers, []int{6, 7}) || four.Workers() != 8 {
		t.Errorf("stages %v", s)
	}
	for want, c := range map[string]struct {
		model        string
		stages, each int
	}{
		"stages is 4, expected 1 to 3: qwen3-tiny has so many parts with work": {"qwen3-tiny", 4, 1},
		"fashion-cnn has no parts that could be on several stages":             {"fashion-cnn", 2, 1},
		"stages is 0, expected at least 1, of 1 workers each":                  {"qwen3-tiny", 0, 1},
		"stages is 2, expected at least 1, of 1000 workers each at most 1024":  {"qwen3-tiny", 2, 1000},
	} {
		if _, err := find(t, c.model).StageConfig(c.stages, c.each); !errors.Is(err, ErrOption) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

func TestEvenly(t *testing.T) {
	for _, c := range []struct {
		work, ends []int
	}{
		{[]int{5}, []int{1}},
		{[]int{5, 5}, []int{1, 2}},
		{[]int{0, 48, 48, 0, 16}, []int{2, 5}},
		{[]int{0, 48, 48, 0, 16}, []int{2, 3, 5}},
		{[]int{9, 1, 1, 1}, []int{1, 4}},
		{[]int{1, 1, 1, 9}, []int{3, 4}},
		{[]int{3, 3, 3, 3, 3, 3}, []int{2, 4, 6}},
		{[]int{0, 0, 7, 7, 0}, []int{3, 5}},
	} {
		if got := evenly(c.work, len(c.ends)); !slices.Equal(got, c.ends) {
			t.Errorf("%v in %d: %v, expected %v", c.work, len(c.ends), got, c.ends)
		}
	}
}

// TestStagesOfSeveral wants stages of two workers each, which have half of every
// micro-batch, to compute what one worker computes. Stages send activations to each
// other; inside a stage gradients are added up.
func TestStagesOfSeveral(t *testing.T) { devicetest.Each(t, testStagesOfSeveral) }

func testStagesOfSeveral(t *devicetest.T) {
	o := Options{Steps: 4, Batch: tinyBatch, LossEvery: 1, Seed: 7, Sample: -1}
	c, err := find(t, "qwen3-tiny").StageConfig(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	c.MicroBatches = 2
	s, e, placedO := placed(t, c, o)
	got, err := find(t, "qwen3-tiny").Train(t.Context(), s, someText(), &placedO)
	if err != nil {
		t.Fatal(err)
	}
	want, err := find(t, "qwen3-tiny").Train(t.Context(), inProcess(t), someText(), &o)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range want.Losses {
		if d := math.Abs(got.Losses[i].Loss - p.Loss); d > 1e-4*p.Loss {
			t.Errorf("step %d: loss %v, on one worker %v", p.Step, got.Losses[i].Loss, p.Loss)
		}
	}
	// In a step a worker sends half of every micro-batch's activation or gradient, the
	// embedding's weights or their gradient, and half of the gradients of its stage.
	if st := e.Stats(); got.Stages != 2 || got.Micro != 2 || st.Moved < uint64(o.Steps)*(activation/2+embedding) {
		t.Errorf("%d stages, %d micro-batches, %d bytes sent", got.Stages, got.Micro, st.Moved)
	}
}
