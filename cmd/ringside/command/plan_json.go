package command

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/compile"
)

// planJSON is what plan dump --json prints: one object. Names are those of the text: %3 an instruction's result, in0 an input of the
// program, s2 a scalar.
type planJSON struct {
	Hash         string            `json:"hash"`
	Inputs       []inputJSON       `json:"inputs"`
	Scalars      int               `json:"scalars"`
	Instructions []instructionJSON `json:"instructions"`
	Steps        []stepJSON        `json:"steps"`
	Buffers      []bufferJSON      `json:"buffers"`
	Results      []resultJSON      `json:"results"`
	Stats        statsJSON         `json:"stats"`
}

type inputJSON struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Donated bool   `json:"donated,omitempty"`
}

type instructionJSON struct {
	Op    string   `json:"op"`
	DType string   `json:"dtype"`
	Shape []int    `json:"shape"`
	Args  []string `json:"args"`
	Ints  []int64  `json:"ints,omitempty"`
	Kept  bool     `json:"kept,omitempty"`
}

// stepJSON is a step of the plan. Instruction is the one that it is for, the last of several; Operations are those that it is made of, where
// they are elementwise. Microseconds is what it took at the shortest, with --time.
type stepJSON struct {
	Name         string        `json:"name"`
	Kind         string        `json:"kind"`
	Instruction  int           `json:"instruction"`
	Operations   []string      `json:"operations,omitempty"`
	Operands     []operandJSON `json:"operands"`
	Results      []operandJSON `json:"results"`
	Ints         []int64       `json:"ints,omitempty"`
	Microseconds *float64      `json:"us,omitempty"`
}

// operandJSON is a scalar, or elements of a buffer: strides and offset are in elements.
type operandJSON struct {
	Scalar  string `json:"scalar,omitempty"`
	Buffer  *int   `json:"buffer,omitempty"`
	DType   string `json:"dtype,omitempty"`
	Shape   []int  `json:"shape,omitempty"`
	Strides []int  `json:"strides,omitempty"`
	Offset  int    `json:"offset,omitempty"`
}

// bufferJSON is memory: an input or a result of the program by its number, or bytes of the arena at Offset.
type bufferJSON struct {
	Place  string `json:"place"`
	Index  *int   `json:"index,omitempty"`
	Offset *int   `json:"offset,omitempty"`
	Bytes  int    `json:"bytes"`
}

// resultJSON is a kept result; Takes names the donated input whose memory it may have.
type resultJSON struct {
	Of     string `json:"of"`
	Buffer int    `json:"buffer"`
	Takes  string `json:"takes,omitempty"`
}

type statsJSON struct {
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

// writePlanJSON prints a program and its plan. times has the shortest time of every step, or is nil.
func writePlanJSON(w io.Writer, hash tensor.Hash, plan *compile.Plan, times []time.Duration) error {
	p, s := plan.Program, &plan.Stats
	out := planJSON{Hash: hash.String(), Scalars: p.NumScalars, Inputs: []inputJSON{}, Instructions: []instructionJSON{}, Results: []resultJSON{},
		Stats: statsJSON{s.Instrs, s.Steps, s.Views, s.Dead, s.Fused, s.Copies, s.InPlace, s.Taken, s.TempBytes, s.LowerBound, s.OverLowerBound()}}
	for _, e := range p.Externals {
		out.Inputs = append(out.Inputs, inputJSON{e.DType.String(), p.Shapes[e.Shape], e.Donated})
	}
	for i, in := range p.Instrs {
		j := instructionJSON{Op: in.Op.String(), DType: in.DType.String(), Shape: p.Shapes[in.Shape], Args: []string{}, Ints: p.IntsOf(i), Kept: in.Keep}
		for _, r := range p.ArgsOf(i) {
			j.Args = append(j.Args, r.String())
		}
		out.Instructions = append(out.Instructions, j)
	}
	out.Steps = stepsJSON(plan, times)
	for _, b := range plan.Buffers {
		j := bufferJSON{Place: b.Place.String(), Bytes: b.Size}
		if b.Place == compile.Temp {
			j.Offset = &b.Off
		} else {
			j.Index = &b.Index
		}
		out.Buffers = append(out.Buffers, j)
	}
	for _, o := range plan.Outputs {
		j := resultJSON{Of: tensor.Ref(o.Instr).String(), Buffer: o.Buf}
		if o.Take >= 0 {
			j.Takes = tensor.ExternalRef(o.Take).String()
		}
		out.Results = append(out.Results, j)
	}
	return json.NewEncoder(w).Encode(out)
}

func stepsJSON(plan *compile.Plan, times []time.Duration) []stepJSON {
	out := []stepJSON{}
	for i := range plan.Steps {
		s := &plan.Steps[i]
		j := stepJSON{Name: s.Name(), Kind: s.Fused.String(), Instruction: s.Instr, Ints: s.Ints}
		for _, in := range s.Body {
			j.Operations = append(j.Operations, fmt.Sprintf("%%%d %v", in.Instr, in.Op))
		}
		for _, o := range s.In {
			j.Operands = append(j.Operands, newOperandJSON(o))
		}
		for _, o := range s.Outs() {
			j.Results = append(j.Results, newOperandJSON(*o))
		}
		if times != nil {
			us := float64(times[i].Nanoseconds()) / 1e3
			j.Microseconds = &us
		}
		out = append(out, j)
	}
	return out
}

func newOperandJSON(o compile.Operand) operandJSON {
	if o.Scalar >= 0 {
		return operandJSON{Scalar: tensor.ScalarRef(o.Scalar).String()}
	}
	return operandJSON{Buffer: &o.Buf, DType: o.DType.String(), Shape: o.Shape, Strides: o.Strides, Offset: o.Off}
}
