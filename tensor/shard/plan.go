package shard

import (
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// Var names a tensor of a plan. The external inputs of the rewritten program come first,
// then the tensors that ranks compute and receive. On each rank the var holds that rank's
// part.
type Var int32

// Plan is a program as the ranks of a mesh run it together.
type Plan struct {
	Mesh    Mesh     // of the only stage; nil if there are several
	Stages  []Stage  // one of all ranks unless RewriteStages made the plan
	Inputs  []Placed // the program's external inputs, whose vars are 0, 1, ...
	Outputs []Output // its kept results
	Ranks   []RankPlan
	Stats   Stats

	program *tensor.Program
	notes   []note
	results []Layout // of every instruction, in the layout that it was made in
	where   []int    // the stage of every instruction; nil if there is only one
	sends   []sent
}

// Placed is a tensor and its placement.
type Placed struct {
	DType  tensor.DType
	Shape  tensor.Shape // of the whole
	Layout Layout
	Stage  int // ranks of other stages have no part
}

// Output is a kept result of the program.
type Output struct {
	Instr int // in the program
	Var   Var
	Placed
}

// RankPlan is the list of steps of one rank, in order.
type RankPlan struct{ Steps []Step }

// Kind is the kind of a step.
type Kind uint8

// The kinds of steps.
const (
	RunProgram Kind = iota + 1
	// Start starts a collective, which reads its inputs from then on.
	Start
	// Wait waits for a started collective, whose outputs exist from then on.
	Wait
)

// Step is a program to run, or a collective to start or to wait for.
type Step struct {
	Kind       Kind
	Run        *Run        // of RunProgram
	Collective *Collective // of Start and Wait
	// Frees lists vars that no later step needs, except donated inputs of the program.
	Frees []Var
}

// Run is a program to run on vars. It holds the contents of a tensor.Batch.
type Run struct {
	Program *tensor.Program
	Inputs  []Var
	Kept    []Kept
	Scalars []Scalar // by number
	// Origin has, for each instruction, the instruction of the rewritten program that it
	// serves, or -1.
	Origin []int
}

// Kept is a result that a var names.
type Kept struct {
	Instr int
	Var   Var
}

// Scalar is scalar From of the rewritten program if From >= 0, else the constant Const.
type Scalar struct {
	From  int
	Const float64
}

// Of returns the scalar's value, where scalars are those of the rewritten program.
func (s Scalar) Of(scalars []float64) float64 {
	if s.From >= 0 {
		return scalars[s.From]
	}
	return s.Const
}

// Collective is one call of a group of ranks, as one rank makes it. Inputs and outputs
// are contiguous and consist of blocks of elements, which are in the order of the group's
// ranks:
//
//	all-reduce       out = Scale times the fold of all ranks' in; of one or more tensors
//	reduce-scatter   in = |block for 0|block for 1|...,
//	                 out = Scale times the fold of all ranks' block for this one
//	all-gather       out = |in of 0|in of 1|...
//	all-to-all       in = |block for 0|block for 1|...,
//	                 out = |block from 0|block from 1|...
//	send, receive    between stages: the group is the sender and the receiver; the
//	                 sender's move has In, the receiver's Out
//
// A bool is folded as a byte, by max (any) or min (all).
type Collective struct {
	ID    int // position in the plan's order; equal on all ranks
	Kind  protocol.Kind
	Op    element.Reduction
	DType tensor.DType
	Scale float64 // 1 except for a mean
	Dim   int     // of the mesh; -1 between stages
	Group []int   // ranks
	Moves []Move  // more than one only of all-reduce
}

// Move is one tensor of a collective.
type Move struct {
	In, Out           Var
	InShape, OutShape tensor.Shape
	// Send has the elements of each block of in, for reduce-scatter and all-to-all.
	Send []int
	// Recv has the elements of each block of out, for all-gather and all-to-all.
	Recv []int
}

// Stats counts the parts of a plan.
type Stats struct {
	Instrs      int // of the program
	Runs        int // programs of a rank
	Collectives map[protocol.Kind]int
	Moves       map[protocol.Kind]int // tensors that collectives move
	Bytes       int64                 // sent by the rank that sends most
	Slices      int                   // redistributions that move nothing
	Bucketed    int                   // tensors that share an all-reduce with another
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
	reader   int // instruction, -1 for the layout of a result
	stage    int
	kind     protocol.Kind
}
