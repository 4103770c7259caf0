package explain

import (
	"fmt"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// Document is a program and its plan as data, for encoding/json. The names are those of
// the text: %3 is the result of an instruction, in0 an input of the program, s2 a scalar.
type Document struct {
	Hash         string        `json:"hash"`
	Inputs       []Input       `json:"inputs"`
	Scalars      int           `json:"scalars"`
	Instructions []Instruction `json:"instructions"`
	Steps        []Step        `json:"steps"`
	Buffers      []Buffer      `json:"buffers"`
	Results      []Result      `json:"results"`
	Stats        Stats         `json:"stats"`
}

// Input is an input of the program. The memory of a donated one may become a result's.
type Input struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Donated bool   `json:"donated,omitempty"`
}

// Instruction is an instruction of the program. Kept marks a result of the program.
type Instruction struct {
	Op    string   `json:"op"`
	DType string   `json:"dtype"`
	Shape []int    `json:"shape"`
	Args  []string `json:"args"`
	Ints  []int64  `json:"ints,omitempty"`
	Kept  bool     `json:"kept,omitempty"`
}

// Step is a step of the plan. Instruction is the last instruction that it computes.
// Operations lists all of them where they are elementwise. Microseconds is the shortest
// time that the step took, if it was timed.
type Step struct {
	Name         string    `json:"name"`
	Kind         string    `json:"kind"`
	Instruction  int       `json:"instruction"`
	Operations   []string  `json:"operations,omitempty"`
	Operands     []Operand `json:"operands"`
	Results      []Operand `json:"results"`
	Ints         []int64   `json:"ints,omitempty"`
	Microseconds *float64  `json:"us,omitempty"`
}

// Operand is a scalar, or elements of a buffer. Strides and Offset count elements.
type Operand struct {
	Scalar  string `json:"scalar,omitempty"`
	Buffer  *int   `json:"buffer,omitempty"`
	DType   string `json:"dtype,omitempty"`
	Shape   []int  `json:"shape,omitempty"`
	Strides []int  `json:"strides,omitempty"`
	Offset  int    `json:"offset,omitempty"`
}

// Buffer is memory that steps read and write. Index is the number of the input or result
// that it holds; a temporary has an Offset in the arena instead.
type Buffer struct {
	Place  string `json:"place"`
	Index  *int   `json:"index,omitempty"`
	Offset *int   `json:"offset,omitempty"`
	Bytes  int    `json:"bytes"`
}

// Result is a result of the program. Takes names the donated input whose memory it may
// have.
type Result struct {
	Of     string `json:"of"`
	Buffer int    `json:"buffer"`
	Takes  string `json:"takes,omitempty"`
}

// Stats counts the parts of a plan. LowerBound is the largest sum of temporaries that
// live at one step; no arena can be smaller. Over is TempBytes, the size of the arena,
// divided by it, and 1 without temporaries.
type Stats struct {
	Instructions int     `json:"instructions"`
	Steps        int     `json:"steps"`
	Views        int     `json:"views"`
	Dead         int     `json:"dead"`
	Fused        int     `json:"fused"`
	Copies       int     `json:"copies"`
	InPlace      int     `json:"in_place"`
	Taken        int     `json:"taken"`
	TempBytes    int     `json:"temporary_bytes"`
	LowerBound   int     `json:"lower_bound_bytes"`
	Over         float64 `json:"over_lower_bound"`
}

// Stats returns the counts of the plan.
func (p Plan) Stats() Stats {
	s := &p.plan.Stats
	over := 1.0
	if s.LowerBound > 0 {
		over = float64(s.TempBytes) / float64(s.LowerBound)
	}
	return Stats{s.Instrs, s.Steps, s.Views, s.Dead, s.Fused, s.Copies,
		s.InPlace, s.Taken, s.TempBytes, s.LowerBound, over}
}

// Document returns the program and the plan as data. times holds the shortest time of
// each step, or is nil.
func (p Plan) Document(times []time.Duration) *Document {
	prog := p.plan.Program
	d := &Document{
		Hash: p.hash().String(), Scalars: prog.NumScalars, Stats: p.Stats(),
		Inputs: []Input{}, Instructions: []Instruction{}, Results: []Result{},
		Steps: p.steps(times),
	}
	for _, e := range prog.Externals {
		d.Inputs = append(d.Inputs, Input{e.DType.String(), prog.Shapes[e.Shape], e.Donated})
	}
	for i, in := range prog.Instrs {
		j := Instruction{
			Op: in.Op.String(), DType: in.DType.String(), Shape: prog.Shapes[in.Shape],
			Args: []string{}, Ints: prog.IntsOf(i), Kept: in.Keep,
		}
		for _, r := range prog.ArgsOf(i) {
			j.Args = append(j.Args, r.String())
		}
		d.Instructions = append(d.Instructions, j)
	}
	for _, b := range p.plan.Buffers {
		j := Buffer{Place: b.Place.String(), Bytes: b.Size}
		if b.Place == compile.Temp {
			j.Offset = &b.Off
		} else {
			j.Index = &b.Index
		}
		d.Buffers = append(d.Buffers, j)
	}
	for _, o := range p.plan.Outputs {
		j := Result{Of: tensor.Ref(o.Instr).String(), Buffer: o.Buf}
		if o.Take >= 0 {
			j.Takes = tensor.ExternalRef(o.Take).String()
		}
		d.Results = append(d.Results, j)
	}
	return d
}

func (p Plan) steps(times []time.Duration) []Step {
	out := []Step{}
	for i := range p.plan.Steps {
		s := &p.plan.Steps[i]
		j := Step{Name: s.Name(), Kind: s.Fused.String(), Instruction: s.Instr, Ints: s.Ints}
		for _, in := range s.Body {
			j.Operations = append(j.Operations, fmt.Sprintf("%%%d %v", in.Instr, in.Op))
		}
		for _, o := range s.In {
			j.Operands = append(j.Operands, newOperand(o))
		}
		for _, o := range s.Outs() {
			j.Results = append(j.Results, newOperand(*o))
		}
		if times != nil {
			us := microseconds(times[i])
			j.Microseconds = &us
		}
		out = append(out, j)
	}
	return out
}

func newOperand(o compile.Operand) Operand {
	if o.Scalar >= 0 {
		return Operand{Scalar: tensor.ScalarRef(o.Scalar).String()}
	}
	return Operand{Buffer: &o.Buf, DType: o.DType.String(), Shape: o.Shape, Strides: o.Strides, Offset: o.Off}
}
