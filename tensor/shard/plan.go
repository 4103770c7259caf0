package shard

import (
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/tensor"
)

// Value names a tensor of a plan: the external inputs of the rewritten program come first, then what ranks compute and
// receive. On every rank a value is that rank's part.
type Value int32

// Plan is what the ranks of a mesh do to run one program together.
type Plan struct {
	Mesh    Mesh     // of the only stage; nil if there are several
	Stages  []Stage  // one of all ranks unless RewriteStages made the plan
	Inputs  []Placed // the program's external inputs, whose values are 0, 1, ...
	Outputs []Output // its kept results
	Ranks   []RankPlan
	Stats   Stats

	program *tensor.Program
	notes   []note
	results []Layout // of every instruction, as it was made
	where   []int    // its stage; nil if there is only one
	sends   []sent
}

// Placed is a tensor and how it lies.
type Placed struct {
	DType  tensor.DType
	Shape  tensor.Shape // of the whole
	Layout Layout
	Stage  int // ranks of other stages have nothing of it
}

// Output is a kept result of the program.
type Output struct {
	Instr int // in the program
	Value Value
	Placed
}

// RankPlan is what one rank does: its steps, one after another.
type RankPlan struct{ Steps []Step }

// Kind says what a step is.
type Kind uint8

// The kinds of steps.
const (
	RunProgram Kind = iota + 1
	Start           // of a collective: it reads its inputs from then on
	Wait            // until a collective that was started has ended: its outputs exist from then on
)

// Step is one of three things.
type Step struct {
	Kind       Kind
	Run        *Run        // of RunProgram
	Collective *Collective // of Start and Wait
	Frees      []Value     // nobody needs them after the step. Donated inputs of programs are not listed.
}

// Run is a program to be run on values. It holds what a tensor.Batch needs.
type Run struct {
	Program *tensor.Program
	Inputs  []Value
	Kept    []Kept
	Scalars []Scalar // by number
	Origin  []int    // for every instruction, the one of the rewritten program that it is for; -1 for none
}

// Kept is a result that gets a name.
type Kept struct {
	Instr int
	Value Value
}

// Scalar is a scalar of the rewritten program if From is 0 or more, else a constant.
type Scalar struct {
	From  int
	Const float64
}

// Of returns the scalar's value where those of the rewritten program are given.
func (s Scalar) Of(scalars []float64) float64 {
	if s.From >= 0 {
		return scalars[s.From]
	}
	return s.Const
}

// Collective is one call of a group of ranks, as one of them makes it. What it reads and writes is contiguous and moves as
// blocks of elements: blocks for a group's ranks follow each other in the group's order.
//
//	all-reduce       out = fold of all ranks' in, times Scale; of several tensors at once
//	reduce-scatter   in = |block for 0|block for 1|..., out = fold of all ranks' block for this one, times Scale
//	all-gather       out = |in of 0|in of 1|...
//	all-to-all       in = |block for 0|block for 1|..., out = |block from 0|block from 1|...
//	send, receive    between stages: the group is who sends and who receives; of the move one has In, the other Out
//
// A bool is folded as a byte, by max (any) or min (all).
type Collective struct {
	ID    int // the plan's order; equal on all ranks
	Kind  plan.Kind
	Op    element.Reduction
	DType tensor.DType
	Scale float64 // 1 for everything but a mean
	Dim   int     // of the mesh; -1 between stages
	Group []int   // ranks
	Moves []Move  // several only of all-reduce
}

// Move is one tensor of a collective.
type Move struct {
	In, Out           Value
	InShape, OutShape tensor.Shape
	Send              []int // elements of the blocks of in: for reduce-scatter and all-to-all
	Recv              []int // elements of the blocks of out: for all-gather and all-to-all
}

// Stats say what a plan costs.
type Stats struct {
	Instrs      int // of the program
	Runs        int // programs of a rank
	Collectives map[plan.Kind]int
	Moves       map[plan.Kind]int // tensors that collectives move
	Bytes       int64             // sent by the rank that sends most
	Slices      int               // redistributions that move nothing
	Bucketed    int               // tensors that share an all-reduce with another
}

// sent is a tensor that one stage sends to another.
type sent struct {
	ref      tensor.Ref
	from, to int
	bytes    int64 // sent by a rank
}

// note says why a tensor is moved.
type note struct {
	value    string
	from, to Placement
	dim      int
	bytes    int64
	reader   int // instruction, -1 for a result's layout
	stage    int
	kind     plan.Kind
}
