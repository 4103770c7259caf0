package train

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// BatchSignal is the signal (tensor.Session.Signal) under which a step's examples are
// uploaded.
const BatchSignal = "batch"

// Options configure a training run. A zero field takes the model's own value
// (Model.Defaults), and is 0 where that has none.
type Options struct {
	Steps int // optimizer steps
	Batch int // examples in a batch: images, or pieces of text

	// Accumulate is the number of batches of a step: their gradients are added up before
	// the optimizer's step, and only one batch is in memory at a time. A step then has
	// Accumulate*Batch examples. 0 is 1.
	Accumulate int

	// MicroBatches is the number of pieces of a batch, whose gradients are added up in
	// one program. 0 is 1. With StageOf, the model's parts (nn.Parted) are stages that
	// work on several of them at a time: forward and backward of each are recorded in the
	// order of the schedule 1F1B, under the signals PartSignal. StageOf returns the stage
	// of such a signal; a part that it doesn't know is on the stage of the part before.
	// On workers that have a stage each, steps equal those of one worker that takes the
	// same micro-batches, to the bit or to the last bits (package compile).
	MicroBatches int
	StageOf      func(signal string) (stage int, ok bool)

	// Exact is the number of parts of a batch, as the session's config has it
	// (config.Config.Exact): the run has the same bits on any number of workers. Batch is
	// a multiple of it. 0 is none.
	Exact int

	// Recompute keeps only the input of each layer, and computes the rest again for the
	// backward pass: less memory for more time, and on one worker the same bits. A run
	// with Exact keeps it when it is resumed. Language models support it (nn.Recomputer).
	Recompute bool

	LR     float64 // peak learning rate of AdamW
	LRLast float64 // where the cosine ends
	Warmup int     // steps of linear warm-up, at most half of all
	Decay  float64 // weight decay
	Clip   float64 // largest norm of the gradients; 0 does not clip

	// Seed is the seed of the weights and of the order of the examples. 0 is a valid
	// seed.
	Seed uint64

	// LossEvery is the number of steps between reads of the loss, which wait for the
	// step. The last step's loss is always read. 1 reads every loss. Weights do not
	// depend on it. If the model has no value either, it is 1.
	LossEvery int

	// Load is where the initial weights are: a safetensors file, a folder with a
	// model.safetensors, or else a checkpoint's folder, of which the weights are taken
	// only; the optimizer begins anew. Save is the safetensors file for the final
	// weights, whose folder is made if it is not there. If it is named model.safetensors,
	// the config.json of a language model is written beside it, so that other libraries
	// load the folder. The file says where the data is (DataOf); an Export does not.
	Load, Save string

	// Checkpoint is a folder to which the run is saved so that it can be resumed: after
	// every Every steps (0: none of them), when it is stopped, and at its end. See
	// package checkpoint.
	Checkpoint string
	Every      int

	// Resume is a folder with the checkpoint of a run to continue. Model, data and Exact
	// must be those of that run. Of Seed, Batch, Accumulate, Steps, LR, LRLast, Warmup,
	// Decay, Clip, Every and LossEvery, zero values become those of the run, and the
	// first three can't differ. The steps that follow are those of the run without a
	// stop, bit by bit. Checkpoints go to the same folder unless Checkpoint is set.
	Resume string

	// Outer, if set, has this run be one of several peers that train the model apart and
	// exchange weights after every Inner steps and after the last one. Package
	// gather/outer implements it. There are no checkpoints: a peer that begins anew goes
	// on with the round that the others are at.
	Outer Outer
	Inner int

	// Sample is the number of bytes that a language model writes after training; negative
	// is none.
	Sample int

	// Samples, if set, has a language model write such samples on the way, too.
	Samples *Samples

	// Prompt is the text that a sample continues; if it is empty, a piece of the held-out
	// text.
	Prompt string

	// NameParams gives every parameter the signal of its name (tensor.Tensor.Signal), and
	// the values between layers theirs where the model can (nn.Signaler), so that a
	// config can place them.
	NameParams bool

	// Progress is called after a step whose loss was read, in the training goroutine.
	Progress func(Progress)

	// Saved, if set, is called after a checkpoint was saved that is not the last one. Its
	// error ends the run, which can be resumed.
	Saved func(*Summary) error

	// Started is called after the first step was sent, and Trained with the number of
	// steps taken, before the evaluation. Between the two, an engine's counters count the
	// steps alone.
	Started func()
	Trained func(steps int)

	// inFlight bounds the time of the work that is sent ahead: an interrupt waits for it.
	inFlight time.Duration
}

const defaultInFlight = 250 * time.Millisecond

// Samples are samples on the way. The training goes on as if there were none.
type Samples struct {
	Every int // steps
	// Wrote is called with each, in the training goroutine.
	Wrote func(step int, text string)
}

// Progress is the progress of a run.
type Progress struct {
	Step, Steps int
	Loss        float64
	LR          float64 // of this step
	Rate        float64 // Unit a second since the last report
	Unit        string  // "images", "tokens" or "rows"
	Left        time.Duration
}

// Point is one loss that was read.
type Point struct {
	Step int     `json:"step"` // counted from 1
	Loss float64 `json:"loss"`
}

// Summary is the outcome of a run, also of one that was stopped.
type Summary struct {
	Model      string `json:"model"`
	Engine     string `json:"engine"`
	Data       string `json:"data"`
	Parameters int    `json:"parameters"`
	Seed       uint64 `json:"seed"`
	Batch      int    `json:"batch"`
	Accumulate int    `json:"accumulate"` // batches in a step
	Micro      int    `json:"micro_batches,omitempty"`
	Stages     int    `json:"stages,omitempty"`
	Recompute  bool   `json:"recompute,omitempty"`
	Exact      int    `json:"exact,omitempty"` // parts of a batch
	// ExactWeights is the SHA-256 of the last weights of a run with Exact.
	ExactWeights string `json:"exact_weights_sha256,omitempty"`

	Steps   int `json:"steps"` // steps done, those before Resumed included
	Resumed int `json:"resumed_at,omitempty"`
	Planned int `json:"planned_steps"`
	// Restarts is how many times a caller went on from a checkpoint by itself. Losses
	// then have those of the steps before, and Seconds and rates are of the last time.
	Restarts int  `json:"restarts,omitempty"`
	Stopped  bool `json:"stopped"` // the context ended the run before all steps were done

	Seconds float64 `json:"seconds"` // training alone
	Rate    float64 `json:"steps_per_second"`
	Items   float64 `json:"items_per_second"`
	Unit    string  `json:"items"` // "images", "tokens" or "rows"

	Loss   float64 `json:"loss"` // the last one
	Losses []Point `json:"losses"`
	// mean over the held-out data, in nats; of numbers the mean squared error, in the
	// table's own unit squared
	HeldOut float64 `json:"held_out_loss,omitempty"`

	// the folder, if a checkpoint was saved to it
	Checkpoint string `json:"checkpoint,omitempty"`

	Accuracy    *float64 `json:"accuracy,omitempty"`      // of a classifier, 0 to 1
	BitsPerByte *float64 `json:"bits_per_byte,omitempty"` // of a language model
	// of numbers, 1 - HeldOut / their variance: 1 is all, 0 no better than their mean
	Explained   *float64 `json:"variance_explained,omitempty"`
	EvalSeconds float64  `json:"evaluation_seconds,omitempty"`
	Sample      string   `json:"sample,omitempty"`
}

// filled returns o with the values of d for zero fields.
func (o *Options) filled(d Options) Options {
	o = cmp.Or(o, &Options{})
	f := *o
	f.Steps, f.Batch, f.Warmup = cmp.Or(f.Steps, d.Steps), cmp.Or(f.Batch, d.Batch), cmp.Or(f.Warmup, d.Warmup)
	f.LR, f.LRLast, f.Decay, f.Clip = cmp.Or(f.LR, d.LR), cmp.Or(f.LRLast, d.LRLast), cmp.Or(f.Decay, d.Decay), cmp.Or(f.Clip, d.Clip)
	f.Accumulate = cmp.Or(f.Accumulate, d.Accumulate, 1)
	f.MicroBatches = cmp.Or(f.MicroBatches, d.MicroBatches, 1)
	f.inFlight = cmp.Or(f.inFlight, defaultInFlight)
	f.LossEvery, f.Sample = cmp.Or(f.LossEvery, d.LossEvery, 1), cmp.Or(f.Sample, d.Sample)
	// a short run would never end its warm-up; in a shorter one the rate would jump, and
	// roundings would show
	f.Warmup = min(f.Warmup, f.Steps/2)
	return f
}

func (o *Options) check() error {
	for _, c := range []struct {
		name string
		ok   bool
		got  any
		want string
	}{
		{"steps", o.Steps > 0, o.Steps, "at least 1"},
		{"batch", o.Batch > 0 && o.Batch <= maxBatch, o.Batch, fmt.Sprintf("1 to %d", maxBatch)},
		{"accumulate", o.Accumulate > 0 && o.Accumulate <= maxBatch, o.Accumulate, fmt.Sprintf("1 to %d", maxBatch)},
		{"micro-batches", o.MicroBatches > 0 && o.Batch%max(o.MicroBatches, 1) == 0, o.MicroBatches, fmt.Sprintf("a divisor of the batch, %d", o.Batch)},
		{"exact", o.Exact >= 0 && (o.Exact == 0 || o.Batch%o.Exact == 0), o.Exact, fmt.Sprintf("a divisor of the batch, %d, such as with --batch %d", o.Batch, nextMultiple(o.Batch, o.Exact))},
		{"micro-batches", o.Exact == 0 || o.MicroBatches == 1 && o.StageOf == nil, o.MicroBatches, "1 with parts (exact); accumulate takes several batches"},
		{"accumulate", o.Accumulate == 1 || o.MicroBatches == 1 && o.StageOf == nil, o.Accumulate, "1 with micro-batches, which accumulate"},
		{"lr", o.LR > 0 && !math.IsInf(o.LR, 0), o.LR, "above 0"},
		{"loss-every", o.LossEvery > 0, o.LossEvery, "at least 1"},
		{"every", o.Every >= 0, o.Every, "at least 1"},
		{"sample-every", o.Samples == nil || o.Samples.Every > 0 && o.Samples.Wrote != nil, o.Samples, "at least 1, and a function"},
		{"inner", o.Outer == nil || o.Inner > 0, o.Inner, "at least 1"},
		{"checkpoint", o.Outer == nil || o.Checkpoint == "", o.Checkpoint, "none with peers that train apart, which go on from the store"},
		{"seed", o.Seed < 1<<53, o.Seed, "below 2^53"},
		{"sample", o.Sample <= maxSample, o.Sample, fmt.Sprintf("at most %d", maxSample)},
	} {
		if !c.ok {
			return &OptionError{c.name, c.got, c.want}
		}
	}
	return nil
}

// nextMultiple returns the smallest multiple of k from n on, or n for k below 1.
func nextMultiple(n, k int) int {
	if k < 1 {
		return n
	}
	return (n + k - 1) / k * k
}

const (
	// maxBatch bounds what one step asks of memory: 64 Ki images of 28x28 are 200 MB.
	maxBatch = 1 << 16
	// maxSample bounds a sample to a few minutes of writing.
	maxSample = 1 << 20
)
