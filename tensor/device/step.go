package device

import (
	"time"

	"github.com/ringside-go/ringside/tensor"
)

// Step is a step of a program that ran: operations that the device does at once.
type Step struct {
	Ops   []tensor.Op // read only
	Bytes int         // of the operands that it reads and the results that it writes
	DType tensor.DType
	Shape tensor.Shape // of the result, as DType is; of several results of the first
	Began time.Time
	Took  time.Duration
}

// StepTracer is implemented by a Device that can tell of each step that it runs.
type StepTracer interface {
	// TraceSteps has f called after each step of the programs that begin from now on,
	// while the device is locked; f calls no method of the device. nil ends that: once
	// TraceSteps has returned, the f before is not called any more. Steps that are told
	// cost one or two readings of the clock each.
	TraceSteps(f func(Step))
}
