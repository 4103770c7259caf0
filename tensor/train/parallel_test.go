package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/nn/model"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// The shape of qwen3-tiny, in bytes.
const (
	tinyBatch  = 8
	activation = tinyBatch * 64 * 64 * 4 // between two layers, of the whole batch
	embedding  = 256 * 64 * 4
	attention  = 2 * (64 + 32) * 64 * 4 // the four projections of a layer
	mlp        = 3 * 64 * 192 * 4       // the three products of a layer
	headNorms  = 2 * 16 * 4             // of a layer's queries and keys
	blocks     = 2
	norms      = blocks*headNorms + (2*blocks+1)*64*4
)

// parallel are ways to train qwen3-tiny on several workers, with the collectives and
// bytes that a worker sends in a step by the formulas of docs/sharding.md, without those
// of the loss.
var parallel = []struct {
	name, config string
	calls, bytes int
}{
	// 2(p-1)/p of the parameters.
	{"data 2", "workers: 2\nbatch: {shard: {axis: 0}}", -1, 2 * tinyParams * 4 / 2},
	{"data 4", "workers: 4\nbatch: {shard: {axis: 0}}", -1, 2 * tinyParams * 4 * 3 / 4},
	// (p-1)/p of them for the gradients, and as much for the parameters.
	{"zero1 2", "workers: 2\nzero1: true\nbatch: {shard: {axis: 0}}", -1, 2 * tinyParams * 4 / 2},
	// In each layer two all-reduces of an activation forward and two backward, and one of
	// each of the heads' norms.
	{"tensor 2", "mesh: {data: 1, model: 2}\n" + tensorParallel, blocks * (4 + 2), blocks * (4*activation + headNorms)},
	// Of the feed-forward layers alone: one forward and one backward, of half the batch
	// along model; along data the parameters of a worker, half of these matrices.
	// Attention's are so small that moving them would be cheaper, which the plan would
	// choose.
	{"data 2 x tensor 2", "mesh: {data: 2, model: 2}\nbatch: {shard: {axis: 0, along: data}}\n" + feedForward, -1,
		blocks*2*activation/2 + tinyParams*4 - blocks*mlp/2},
	{"data 2 x tensor 2, zero1", "mesh: {data: 2, model: 2}\nzero1: true\nbatch: {shard: {axis: 0, along: data}}\n" + feedForward, -1,
		blocks*2*activation/2 + tinyParams*4 - blocks*mlp/2},
	// In each layer two all-gathers of an activation forward and two backward, and as
	// many reduce-scatters; an all-gather behind the last layer and one of the first
	// one's gradient; an all-reduce of each norm.
	{"sequence 2", sequence(2), -1, (blocks*8+2)*activation/2 + norms},
	{"sequence 4", sequence(4), -1, (blocks*8+2)*activation*3/4 + norms*3/2},
	// An activation for every micro-batch and, since the embedding is also the output
	// layer, its weights one way and their gradient the other.
	{"pipeline 2", "micro_batches: 4\n" + pipeline2, 4 + 1, activation + embedding},
}

// tinyParams is the number of parameters.
var tinyParams = countTiny()

func countTiny() int {
	c := model.Qwen3Tiny()
	layer := 2*c.Hidden + 2*c.HeadDim + (attention+mlp)/4
	return c.Vocab*c.Hidden + c.Layers*layer + c.Hidden
}

const feedForward = `"*.gate_proj.weight": {shard: &columns {axis: 0, along: model}}
"*.up_proj.weight": {shard: *columns}
"*.down_proj.weight": {shard: {axis: 1, along: model}}
`

const tensorParallel = `"*.q_proj.weight": {shard: &columns {axis: 0, along: model}}
"*.k_proj.weight": {shard: *columns}
"*.v_proj.weight": {shard: *columns}
"*.gate_proj.weight": {shard: *columns}
"*.up_proj.weight": {shard: *columns}
"*.o_proj.weight": {shard: &rows {axis: 1, along: model}}
"*.down_proj.weight": {shard: *rows}
`

const pipeline2 = `"model.embed_tokens.*": {workers: &first [0]}
"model.layers.0.*": {workers: *first}
"model.layers.1.*": {workers: &last [1]}
"model.norm.*": {workers: *last}
"lm_head.*": {workers: *last}
`

// sequence returns docs/sequence.yaml for p workers. With more than two, some have half a
// head of keys and values, which are therefore whole.
func sequence(p int) string {
	b, err := os.ReadFile("../../docs/sequence.yaml")
	if err != nil {
		return err.Error() // the test then reports that it is no config
	}
	text := strings.Replace(string(b), "model: 2", fmt.Sprintf("model: %d", p), 1)
	if p > 2 {
		text = strings.NewReplacer(`"*.k_proj.weight": {shard: *columns}`+"\n", "", `"*.v_proj.weight": {shard: *columns}`+"\n", "").Replace(text)
	}
	return text
}

func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("config", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// countsAround has o read e's counters before the first step and after the last, once all
// have run.
func countsAround(t testing.TB, s *tensor.Session, e *client.Engine, o *Options) (first, last *client.Stats) {
	first, last = new(client.Stats), new(client.Stats)
	count := func(into *client.Stats) {
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		*into = e.Stats()
	}
	o.Started = func() { count(first) }
	o.Trained = func(int) { count(last) }
	return first, last
}

// placed returns a session on a cluster for c, and the options of the config.
func placed(t *devicetest.T, c *config.Config, o Options) (*tensor.Session, *client.Engine, Options) {
	t.Helper()
	s, e := throughWorkers(t, c.Workers(), &client.Options{Config: c})
	o.NameParams, o.MicroBatches = true, c.MicroBatches
	if len(c.Stages()) > 1 {
		o.StageOf = c.StageFor
	}
	return s, e, o
}

// TestParallel wants a run to be that of one worker, except for roundings, however it is
// cut, and a worker to send as much as the formulas give.
func TestParallel(t *testing.T) { devicetest.Each(t, testParallel) }

func testParallel(t *devicetest.T) {
	o := Options{Steps: 8, Batch: tinyBatch, LossEvery: 100, Seed: 7, Sample: -1}
	one, err := find(t, "qwen3-tiny").Train(t.Context(), inProcess(t), someText(), &o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range parallel {
		t.Run(c.name, func(t *devicetest.T) {
			s, e, o := placed(t, parse(t, c.config), o)
			first, last := countsAround(t, s, e, &o)
			got, err := find(t, "qwen3-tiny").Train(t.Context(), s, someText(), &o)
			if err != nil {
				t.Fatal(err)
			}
			if d := math.Abs(got.Loss-one.Loss) / one.Loss; d > 1e-4 || math.Abs(got.HeldOut-one.HeldOut) > 1e-4*one.HeldOut {
				t.Errorf("loss %v, held out %v; expected %v and %v", got.Loss, got.HeldOut, one.Loss, one.HeldOut)
			}
			steps := float64(o.Steps - 1)
			calls, bytes := float64(last.Calls-first.Calls)/steps, float64(last.Moved-first.Moved)/steps
			t.Logf("%v collectives a step, %v bytes; by the formula %d bytes", calls, bytes, c.bytes)
			// The loss is a number, whose terms are added up where it is read.
			if bytes < float64(c.bytes) || bytes > float64(c.bytes+16) || c.calls >= 0 && (calls < float64(c.calls) || calls > float64(c.calls+1)) {
				t.Errorf("%v collectives a step of %v bytes, expected %d of %d", calls, bytes, c.calls, c.bytes)
			}
			if last.Plans != first.Plans+1 && last.Plans != first.Plans {
				t.Errorf("%d plans, %d after the first step", last.Plans, first.Plans)
			}
		})
	}
}

// TestPipelineLosses wants stages to give the losses of one worker that takes the same
// micro-batches: to the bit, or to the last bits where the compiler, which sees the whole
// step on one worker, makes other steps of it.
func TestPipelineLosses(t *testing.T) { devicetest.Each(t, testPipelineLosses) }

func testPipelineLosses(t *devicetest.T) {
	for name, c := range map[string]struct {
		model, config string
		bound         float64
	}{
		"text, 2 stages":   {"qwen3-tiny", "micro_batches: 2\n" + pipeline2, 1e-6},
		"images, 2 stages": {"fashion-mlp", "micro_batches: 4\nfc1.*: {workers: [1]}\nfc2.*: {workers: [0]}\n", 0},
		"the parts that no signal has are with those before": {"qwen3-tiny",
			"micro_batches: 2\nmodel.layers.0.*: {workers: [0]}\nmodel.layers.1.*: {workers: [1]}\n", 1e-6},
	} {
		t.Run(name, func(t *devicetest.T) {
			x := same[c.model]
			o := x.o
			o.Steps, o.Clip, o.Sample = 12, 1, -1
			s, _, o := placed(t, parse(t, c.config), o)
			got, err := find(t, c.model).Train(t.Context(), s, x.data(), &o)
			if err != nil {
				t.Fatal(err)
			}
			want, err := find(t, c.model).Train(t.Context(), inProcess(t), x.data(), &o)
			if err != nil {
				t.Fatal(err)
			}
			if got.Stages != 2 {
				t.Errorf("%d stages, expected 2", got.Stages)
			}
			for i, p := range want.Losses {
				if d := math.Abs(got.Losses[i].Loss - p.Loss); d > c.bound*p.Loss {
					t.Errorf("step %d: loss %v, on one worker %v", p.Step, got.Losses[i].Loss, p.Loss)
				}
			}
			o.MicroBatches, o.StageOf = 0, nil
			whole, err := find(t, c.model).Train(t.Context(), inProcess(t), x.data(), &o)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range whole.Losses {
				if d := math.Abs(got.Losses[i].Loss - p.Loss); d > 1e-4*p.Loss {
					t.Errorf("step %d: loss %v, in whole batches %v", p.Step, got.Losses[i].Loss, p.Loss)
				}
			}
		})
	}
}

// TestPipelineResumes wants the steps after a checkpoint of a pipeline to be those of a
// run without a stop.
func TestPipelineResumes(t *testing.T) { devicetest.Each(t, testPipelineResumes) }

func testPipelineResumes(t *devicetest.T) {
	c := parse(t, "micro_batches: 2\n"+pipeline2)
	o := Options{Steps: 8, Batch: 4, LossEvery: 1, Seed: 3, Sample: -1}
	o.Checkpoint = filepath.Join(t.TempDir(), "run")
	run := func(ctx context.Context, change *Options) *Summary {
		t.Helper()
		s, _, o := placed(t, c, *change)
		sum, err := find(t, "qwen3-tiny").Train(ctx, s, someText(), &o)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	whole := o
	whole.Checkpoint = ""
	want := run(t.Context(), &whole)
	ctx, first := stopAt(t, o, 5)
	sum := run(ctx, first)
	losses := sum.Losses
	if !sum.Stopped || sum.Steps != 5 {
		t.Fatalf("stopped %v at %d", sum.Stopped, sum.Steps)
	}
	sum = run(t.Context(), &Options{Resume: o.Checkpoint, Sample: -1})
	if losses = append(losses, sum.Losses...); sum.Resumed != 5 || !slices.Equal(losses, want.Losses) {
		t.Errorf("resumed at %d, losses\n%v\nof the run that was not stopped\n%v", sum.Resumed, losses, want.Losses)
	}
}

func TestPipelineBadOptions(t *testing.T) { devicetest.Each(t, testPipelineBadOptions) }

func testPipelineBadOptions(t *devicetest.T) {
	on := func(stages map[string]int) func(string) (int, bool) {
		return func(signal string) (int, bool) {
			k, ok := stages[strings.TrimSuffix(signal, ".forward")]
			return k, ok
		}
	}
	for want, c := range map[string]struct {
		model string
		o     Options
	}{
		"micro-batches is 3, expected a divisor of the batch, 8":     {"qwen3-tiny", Options{Batch: 8, MicroBatches: 3}},
		"accumulate is 2, expected 1 with micro-batches":             {"qwen3-tiny", Options{Batch: 8, MicroBatches: 2, Accumulate: 2}},
		"fashion-cnn has no parts":                                   {"fashion-cnn", Options{Batch: 8, StageOf: on(nil)}},
		"lm_head is on the stage of model.embed_tokens, and parts b": {"qwen3-tiny", Options{Batch: 8, StageOf: on(map[string]int{"model.embed_tokens": 0, "model.layers.0": 1, "lm_head": 0})}},
	} {
		d := someText()
		if c.model == "fashion-cnn" {
			d = someImages()
		}
		if _, err := find(t, c.model).Train(t.Context(), inProcess(t), d, &c.o); !errors.Is(err, ErrOption) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// TestCurve wants 200 steps by default to have one worker's losses within 1e-4 on 2
// workers and on 4: training is so stable that roundings do not show.
func TestCurve(t *testing.T) { devicetest.Each(t, testCurve) }

func testCurve(t *devicetest.T) {
	if testing.Short() {
		t.Skip("hundreds of steps on seven workers")
	}
	steps := 200
	if testsize.Raced {
		steps = 10
	}
	d, err := LoadText("")
	if err != nil {
		t.Fatal(err)
	}
	train := func(workers int) []Point {
		s, _, o := placed(t, config.DataParallel(workers), Options{Steps: steps, LossEvery: 1, Sample: -1})
		sum, err := find(t, "qwen3-tiny").Train(t.Context(), s, d, &o)
		if err != nil {
			t.Fatal(err)
		}
		return sum.Losses
	}
	want := train(1)
	for _, workers := range []int{2, 4} {
		worst := 0.0
		for i, p := range train(workers) {
			worst = max(worst, math.Abs(p.Loss-want[i].Loss)/want[i].Loss)
		}
		if t.Logf("%d workers: %.1e", workers, worst); worst > 1e-4 {
			t.Errorf("losses of %d workers are off by %.1e of one's, expected 1e-4", workers, worst)
		}
	}
}
