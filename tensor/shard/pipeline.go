package shard

import (
	"cmp"
	"fmt"
	"slices"
)

// Action is one action of a stage of a pipeline.
type Action struct {
	Kind  ActionKind
	Stage int
	Micro int // the micro-batch
	// Slot is the time of the action, if forward and backward take one unit of time each
	// and sending takes none.
	Slot int
}

// ActionKind is the kind of an action.
type ActionKind uint8

// The kinds of actions. A forward sends an activation to the next stage, a backward sends
// a gradient to the previous one.
const (
	Forward ActionKind = iota + 1
	Backward
)

// String returns the name in lower case.
func (k ActionKind) String() string { return [...]string{"none", "forward", "backward"}[k] }

// String returns the kind and the number of the micro-batch.
func (a Action) String() string { return fmt.Sprintf("%v %d", a.Kind, a.Micro) }

// MaxActions bounds stages times micro-batches.
const MaxActions = 1 << 20

// PipelineOrder returns the actions of all stages in the schedule 1F1B of a pipeline, in
// one order, by slots (PipeDream-flush: Narayanan et al. 2021, section 2.2.1). A stage
// runs forwards until the number of micro-batches under way equals the number of stages
// from it to the end. From then on it runs one backward for every forward. RewriteStages
// runs a program by the schedule if it is recorded in this order, because a worker runs
// its part in the program's order.
//
// With S stages and m micro-batches, each of which takes one unit of time forward and one
// backward, stage s runs
//
//	forward of i     in slot s+i if i < S-s, else in slot s+2i
//	backward of i    in slot 2S-1-s+2i
//
// This order is valid: the forward of i is later on each stage than on the previous one,
// the backward of i is later than on the next one, and on the last stage the backward of
// i is one slot after its forward. No stage has two actions in a slot: before slot S
// there are only the first forwards, and from there on forwards have the parity of s and
// backwards the other.
//
//	slots                      2(m+S-1); a stage is idle in 2(S-1) of them: the bubble
//	                           is (S-1)/(m+S-1)
//	activations that a stage   at most min(S-s, m); m if all forwards came first
//	holds at once
//
// There is no deadlock if a send does not wait for its receive. Consider, of the actions
// that have not ended, the one in the lowest slot, with sends at the end of a slot and
// receives at its beginning. The actions that it waits for are in earlier slots, so they
// have ended.
//
// It returns ErrMesh for less than one stage or micro-batch, and for more than MaxActions
// of both together.
func PipelineOrder(stages, micro int) ([]Action, error) {
	if stages < 1 || micro < 1 || micro > MaxActions/stages {
		return nil, fmt.Errorf("%w: %d stages and %d micro-batches, expected 1 or more and at most %d together", ErrMesh, stages, micro, MaxActions)
	}
	out := make([]Action, 0, 2*stages*micro)
	for s := range stages {
		for i := range micro {
			f := s + i
			if i >= stages-s {
				f = s + 2*i
			}
			out = append(out, Action{Forward, s, i, f}, Action{Backward, s, i, 2*stages - 1 - s + 2*i})
		}
	}
	slices.SortFunc(out, func(a, b Action) int { return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Stage, b.Stage)) })
	return out, nil
}
