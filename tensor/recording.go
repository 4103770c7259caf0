package tensor

import (
	"fmt"
	"math"
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
	scalars []float64
	keys    []scalarKey       // of scalars
	slots   map[scalarKey]int // indices in scalars, by where they are used
	shapes  map[shapeKey]uint32
	// Hints are where a scalar or shape of a hash was last found in scalars or
	// prog.Shapes. Most are right, which is quicker to see than to ask the map; a wrong
	// one does no harm.
	scalarHints [hints]uint32
	shapeHints  [hints]uint32
	signals     signals
	encoded     []byte
	most        int  // operations of a program
	unfused     bool // each program

	inf  inference // of the instruction under construction
	args []Ref     // its arguments
}

// scalarKey identifies a scalar by the operation and the argument where it is used. Equal
// scalars with one key become one, so that a learning rate of fifty updates travels once.
// Scalars with different keys stay apart even if they are equal in one step: merging them
// would make it another program.
type scalarKey struct {
	op   Op
	arg  int
	bits uint64
}

// hints is the number of scalars and shapes whose place is guessed: a power of two, more
// than most programs have.
const hints = 64

type shapeKey struct {
	rank int
	dims [MaxRank]int
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
	r.slots, r.shapes, r.places = map[scalarKey]int{}, map[shapeKey]uint32{}, places{}
}

// next begins the next program. It uses the arrays again, which the engine no longer
// reads when Submit has returned.
func (r *recording) next() {
	clear(r.values)
	clear(r.inputs)
	r.values, r.inputs, r.sites, r.scalars, r.keys = r.values[:0], r.inputs[:0], r.sites[:0], r.scalars[:0], r.keys[:0]
	r.epoch++
	r.prog.reset()
	r.prog.Unfused = r.unfused
	clear(r.slots)
	clear(r.shapes)
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
	p.NumScalars = len(r.scalars)
	r.encoded = p.Append(r.encoded[:0])
	b.Program, b.Encoded, b.Hash, b.Scalars = p, r.encoded, HashOf(r.encoded), r.scalars
}

// full reports whether the program is close to a limit, or has as many operations as the
// session submits at a time.
func (r *recording) full() bool {
	return len(r.prog.Instrs) >= r.most || len(r.inputs) >= MaxExternals/2 ||
		len(r.scalars) >= MaxScalars/2 || r.bytes() > MaxProgramBytes/2
}

// bytes returns an upper bound of the encoded size.
func (r *recording) bytes() int {
	p := &r.prog
	return programHeader + len(p.Shapes)*(4+4*MaxRank) + externalBytes*len(p.Externals) + instrBytes*len(p.Instrs) + 4*len(p.Args) + 8*len(p.Ints) +
		signalBytes(len(p.Signals), r.signals.names, len(p.Externals), len(p.Instrs))
}

// record promotes the operands of one instruction, infers its result and appends it.
func (r *recording) record(op Op, ints []int64, args []Arg) (*made, error) {
	if !op.Valid() {
		return nil, fmt.Errorf("%w: %v is no operation", ErrProgram, op)
	}
	info := op.Info()
	tensors := len(args) - len(info.Scalars)
	if tensors < info.MinTensors || tensors > info.MaxTensors {
		return nil, fmt.Errorf("%w: %d arguments, expected %d to %d", ErrShape, len(args), info.MinTensors+len(info.Scalars), info.MaxTensors+len(info.Scalars))
	}
	r.args = r.args[:0]
	c := &r.inf
	c.op, c.dt, c.sh, c.ints = op, c.dt[:0], c.sh[:0], ints
	for i := range args {
		a := &args[i]
		if a.t == nil {
			r.args = append(r.args, ScalarRef(r.scalar(op, i, a.f)))
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
	if d, shape := c.outDT, c.outShape; narrow != Invalid && d == narrow.Wide() {
		wide := r.instr(op, c.ints, r.args, d, shape)
		r.hide(wide, d, shape)
		r.args = append(r.args[:0], wide)
		return r.emit(OpCast, []int64{int64(narrow)}, narrow, shape), nil
	}
	return r.emit(op, c.ints, c.outDT, c.outShape), nil
}

// instr appends an instruction.
func (r *recording) instr(op Op, ints []int64, args []Ref, d DType, shape Shape) Ref {
	p := &r.prog
	i := len(p.Instrs)
	p.Instrs = append(p.Instrs, Instr{
		Op: op, DType: d, NArg: uint16(len(args)), NInt: uint16(len(ints)),
		Arg: uint32(len(p.Args)), Int: uint32(len(p.Ints)), Shape: r.shapeIndex(shape), Signal: r.signals.slot(&r.prog, r.signals.now),
	})
	p.Args = append(p.Args, args...)
	p.Ints = append(p.Ints, ints...)
	if op.Info().Fallible {
		r.sites = append(r.sites, siteMark{i, callersOf(r.s)})
	}
	return Ref(i)
}

// hide adds a value without a handle for the last instruction.
func (r *recording) hide(ref Ref, d DType, shape Shape) {
	r.values = append(r.values, &value{s: r.s, dtype: d, shape: shape, epoch: r.epoch, ref: ref})
}

// emit appends an instruction with the arguments in r.args and returns the handle of its
// result.
func (r *recording) emit(op Op, ints []int64, d DType, shape Shape) *made {
	ref := r.instr(op, ints, r.args, d, shape)
	m := &made{}
	m.Tensor.v = &m.value
	m.value = value{s: r.s, dtype: d, shape: shape, refs: 1, epoch: r.epoch, ref: ref}
	if op.Info().Class == ClassLeaf {
		m.value.signal = r.signals.now
	}
	r.values = append(r.values, &m.value)
	r.s.large.add(&m.value, m.value.bytes())
	return m
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
	r.prog.Externals = append(r.prog.Externals, External{DType: v.dtype, Shape: r.shapeIndex(v.shape), Signal: r.signals.slot(&r.prog, v.signal)})
	v.epoch, v.ref = r.epoch, ref
	return ref, nil
}

func (r *recording) scalar(op Op, arg int, f float64) int {
	k := scalarKey{op, arg, math.Float64bits(f)}
	hint := &r.scalarHints[hashed(uint64(op)<<8+uint64(arg), k.bits)]
	if i := int(*hint); i < len(r.keys) && r.keys[i] == k {
		return i
	}
	i, ok := r.slots[k]
	if !ok {
		i = len(r.scalars)
		r.scalars, r.keys = append(r.scalars, f), append(r.keys, k)
		r.slots[k] = i
	}
	*hint = uint32(i)
	return i
}

func (r *recording) shapeIndex(shape Shape) uint32 {
	p := &r.prog
	h := uint64(len(shape))
	for _, d := range shape {
		h = h*0x9e3779b97f4a7c15 + uint64(d)
	}
	hint := &r.shapeHints[hashed(h, 0)]
	if i := int(*hint); i < len(p.Shapes) && p.Shapes[i].Equal(shape) {
		return *hint
	}
	k := shapeKey{rank: len(shape)}
	copy(k.dims[:], shape)
	i, ok := r.shapes[k]
	if !ok {
		i = uint32(len(p.Shapes))
		p.Shapes = append(p.Shapes, shape)
		r.shapes[k] = i
	}
	*hint = i
	return i
}

// hashed returns which of the hints two words have.
func hashed(a, b uint64) uint64 {
	return ((a^b>>32)*0x9e3779b97f4a7c15 ^ b*0xff51afd7ed558ccd) / (1 << 64 / hints)
}
