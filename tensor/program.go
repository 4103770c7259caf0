package tensor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Ref names an argument of an instruction: the result of an earlier instruction, an
// external input of the program, or a scalar. It is relative to the program, so that the
// same work recorded later is the same program.
//
//	0 <= r < 1<<30    result of instruction r
//	r < 0             external input -1-r
//	r >= 1<<30        scalar r-1<<30
type Ref int32

const scalarRef Ref = 1 << 30

// ExternalRef returns the name of external input i.
func ExternalRef(i int) Ref { return Ref(-1 - i) }

// ScalarRef returns the name of scalar i.
func ScalarRef(i int) Ref { return scalarRef + Ref(i) }

// Instr reports whether r is the result of an instruction, and returns its index.
func (r Ref) Instr() (int, bool) { return int(r), r >= 0 && r < scalarRef }

// External reports whether r is an external input, and returns its index.
func (r Ref) External() (int, bool) { return int(-1 - r), r < 0 }

// Scalar reports whether r is a scalar, and returns its index.
func (r Ref) Scalar() (int, bool) { return int(r - scalarRef), r >= scalarRef }

// External is an input of a program: a value that existed before it. Signal is the signal
// that it was made or named with, a position in Program.Signals from 1; 0 is none.
type External struct {
	DType   DType
	Donated bool // freed with this program: its memory may hold a result
	Signal  uint16
	Shape   uint32
}

// Instr is one operation. Args[Arg:Arg+NArg] are its arguments and Ints[Int:Int+NInt] its
// attributes. Keep marks a result that outlives the program. Signal is the signal that it
// was recorded under and Named that of its result alone: positions in Program.Signals
// from 1; 0 is none.
type Instr struct {
	Op    Op
	DType DType
	Keep  bool
	NArg  uint16
	NInt  uint16
	Arg   uint32
	Int   uint32
	Shape uint32

	Signal uint16
	Named  uint16
}

// Limits of a program. They bound the memory that a receiver allocates for a message; a
// session flushes before it reaches them.
const (
	MaxInstrs       = 8192
	MaxExternals    = 8192
	MaxScalars      = 8192
	MaxProgramBytes = 240 << 10 // encoded; with its message it fits the smallest ring
)

// Program is a straight-line list of instructions over external inputs and scalars. It is
// pure: every instruction makes a new value. The values of scalars and the ids of inputs
// and results are not part of it, so a training loop records the same program at every
// step. Hash is its identity.
//
// A Program from a Session or from ParseProgram is well formed: every reference is to an
// earlier value, and every dtype and shape agrees with inference. It is read-only.
type Program struct {
	Externals  []External
	Instrs     []Instr
	Args       []Ref
	Ints       []int64
	Shapes     []Shape
	NumScalars int
	Signals    []Signal // each once

	// Unfused has engines run one operation after another, see SessionOptions.Unfused.
	Unfused bool
}

// Hash identifies a program: the first 16 bytes of the SHA-256 of its encoding.
type Hash [16]byte

// String returns the hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// HashOf returns the hash of an encoded program.
func HashOf(encoded []byte) Hash {
	sum := sha256.Sum256(encoded)
	return Hash(sum[:16])
}

// ArgsOf returns the arguments of instruction i.
func (p *Program) ArgsOf(i int) []Ref {
	in := &p.Instrs[i]
	return p.Args[in.Arg : in.Arg+uint32(in.NArg) : in.Arg+uint32(in.NArg)]
}

// IntsOf returns the integer attributes of instruction i.
func (p *Program) IntsOf(i int) []int64 {
	in := &p.Instrs[i]
	return p.Ints[in.Int : in.Int+uint32(in.NInt) : in.Int+uint32(in.NInt)]
}

// Live reports for each instruction whether a kept result depends on it or it can fail:
// an index out of range is an error even if no instruction uses the result.
func (p *Program) Live() []bool {
	live := make([]bool, len(p.Instrs))
	for i := len(p.Instrs) - 1; i >= 0; i-- {
		in := &p.Instrs[i]
		if !live[i] && !in.Keep && !in.Op.Info().Fallible {
			continue
		}
		live[i] = true
		for _, r := range p.ArgsOf(i) {
			if j, ok := r.Instr(); ok {
				live[j] = true
			}
		}
	}
	return live
}

// Dependents sets failed[i] for every instruction that has an argument which failed, as
// an instruction or as an external input.
func (p *Program) Dependents(failed, externals []bool) {
	for i := range p.Instrs {
		for _, r := range p.ArgsOf(i) {
			j, instr := r.Instr()
			k, external := r.External()
			failed[i] = failed[i] || instr && failed[j] || external && externals[k]
		}
	}
}

// Without returns a copy of p that leaves out instructions and inputs which failed,
// and with an instruction all of its Dependents. The others have the numbers that
// they have in p. In the place of an input that is left out is an f32 of no elements.
// The copy has one scalar more than p, of any value.
func (p *Program) Without(failed, externals []bool) *Program {
	q := p.Clone()
	none := slices.IndexFunc(q.Shapes, func(s Shape) bool { return s.Equal(Shape{0}) })
	if none < 0 {
		none = len(q.Shapes)
		q.Shapes = append(q.Shapes, Shape{0})
	}
	for k := range q.Externals {
		if externals[k] {
			q.Externals[k].DType, q.Externals[k].Shape = F32, uint32(none)
		}
	}
	q.Args, q.Ints = q.Args[:0], q.Ints[:0]
	q.NumScalars++
	for i := range q.Instrs {
		in := &q.Instrs[i]
		args, ints := p.ArgsOf(i), p.IntsOf(i)
		if failed[i] { // no result and no error depend on it: no engine computes it
			*in = Instr{Op: OpFull, DType: F32, NArg: 1, NInt: 2, Shape: uint32(none)}
			args, ints = []Ref{ScalarRef(p.NumScalars)}, []int64{int64(F32), 0}
		}
		in.Arg, in.Int = uint32(len(q.Args)), uint32(len(q.Ints))
		q.Args, q.Ints = append(q.Args, args...), append(q.Ints, ints...)
	}
	return q
}

// TypeOf returns the dtype and shape of r; for a scalar Invalid and the scalar shape.
func (p *Program) TypeOf(r Ref) (DType, Shape) {
	if i, ok := r.Instr(); ok {
		return p.Instrs[i].DType, p.Shapes[p.Instrs[i].Shape]
	}
	if i, ok := r.External(); ok {
		return p.Externals[i].DType, p.Shapes[p.Externals[i].Shape]
	}
	return Invalid, nil
}

// Clone returns a copy that shares no memory with p. An engine clones the program of a
// Batch that it keeps.
func (p *Program) Clone() *Program {
	q := &Program{
		Externals:  append([]External(nil), p.Externals...),
		Instrs:     append([]Instr(nil), p.Instrs...),
		Args:       append([]Ref(nil), p.Args...),
		Ints:       append([]int64(nil), p.Ints...),
		Shapes:     make([]Shape, len(p.Shapes)),
		NumScalars: p.NumScalars,
		Signals:    append([]Signal(nil), p.Signals...),
		Unfused:    p.Unfused,
	}
	for i, s := range p.Shapes {
		q.Shapes[i] = append(Shape{}, s...)
	}
	return q
}

// String returns the program as text, a line for each instruction: %3 = add f32[2 3] %1,
// in0, s2.
func (p *Program) String() string {
	var b strings.Builder
	if p.Unfused {
		b.WriteString("unfused\n")
	}
	for i, e := range p.Externals {
		fmt.Fprintf(&b, "in%d %v%v", i, e.DType, p.Shapes[e.Shape])
		if e.Donated {
			b.WriteString(" donated")
		}
		if g, ok := p.signal(e.Signal); ok {
			fmt.Fprintf(&b, " @%v", g)
		}
		b.WriteByte('\n')
	}
	for i, in := range p.Instrs {
		fmt.Fprintf(&b, "%%%d = %v %v%v", i, in.Op, in.DType, p.Shapes[in.Shape])
		for _, r := range p.ArgsOf(i) {
			b.WriteByte(' ')
			b.WriteString(r.String())
		}
		if in.NInt > 0 {
			fmt.Fprintf(&b, " %v", p.IntsOf(i))
		}
		if in.Keep {
			b.WriteString(" keep")
		}
		if g, ok := p.signal(in.Signal); ok {
			fmt.Fprintf(&b, " @%v", g)
		}
		if g, ok := p.signal(in.Named); ok {
			fmt.Fprintf(&b, " as %v", g)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns the name that programs print: in0 is an input, s0 a scalar, other
// names are of instructions.
func (r Ref) String() string {
	if i, ok := r.External(); ok {
		return fmt.Sprintf("in%d", i)
	}
	if i, ok := r.Scalar(); ok {
		return fmt.Sprintf("s%d", i)
	}
	return fmt.Sprintf("%%%d", int(r))
}

// reset empties p and keeps its memory.
func (p *Program) reset() {
	p.Externals, p.Instrs, p.Args = p.Externals[:0], p.Instrs[:0], p.Args[:0]
	p.Ints, p.Shapes, p.NumScalars, p.Signals = p.Ints[:0], p.Shapes[:0], 0, p.Signals[:0]
	p.Unfused = false
}
