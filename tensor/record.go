package tensor

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
)

// Arg is an argument of Apply: a tensor or a scalar.
type Arg struct {
	t *Tensor
	f float64
}

// T makes a tensor an argument. Of a nil one Apply makes an error.
func T(t *Tensor) Arg {
	if t == nil {
		t = none()
	}
	return Arg{t: t}
}

// none is what T makes of nil: a tensor of no session, for an Arg without one is a scalar.
//
//go:noinline
func none() *Tensor { return &Tensor{v: &value{}} }

// S makes a number an argument.
func S(f float64) Arg { return Arg{f: f} }

// made is a new handle and its value in one allocation.
type made struct {
	Tensor
	value
}

// Apply records op with its tensors, its scalars and its integer attributes, as the op table lists them, and returns
// the result. All methods of Tensor come down to it. The operands' dtypes are promoted to meet.
func (s *Session) Apply(op Op, ints []int64, args ...Arg) *Tensor {
	if err := s.enter(op.String()); err != nil {
		return poisoned(s, err)
	}
	defer s.leave()
	return s.apply(op, ints, args)
}

func (s *Session) apply(op Op, ints []int64, args []Arg) *Tensor {
	for _, a := range args {
		if a.t != nil && a.t.v.err != nil {
			return poisoned(s, a.t.v.err)
		}
	}
	v, err := s.record(op, ints, args)
	if err != nil {
		return poisoned(s, s.fail(opError(op, args, err)))
	}
	if s.noGrad == 0 && op.Info().Gradient != NoGradient && v.dtype.IsFloat() {
		for _, a := range args {
			if a.t != nil && (a.t.requires || a.t.node != nil) {
				v.Tensor.node = newNode(op, ints, args, v)
				break
			}
		}
	}
	return &v.Tensor
}

// poisoned is a tensor that stands for an error.
func poisoned(s *Session, err error) *Tensor {
	m := &made{}
	m.Tensor.v = &m.value
	m.value.s, m.value.err = s, err
	return &m.Tensor
}

// record infers, promotes and appends one instruction.
func (s *Session) record(op Op, ints []int64, args []Arg) (*made, error) {
	if !op.Valid() {
		return nil, fmt.Errorf("%w: %v is no operation", ErrProgram, op)
	}
	s.room()
	info := op.Info()
	tensors := len(args) - len(info.Scalars)
	if tensors < info.MinTensors || tensors > info.MaxTensors {
		return nil, fmt.Errorf("%w: %d arguments, expected %d to %d", ErrShape, len(args), info.MinTensors+len(info.Scalars), info.MaxTensors+len(info.Scalars))
	}
	s.args = s.args[:0]
	c := &s.inf
	c.op, c.dt, c.sh, c.ints = op, c.dt[:0], c.sh[:0], ints
	for i := range args {
		a := &args[i]
		if a.t == nil {
			s.args = append(s.args, ScalarRef(s.scalar(op, i, a.f)))
			if i < tensors {
				if !info.Weak || op == OpWhere && i == 0 {
					return nil, fmt.Errorf("%w: argument %d is a scalar, expected a tensor", ErrShape, i)
				}
				c.dt, c.sh = append(c.dt, Invalid), append(c.sh, nil)
			}
			continue
		}
		if i >= tensors {
			return nil, fmt.Errorf("%w: argument %d is a tensor, expected a scalar", ErrShape, i)
		}
		r, err := s.reference(a.t.v)
		if err != nil {
			return nil, err
		}
		s.args = append(s.args, r)
		c.dt, c.sh = append(c.dt, a.t.v.dtype), append(c.sh, a.t.v.shape)
	}
	s.promote(op, args[:tensors])
	narrow := s.widen(op)
	if err := c.infer(info); err != nil {
		return nil, err
	}
	if d, shape := c.outDT, c.outShape; narrow != Invalid && d == F32 {
		r := s.instr(op, c.ints, d, shape)
		s.hide(r, d, shape)
		s.args = append(s.args[:0], r)
		return s.emit(OpCast, []int64{int64(narrow)}, narrow, shape), nil
	}
	return s.emit(op, c.ints, c.outDT, c.outShape), nil
}

// room flushes a program that is nearly full. An error of that sticks to the session.
func (s *Session) room() {
	if len(s.prog.Instrs) >= MaxInstrs/2 || len(s.inputs) >= MaxExternals/2 || len(s.scalars) >= MaxScalars/2 || s.progBytes() > MaxProgramBytes/2 {
		s.flush(nil, false)
	}
}

// instr appends an instruction whose arguments stand in s.args.
func (s *Session) instr(op Op, ints []int64, d DType, shape Shape) Ref {
	p := &s.prog
	i := len(p.Instrs)
	p.Instrs = append(p.Instrs, Instr{
		Op: op, DType: d, NArg: uint16(len(s.args)), NInt: uint16(len(ints)),
		Arg: uint32(len(p.Args)), Int: uint32(len(p.Ints)), Shape: s.shapeIndex(shape), Signal: s.signalSlot(s.signal),
	})
	p.Args = append(p.Args, s.args...)
	p.Ints = append(p.Ints, ints...)
	if op.Info().Fallible {
		s.sites = append(s.sites, siteMark{i, callers()})
	}
	return Ref(i)
}

// hide gives the instruction that was appended last a value that no handle has.
func (s *Session) hide(r Ref, d DType, shape Shape) {
	s.values = append(s.values, &value{s: s, dtype: d, shape: shape, epoch: s.epoch, ref: r})
}

// emit appends an instruction whose arguments stand in s.args, and makes the handle of its result.
func (s *Session) emit(op Op, ints []int64, d DType, shape Shape) *made {
	r := s.instr(op, ints, d, shape)
	s.stats.Ops++
	s.stats.Live++
	m := &made{}
	m.Tensor.v = &m.value
	m.value = value{s: s, dtype: d, shape: shape, refs: 1, epoch: s.epoch, ref: r}
	if op.Info().Class == ClassLeaf {
		m.value.signal = s.signal
	}
	s.values = append(s.values, &m.value)
	s.own(m)
	return m
}

// own gives a new value to the innermost scope, or else to its handle.
func (s *Session) own(m *made) {
	if s.scope != nil {
		s.scope.add(&m.value)
	} else {
		m.Tensor.owns = true
	}
}

// progBytes bounds the encoded size of what is recorded, generously.
func (s *Session) progBytes() int {
	p := &s.prog
	return programHeader + len(p.Shapes)*(4+4*MaxRank) + externalBytes*len(p.Externals) + instrBytes*len(p.Instrs) + 4*len(p.Args) + 8*len(p.Ints) +
		signalBytes(len(p.Signals), s.signalNames, len(p.Externals), len(p.Instrs))
}

// reference is v's name in the program being recorded.
func (s *Session) reference(v *value) (Ref, error) {
	if v.s == nil {
		return 0, ErrNil
	}
	if v.s != s {
		return 0, fmt.Errorf("%w: %v belongs to the session on %s, this one is on %s", ErrOtherSession, v, v.s.eng.Name(), s.eng.Name())
	}
	if v.refs <= 0 {
		return 0, fmt.Errorf("%w: %v", ErrReleased, v)
	}
	if v.epoch == s.epoch {
		return v.ref, nil
	}
	r := ExternalRef(len(s.inputs))
	s.inputs = append(s.inputs, v)
	s.prog.Externals = append(s.prog.Externals, External{DType: v.dtype, Shape: s.shapeIndex(v.shape), Signal: s.signalSlot(v.signal)})
	v.epoch, v.ref = s.epoch, r
	return r, nil
}

func (s *Session) scalar(op Op, arg int, f float64) int {
	k := scalarKey{op, arg, math.Float64bits(f)}
	i, ok := s.slots[k]
	if !ok {
		i = len(s.scalars)
		s.scalars = append(s.scalars, f)
		s.slots[k] = i
	}
	return i
}

func (s *Session) shapeIndex(shape Shape) uint32 {
	p := &s.prog
	if n := len(p.Shapes); n > 0 && p.Shapes[n-1].Equal(shape) {
		return uint32(n - 1)
	}
	k := shapeKey{rank: len(shape)}
	copy(k.dims[:], shape)
	i, ok := s.shapes[k]
	if !ok {
		i = uint32(len(p.Shapes))
		p.Shapes = append(p.Shapes, shape)
		s.shapes[k] = i
	}
	return i
}

// promote makes the operands of c agree in dtype by inserting casts. args are the operands as given.
func (s *Session) promote(op Op, args []Arg) {
	c := &s.inf
	first, last := 0, len(c.dt)
	switch op {
	case OpWhere:
		first = 1
	case OpIndexSelect, OpGather, OpOneHot, OpCast:
		return
	}
	skip := -1 // an operand that is an index
	switch op {
	case OpIndexAdd, OpScatterAdd, OpCrossEntropy, OpCrossEntropyGrad:
		skip = 1
	}
	want, scalars, fraction := Invalid, false, false
	least, most := math.Inf(1), math.Inf(-1) // of the scalars
	for i := first; i < last; i++ {
		switch d := c.dt[i]; {
		case i == skip:
		case d == Invalid:
			f := args[i].f
			scalars, fraction = true, fraction || f != math.Trunc(f) || math.IsNaN(f)
			least, most = min(least, f), max(most, f)
		case want == Invalid:
			want = d
		default:
			want = Promote(want, d)
		}
	}
	if want == Invalid {
		return // leaves, or only scalars: inference says what is missing
	}
	switch {
	case !scalars || want.IsFloat():
	case fraction || want == Bool && op != OpEq && op != OpNe:
		want = F32
	case holds(want, least) && holds(want, most):
	case op.Info().Kind == KindComparison:
		want = F64 // which tells all of I32 apart
	default:
		want = F32
	}
	if !want.IsFloat() && op.Info().Float {
		want = F32
	}
	for i := first; i < last; i++ {
		if i != skip && c.dt[i] != Invalid && c.dt[i] != want {
			r := s.cast(s.args[i], c.sh[i], want)
			s.args[i], c.dt[i] = r, want
		}
	}
}

// cast inserts a cast of one operand. A cast of a float to a wider float keeps the graph: it is seen by autograd
// through the operand itself, whose gradient autograd casts back.
func (s *Session) cast(r Ref, shape Shape, to DType) Ref {
	p := &s.prog
	i := Ref(len(p.Instrs))
	p.Instrs = append(p.Instrs, Instr{
		Op: OpCast, DType: to, NArg: 1, NInt: 1,
		Arg: uint32(len(p.Args)), Int: uint32(len(p.Ints)), Shape: s.shapeIndex(shape), Signal: s.signalSlot(s.signal),
	})
	p.Args = append(p.Args, r)
	p.Ints = append(p.Ints, int64(to))
	s.hide(i, to, shape)
	return i
}

// widen casts the halves among the operands of an operation that computes to F32, and asks a leaf for F32. It returns the
// half that an F32 result is rounded to, Invalid for none.
func (s *Session) widen(op Op) DType {
	if movesHalves(op) {
		return Invalid
	}
	c := &s.inf
	switch op {
	case OpFull, OpArange, OpRand, OpRandN, OpOneHot:
		if len(c.ints) > 0 && validDType(c.ints[0]) && DType(c.ints[0]).IsHalf() {
			d := DType(c.ints[0])
			c.ints = append([]int64{int64(F32)}, c.ints[1:]...)
			return d
		}
		return Invalid
	}
	narrow := Invalid
	var from, to Ref // of the last one: most that come twice follow each other
	for i, d := range c.dt {
		if !d.IsHalf() {
			continue
		}
		if narrow == Invalid || s.args[i] != from {
			from = s.args[i]
			to = s.cast(from, c.sh[i], F32)
		}
		narrow, s.args[i], c.dt[i] = d, to, F32
	}
	return narrow
}

// MaxErrorArgs is how many arguments an error lists: concat may have thousands.
const MaxErrorArgs = 8

func opError(op Op, args []Arg, err error) error {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == MaxErrorArgs {
			fmt.Fprintf(&b, "%d more", len(args)-i)
			break
		}
		if a.t != nil && a.t.v.s == nil {
			b.WriteString("nil")
		} else if a.t != nil {
			b.WriteString(a.t.v.String())
		} else {
			fmt.Fprintf(&b, "%g", a.f)
		}
	}
	return &OpError{Op: op.String(), Inputs: b.String(), Site: callSite(), Err: err}
}

const module = "github.com/ringside-go/ringside/tensor"

// stack is who called, innermost first. To find out file and line costs more than an operation, so it is done only for
// an error.
type stack struct {
	pcs [32]uintptr
	n   int
}

// callers is the stack of the caller's caller.
func callers() (c stack) {
	c.n = runtime.Callers(3, c.pcs[:])
	return c
}

// callSite is the site of the caller's stack.
func callSite() string { return callers().String() }

// String is the file and line of the innermost caller outside of the tensor packages (their tests count as outside).
func (c stack) String() string {
	frames := runtime.CallersFrames(c.pcs[:c.n])
	for {
		f, more := frames.Next()
		if f.Function == "" {
			return ""
		}
		if !strings.HasPrefix(f.Function, module) || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}

// located adds the recording call site to an engine's error that says which instruction failed.
func located(err error, sites []siteMark) error {
	re, ok := err.(*RunError)
	if !ok {
		return err
	}
	i := slices.IndexFunc(sites, func(m siteMark) bool { return m.instr == re.Instr })
	if i < 0 {
		return err
	}
	return &OpError{Op: re.Op, Inputs: re.Inputs, Site: sites[i].site.String(), Err: re.Err}
}
