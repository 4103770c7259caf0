package compile

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// Place says where the memory of a buffer comes from.
type Place uint8

// The places.
const (
	External Place = iota // an input of the program; Index counts Program.Externals
	Output                // a kept result; Index counts Plan.Outputs
	Temp                  // in the arena of the plan, at Off
)

func (p Place) String() string { return [...]string{"input", "result", "temporary"}[p] }

// Buffer is contiguous memory that steps read and write.
type Buffer struct {
	Place Place
	Index int
	Off   int // of a Temp, in bytes, a multiple of Options.Align
	Size  int // in bytes

	first, last int // first step that writes it, last step that uses it
}

// Align is the least alignment of temporaries in bytes: a cache line, and the widest
// vector.
const Align = 64

// Operand is an operand or a result of a step: elements of a buffer, or a scalar.
type Operand struct {
	Scalar  int // index of the scalar, -1 for a tensor
	Buf     int // index in Plan.Buffers
	DType   tensor.DType
	Shape   tensor.Shape
	Strides []int // in elements; 0 repeats, negative walks backward
	Off     int   // of element 0, in elements
	Dense   bool  // the strides are those of a contiguous tensor
}

// Broadcast returns o's strides for a shape that it broadcasts to.
func (o Operand) Broadcast(shape tensor.Shape) []int {
	st := make([]int, len(shape))
	skip := len(shape) - len(o.Shape)
	for i, n := range o.Shape {
		if n != 1 {
			st[skip+i] = o.Strides[i]
		}
	}
	return st
}

// Step is an operation, or several that passes joined. Its outputs are dense except those
// of attention.
type Step struct {
	Instr int // the instruction that it computes, the last one of several
	Op    tensor.Op
	In    []Operand
	Out   Operand
	Ints  []int64

	Fused Fused
	Also  []Operand // further outputs
	Body  []Inst    // of Tiles, TilesFold and Epilogue
}

// OutputOf is a kept result.
type OutputOf struct {
	Instr int
	Buf   int
	// Take is the donated input whose memory the result may take, or -1. A step that
	// writes there reads only the element that it overwrites, so the plan is also correct
	// if the result has memory of its own.
	Take int
	// Strides, in elements, are those of a result that lies in another order of dims, as
	// Options.Orders allows; nil if it is row-major.
	Strides []int
}

// Plan is a compiled program. It is read-only and may be run concurrently, each run with
// memory of its own.
type Plan struct {
	Program *tensor.Program
	Steps   []Step
	Buffers []Buffer
	Outputs []OutputOf
	Temp    int // bytes of the arena for temporaries
	Stats   Stats
}

// Stats counts the parts of a plan.
type Stats struct {
	Instrs int // of the program
	Steps  int
	Copies int // steps that only make a view dense
	Dead   int // instructions that no result depends on
	// Fused counts steps that passes removed: joined to another, equal to one, or not
	// needed.
	Fused      int
	Views      int // instructions that became strides
	InPlace    int // steps that overwrite an operand
	Taken      int // results that may take a donated input's memory
	TempBytes  int // the arena
	LowerBound int // the most bytes of temporaries that live at one step
}

// String returns the plan as text, a line for each step and each result.
func (p *Plan) String() string {
	var b strings.Builder
	for i := range p.Steps {
		b.WriteString(p.StepString(i))
		b.WriteByte('\n')
	}
	for i, o := range p.Outputs {
		fmt.Fprintf(&b, "out%d is %%%d", i, o.Instr)
		if o.Take >= 0 {
			fmt.Fprintf(&b, ", may take in%d", o.Take)
		}
		if o.Strides != nil {
			fmt.Fprintf(&b, ", by strides %v", o.Strides)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// StepString returns step i as text: outputs, operation, operands.
func (p *Plan) StepString(i int) string {
	s := &p.Steps[i]
	var b strings.Builder
	b.WriteString(p.OperandString(s.Out))
	for _, o := range s.Also {
		b.WriteString(", " + p.OperandString(o))
	}
	b.WriteString(" = " + s.Name())
	for _, in := range s.In {
		b.WriteString(" " + p.OperandString(in))
	}
	if len(s.Ints) > 0 {
		fmt.Fprintf(&b, " %v", s.Ints)
	}
	return b.String()
}

// OperandString returns the buffer and the layout of o, or the name of the scalar.
func (p *Plan) OperandString(o Operand) string {
	if o.Scalar >= 0 {
		return fmt.Sprintf("s%d", o.Scalar)
	}
	buf := p.Buffers[o.Buf]
	var name string
	switch buf.Place {
	case External:
		name = fmt.Sprintf("in%d", buf.Index)
	case Output:
		name = fmt.Sprintf("out%d", buf.Index)
	default:
		name = fmt.Sprintf("t@%d", buf.Off)
	}
	s := fmt.Sprintf("%s:%v%v", name, o.DType, o.Shape)
	if !o.Dense {
		s += fmt.Sprintf("/%v+%d", o.Strides, o.Off)
	}
	return s
}

// NoSpace returns err as the error of instruction i, for whose result there is no memory.
// It is no RunError: nothing that comes after it can run either.
func (p *Plan) NoSpace(i int, err error) error {
	in := &p.Program.Instrs[i]
	return fmt.Errorf("result of %v, %v%v: %w", in.Op, in.DType, p.Program.Shapes[in.Shape], err)
}

// RunError returns err as the error of instruction i of the plan's program.
func (p *Plan) RunError(i int, err error) error {
	prog := p.Program
	var in []string
	for k, r := range prog.ArgsOf(i) {
		if k == tensor.MaxErrorArgs {
			in = append(in, fmt.Sprintf("%d more", len(prog.ArgsOf(i))-k))
			break
		}
		if _, ok := r.Scalar(); !ok {
			d, s := prog.TypeOf(r)
			in = append(in, fmt.Sprintf("%v%v", d, s))
		}
	}
	return &tensor.RunError{Instr: i, Op: prog.Instrs[i].Op.String(), Inputs: strings.Join(in, ", "), Err: err}
}
