package tensor

import (
	"bytes"
	"fmt"
)

// recording is the program that the next flush submits, under construction.
type recording struct {
	s       *Session
	prog    Program
	values  []*value   // the result of each instruction
	inputs  []*value   // each external input
	sites   []siteMark // where the fallible instructions were recorded
	places  places
	site    *stack // where all that is recorded now counts as recorded; or nil
	epoch   uint32 // number of the program; the ref of a value belongs to one epoch
	scalars scalars
	shapes  shapes
	signals signals
	encoded []byte
	hash    Hash   // of encoded
	last    []byte // the encoding before, whose memory the next one takes
	most    int    // operations that a program has at most
	unfused bool   // Unfused of programs

	graph bool      // results of floats get nodes
	room  *nodeRoom // the memory of the last node

	inf  inference // of the instruction under construction
	args []Ref     // its arguments
}

func (r *recording) start(s *Session, o *SessionOptions) {
	r.s, r.epoch, r.most, r.unfused = s, 1, MaxInstrs/2, o.Unfused
	if o.Batch > 0 {
		r.most = min(r.most, o.Batch)
	}
	if e, ok := s.eng.(Unfuser); ok {
		r.signals.unfuses = e.Unfuses
	}
	r.prog.Unfused = r.unfused
	r.places.known = map[uintptr]bool{}
}

// next begins the next program. It uses the arrays again, which the engine no longer
// reads when Submit has returned.
func (r *recording) next() {
	clear(r.values)
	clear(r.inputs)
	r.values, r.inputs, r.sites = r.values[:0], r.inputs[:0], r.sites[:0]
	r.epoch++
	r.prog.reset()
	r.prog.Unfused = r.unfused
	r.scalars.reset()
	r.signals.reset()
}

// finish completes the program and puts it into b. It tracks the results that are kept
// with g.
func (r *recording) finish(b *Batch, g *garbage) {
	p := &r.prog
	for i, v := range r.values {
		v.id, v.flushed = b.Base+uint64(i), true
		if p.Instrs[i].Keep = v.refs > 0; v.refs > 0 {
			v.track(g)
		}
	}
	for i, v := range r.inputs {
		p.Externals[i].Donated = v.refs == 0
		b.Inputs = append(b.Inputs, v.id)
	}
	p.NumScalars = len(r.scalars.values)
	r.encoded, r.last = p.Append(r.last[:0]), r.encoded
	if !bytes.Equal(r.encoded, r.last) { // equal where a loop repeats a step
		r.hash = HashOf(r.encoded)
	}
	b.Program, b.Encoded, b.Hash, b.Scalars = p, r.encoded, r.hash, r.scalars.values
}

// full reports whether the program is close to a limit, or has as many operations as the
// session submits at a time.
func (r *recording) full() bool {
	return len(r.prog.Instrs) >= r.most || len(r.inputs) >= MaxExternals/2 ||
		len(r.scalars.values) >= MaxScalars/2 || r.size() > MaxProgramBytes/2
}

// size returns an upper bound of the encoded size.
func (r *recording) size() int {
	p := &r.prog
	return programHeader + len(p.Shapes)*(4+4*MaxRank) + externalBytes*len(p.Externals) + instrBytes*len(p.Instrs) + 4*len(p.Args) + 8*len(p.Ints) +
		signalBytes(len(p.Signals), r.signals.names, len(p.Externals), len(p.Instrs))
}

// record promotes the operands of one instruction, infers its result and appends it.
func (r *recording) record(op Op, ints []int64, args []Arg) (*value, error) {
	if !op.Valid() {
		return nil, fmt.Errorf("%w: %v is no operation", ErrProgram, op)
	}
	info := op.Info()
	tensors := len(args) - len(info.Scalars)
	if tensors < info.MinTensors || tensors > info.MaxTensors {
		least, most := info.MinTensors+len(info.Scalars), info.MaxTensors+len(info.Scalars)
		if least == most {
			return nil, fmt.Errorf("%w: %d arguments, expected %d", ErrShape, len(args), least)
		}
		return nil, fmt.Errorf("%w: %d arguments, expected %d to %d", ErrShape, len(args), least, most)
	}
	r.args = r.args[:0]
	c := &r.inf
	c.op, c.dt, c.sh = op, c.dt[:0], c.sh[:0]
	if c.ints = c.ints[:0]; len(ints) > 0 {
		c.ints = append(c.ints, ints...)
	}
	for i := range args {
		a := &args[i]
		if a.t == nil {
			r.args = append(r.args, ScalarRef(r.scalars.of(op, i, a.f)))
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
		ref, err := r.reference(a.t.v)
		if err != nil {
			return nil, err
		}
		r.args = append(r.args, ref)
		c.dt, c.sh = append(c.dt, a.t.v.dtype), append(c.sh, a.t.v.shape)
	}
	r.promote(op, args[:tensors])
	if len(c.dt) == 2 && c.dt[0] == Bool && c.dt[1] == Bool {
		op = onBools(op)
		info, c.op = op.Info(), op
	}
	narrow := r.widen(op)
	if err := c.infer(info); err != nil {
		return nil, err
	}
	shape := r.result(args)
	if d := c.outDT; narrow != Invalid && d == narrow.Wide() {
		wide := r.instr(op, c.ints, r.args, d, shape)
		r.hide(wide, d, shape)
		r.args = append(r.args[:0], wide)
		return r.emit(OpCast, []int64{int64(narrow)}, narrow, shape), nil
	}
	return r.emit(op, c.ints, c.outDT, shape), nil
}

// result returns the shape that was inferred for an operation of args, most often that of
// the first one.
func (r *recording) result(args []Arg) *sized {
	out := r.inf.outShape
	if len(args) > 0 && args[0].t != nil && len(out) > 0 {
		if x := args[0].t.v.sized; len(x.shape) == len(out) && &x.shape[0] == &out[0] {
			return x
		}
	}
	return r.shapes.of(out)
}

// instr appends an instruction.
func (r *recording) instr(op Op, ints []int64, args []Ref, d DType, shape *sized) Ref {
	p := &r.prog
	i := len(p.Instrs)
	p.Instrs = append(p.Instrs, Instr{
		Op: op, DType: d, NArg: uint16(len(args)), NInt: uint16(len(ints)),
		Arg: uint32(len(p.Args)), Int: uint32(len(p.Ints)), Shape: r.shapeIndex(shape), Signal: r.signals.slot(&r.prog, r.signals.now),
	})
	p.Args = append(p.Args, args...)
	p.Ints = append(p.Ints, ints...)
	if op.Info().Fallible {
		r.sites = append(r.sites, siteMark{instr: i})
	}
	return Ref(i)
}

// hide adds a value without a handle for the last instruction.
func (r *recording) hide(ref Ref, d DType, shape *sized) {
	r.values = append(r.values, &value{s: r.s, dtype: d, sized: shape, epoch: r.epoch, ref: ref})
}

// emit appends an instruction with the arguments in r.args and returns its result.
func (r *recording) emit(op Op, ints []int64, d DType, shape *sized) *value {
	ref := r.instr(op, ints, r.args, d, shape)
	var v *value
	if r.room = nil; r.graph && d.IsFloat() {
		c := &computed{}
		v, r.room = c.value.start(r.s, d, shape), &c.nodeRoom
	} else {
		v = newValue(r.s, d, shape)
	}
	v.epoch, v.ref = r.epoch, ref
	if op.Info().Class == ClassLeaf {
		v.signal = r.signals.now
	}
	r.values = append(r.values, v)
	if n := v.bytes(); n >= largeBytes {
		r.s.large.add(v, n)
	}
	return v
}

// reference returns the name of v in the program. A value of an earlier program becomes
// an external input.
func (r *recording) reference(v *value) (Ref, error) {
	if v.s == nil {
		return 0, ErrNil
	}
	if v.s != r.s {
		return 0, fmt.Errorf("%w: %v belongs to the session on %s, this one is on %s", ErrOtherSession, v, v.s.eng.Name(), r.s.eng.Name())
	}
	if v.refs <= 0 {
		return 0, fmt.Errorf("%w: %v", ErrReleased, v)
	}
	if v.epoch == r.epoch {
		return v.ref, nil
	}
	ref := ExternalRef(len(r.inputs))
	r.inputs = append(r.inputs, v)
	r.prog.Externals = append(r.prog.Externals, External{DType: v.dtype, Shape: r.shapeIndex(v.sized), Signal: r.signals.slot(&r.prog, v.signal)})
	v.epoch, v.ref = r.epoch, ref
	return ref, nil
}
