package train

import (
	"fmt"
	"math"
	"time"
)

// BatchSignal is the signal (tensor.Session.Signal) under which a step's examples are uploaded.
const BatchSignal = "batch"

// Options say how a model is trained. A zero field takes the model's own value (Model.Defaults), and is 0 where that has
// none.
type Options struct {
	Steps int // optimizer steps
	Batch int // examples in a batch: images, or pieces of text

	// Accumulate is how many batches a step is made of: their gradients are added up before the optimizer's step, and no
	// more than one batch is in memory at a time. A step then has Accumulate*Batch examples. 0 is 1.
	Accumulate int

	// MicroBatches is how many a batch is cut into, whose gradients are added up in one program. 0 is 1. With StageOf, the model's parts
	// (nn.Parted) are stages that work on several of them at a time: forward and backward of each are recorded in the order of the
	// schedule 1F1B, under the signals PartSignal. StageOf says on which stage such a signal is; parts of which it says nothing are
	// with the one before. On workers that have a stage each, steps are those of one worker that takes the same micro-batches, to the bit or
	// to the last bits (package compile).
	MicroBatches int
	StageOf      func(signal string) (stage int, ok bool)

	// Recompute keeps of each layer only what goes in, and computes the rest again for the backward pass: less memory for
	// more time, and the same bits. Language models can (nn.Recomputer).
	Recompute bool

	LR     float64 // peak learning rate of AdamW
	LRLast float64 // where the cosine ends
	Warmup int     // steps of linear warm-up, at most half of all
	Decay  float64 // weight decay
	Clip   float64 // largest norm of the gradients; 0 does not clip

	// Seed of the weights and of the order of the examples. 0 is a seed like any other.
	Seed uint64

	// LossEvery is how often the loss is read, which waits for the step; the last step's always is. 1 reads every loss.
	// Weights do not depend on it.
	LossEvery int

	// Load and Save are safetensors files: weights to begin with, and where the final ones go. Load takes the weights
	// only; the optimizer begins anew.
	Load, Save string

	// Checkpoint is a folder where the run is saved so that it can be resumed: after every Every steps (0: none of them),
	// when it is stopped, and at its end. See package checkpoint.
	Checkpoint string
	Every      int

	// Resume is a folder with the checkpoint of a run to go on from: model and data must be its own; those of Seed, Batch,
	// Accumulate, Steps, LR, LRLast, Warmup, Decay, Clip, Every and LossEvery that are zero are its own, and the first three
	// can't be others. The steps that follow are those of the run that was not stopped, bit
	// by bit. Checkpoints go to the same folder unless Checkpoint says another.
	Resume string

	// Sample is how many bytes a language model writes after training; negative is none.
	Sample int

	// Prompt is what a sample goes on from; a piece of the held-out text if it is empty.
	Prompt string

	// NameParams gives every parameter the signal of its name (tensor.Tensor.Signal), and what layers hand on where the model can (nn.Signaler),
	// for a config to place it.
	NameParams bool

	// Progress is called after a step whose loss was read, in the training goroutine.
	Progress func(Progress)

	// Started is called when the first step was handed over, Trained with the number of steps taken, before the
	// evaluation: whoever reads an engine's counters there has those of the steps in between.
	Started func()
	Trained func(steps int)

	// inFlight is how much work may be on its way: an interrupt waits for it.
	inFlight time.Duration
}

const defaultInFlight = 250 * time.Millisecond

// Progress is how far a run is.
type Progress struct {
	Step, Steps int
	Loss        float64
	Rate        float64 // Unit a second since the last report
	Unit        string  // "images" or "tokens"
	Left        time.Duration
}

// Point is a loss that was read.
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

	Steps   int  `json:"steps"` // done, those before Resumed included
	Resumed int  `json:"resumed_at,omitempty"`
	Planned int  `json:"planned_steps"`
	Stopped bool `json:"stopped"` // by its context, before all steps were done

	Seconds float64 `json:"seconds"` // training alone
	Rate    float64 `json:"steps_per_second"`
	Items   float64 `json:"items_per_second"`
	Unit    string  `json:"items"` // "images" or "tokens"

	Loss    float64 `json:"loss"` // the last one
	Losses  []Point `json:"losses"`
	HeldOut float64 `json:"held_out_loss,omitempty"` // mean over what was held out, in nats

	Checkpoint string `json:"checkpoint,omitempty"` // the folder, once it was saved to

	Accuracy    *float64 `json:"accuracy,omitempty"`      // of a classifier, 0 to 1
	BitsPerByte *float64 `json:"bits_per_byte,omitempty"` // of a language model
	EvalSeconds float64  `json:"evaluation_seconds,omitempty"`
	Sample      string   `json:"sample,omitempty"`
}

// or gives x, or def for a zero x.
func or[T comparable](x, def T) T {
	var zero T
	if x == zero {
		return def
	}
	return x
}

// filled is o with d where o has nothing.
func (o *Options) filled(d Options) Options {
	if o == nil {
		o = &Options{}
	}
	f := *o
	f.Steps, f.Batch, f.Warmup = or(f.Steps, d.Steps), or(f.Batch, d.Batch), or(f.Warmup, d.Warmup)
	f.LR, f.LRLast, f.Decay, f.Clip = or(f.LR, d.LR), or(f.LRLast, d.LRLast), or(f.Decay, d.Decay), or(f.Clip, d.Clip)
	f.Accumulate = or(or(f.Accumulate, d.Accumulate), 1)
	f.MicroBatches = or(or(f.MicroBatches, d.MicroBatches), 1)
	f.inFlight = or(f.inFlight, defaultInFlight)
	f.LossEvery, f.Sample = or(f.LossEvery, d.LossEvery), or(f.Sample, d.Sample)
	f.Warmup = min(f.Warmup, f.Steps/2) // a short run would otherwise never leave it; in a shorter one it would jump, and any rounding show
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
		{"accumulate", o.Accumulate == 1 || o.MicroBatches == 1 && o.StageOf == nil, o.Accumulate, "1 with micro-batches, which accumulate"},
		{"lr", o.LR > 0 && !math.IsInf(o.LR, 0), o.LR, "above 0"},
		{"loss-every", o.LossEvery > 0, o.LossEvery, "at least 1"},
		{"every", o.Every >= 0, o.Every, "at least 1"},
		{"seed", o.Seed < 1<<53, o.Seed, "below 2^53"},
		{"sample", o.Sample <= maxSample, o.Sample, fmt.Sprintf("at most %d", maxSample)},
	} {
		if !c.ok {
			return &OptionError{c.name, c.got, c.want}
		}
	}
	return nil
}

const (
	// maxBatch bounds what one step asks of memory: 64 Ki images of 28x28 are 200 MB.
	maxBatch = 1 << 16
	// maxSample is a few minutes of writing.
	maxSample = 1 << 20
)
