package train

import (
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

// TestSampleEvery: samples on the way come after their steps, and change no loss and not
// the sample in the end, in one process and on two workers.
func TestSampleEvery(t *testing.T) { devicetest.Each(t, testSampleEvery) }

func testSampleEvery(t *devicetest.T) {
	for name, session := range map[string]func(*devicetest.T, *Options) *tensor.Session{
		"in process": func(t *devicetest.T, _ *Options) *tensor.Session { return inProcess(t) },
		"two workers": func(t *devicetest.T, o *Options) *tensor.Session {
			s, _, placed := placed(t, parse(t, "workers: 2\nbatch: {shard: {axis: 0}}"), *o)
			*o = placed
			return s
		},
	} {
		t.Run(name, func(t *devicetest.T) {
			o := Options{Steps: 3, Batch: 2, LossEvery: 1, Seed: 7, Sample: 3}
			sum, err := find(t, "qwen3-tiny").Train(t.Context(), session(t, &o), someText(), &o)
			if err != nil {
				t.Fatal(err)
			}
			o = Options{Steps: 3, Batch: 2, LossEvery: 1, Seed: 7, Sample: 3}
			var steps []int
			o.Samples = &Samples{Every: 1, Wrote: func(step int, text string) {
				if steps = append(steps, step); len(text) < 3 {
					t.Errorf("after step %d %q", step, text)
				}
			}}
			with, err := find(t, "qwen3-tiny").Train(t.Context(), session(t, &o), someText(), &o)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(steps, []int{1, 2}) {
				t.Errorf("samples after steps %v", steps)
			}
			if !slices.Equal(with.Losses, sum.Losses) || with.Sample != sum.Sample || with.HeldOut != sum.HeldOut {
				t.Errorf("%+v with samples, %+v without", with, sum)
			}
		})
	}
}
