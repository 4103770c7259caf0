package compile

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// Place says whose memory a buffer is.
type Place uint8

// The places.
const (
	External Place = iota // an input of the program; Index counts Program.Externals
	Output                // a kept result; Index counts Plan.Outputs
	Temp                  // in the plan's own arena, at Off
)

func (p Place) String() string { return [...]string{"input", "result", "temporary"}[p] }

// Buffer is memory that steps read and write, always contiguous.
type Buffer struct {
	Place Place
	Index int
	Off   int // of a Temp, in bytes, a multiple of Align
	Size  int // in bytes

	first, last int // steps of first write and last use
}

// Align is the alignment of temporaries in bytes: a cache line, and the widest vector.
const Align = 64

// Operand is what a step reads or writes: elements of a buffer, or a scalar.
type Operand struct {
	Scalar  int // index of the scalar, -1 for a tensor
	Buf     int // index in Plan.Buffers
	DType   tensor.DType
	Shape   tensor.Shape
	Strides []int // in elements; 0 repeats, negative walks backward
	Off     int   // of element 0, in elements
	Dense   bool  // the strides are those of a contiguous tensor
}

// Step is one operation, or several that became one. Its outputs are dense but for those of attention.
type Step struct {
	Instr int // the instruction it is for, the last one of several
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
	// Take is the donated external input whose memory the result may take, -1 for none. A step that writes there reads
	// nothing of that input but the same element, so the plan is right with memory of its own too.
	Take int
}

// Plan is a compiled program. It is read-only and may be run by many at a time, each with memory of its own.
type Plan struct {
	Program *tensor.Program
	Steps   []Step
	Buffers []Buffer
	Outputs []OutputOf
	Temp    int // bytes of the arena for temporaries
	Stats   Stats
}

// Stats say what a plan costs.
type Stats struct {
	Instrs     int // of the program
	Steps      int
	Copies     int // steps that were made only to have a view dense
	Dead       int // instructions that nobody needs
	Fused      int // steps that passes took away: part of another now, equal to it, or needed by nobody any more
	Views      int // instructions that became strides
	InPlace    int // steps that write over a dying operand
	Taken      int // results that may take a donated input's memory
	TempBytes  int // the arena
	LowerBound int // most bytes of temporaries alive at one step
}

// String lists the plan, a step a line.
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
		b.WriteByte('\n')
	}
	return b.String()
}

// StepString prints step i: its outputs, what it computes, and of what.
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
