package shard

import (
	"cmp"
	"fmt"
	"slices"
)

// Action is what a stage of a pipeline does next.
type Action struct {
	Kind  ActionKind
	Stage int
	Micro int // which micro-batch
	Slot  int // when, if forward and backward take one unit of time each and sending takes none
}

// ActionKind says what an action is.
type ActionKind uint8

// The kinds of actions. An activation goes to the next stage and a gradient to the one before.
const (
	Forward ActionKind = iota + 1
	Backward
	SendActivation
	RecvActivation
	SendGradient
	RecvGradient
)

func (k ActionKind) String() string {
	return [...]string{"none", "forward", "backward", "send activation", "receive activation", "send gradient", "receive gradient"}[k]
}

func (a Action) String() string { return fmt.Sprintf("%v %d", a.Kind, a.Micro) }

// MaxActions bounds stages times micro-batches.
const MaxActions = 1 << 20

// OneForwardOneBackward returns the schedule 1F1B (PipeDream-flush: Narayanan et al. 2021, section 2.2.1) of a pipeline: for every
// stage what it does, in order. A stage runs forward until it has as many micro-batches under way as there are stages from it to the
// end, and from then on one backward for every forward.
//
// With S stages and m micro-batches, of which each takes one unit of time forward and one backward, stage s runs
//
//	forward of i     in slot s+i where i < S-s, else in slot s+2i
//	backward of i    in slot 2S-1-s+2i
//
// That is a legal order: forward of i is later on each stage than on the one before, backward of i later than on the next one, and on the
// last stage backward of i is one slot after its forward. No stage has two things in a slot: before slot S there is nothing but
// the first forwards, and from there on forwards have the parity of s and backwards the other.
//
//	slots                      2(m+S-1), of which a stage is idle in 2(S-1): the bubble is (S-1)/(m+S-1)
//	activations that a stage   at most min(S-s, m), against m if all forwards came first
//	holds at once
//
// It never comes to a deadlock if sending waits for nobody: take of the actions that have not ended the one in the lowest slot, with the
// sends of a slot at its end and the receives at its beginning. What it waits for is in a slot before, and has ended.
//
// It returns ErrMesh for less than one stage or micro-batch, and for more than MaxActions of them.
func OneForwardOneBackward(stages, micro int) ([][]Action, error) {
	order, err := PipelineOrder(stages, micro)
	if err != nil {
		return nil, err
	}
	out := make([][]Action, stages)
	for _, a := range order {
		l := &out[a.Stage]
		add := func(k ActionKind) { *l = append(*l, Action{k, a.Stage, a.Micro, a.Slot}) }
		if a.Kind == Forward {
			if a.Stage > 0 {
				add(RecvActivation)
			}
			add(Forward)
			if a.Stage < stages-1 {
				add(SendActivation)
			}
			continue
		}
		if a.Stage < stages-1 {
			add(RecvGradient)
		}
		add(Backward)
		if a.Stage > 0 {
			add(SendGradient)
		}
	}
	return out, nil
}

// PipelineOrder returns the forwards and backwards of OneForwardOneBackward in one order of all stages, by slots. A program whose stages
// are recorded in this order runs by the schedule (RewriteStages): a worker does its own part of a program in the program's order.
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
