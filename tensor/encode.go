package tensor

import (
	"encoding/binary"
	"fmt"
)

// ProgramVersion is the version of the encoding.
//
//	1  2026-11  first
//	2  2026-11  signals, at the end; a program without any is still encoded as version 1
//	3  2026-11  flags; a program without any is still encoded as version 1 or 2
const ProgramVersion = 3

// Flags of a program of version 3: it is Program.Unfused, and it has signals.
const (
	flagUnfused = 1
	flagSignals = 2
)

// The encoding is little endian, and each section is 4-byte aligned:
//
//	| magic "RSP1" | version u16, flags u16
//	| counts u32: externals, instrs, args, ints, dims, shapes, scalars
//	| shapes: rank u8 each, padded to 4 | dims u32 each
//	| externals: dtype u8, donated u8, 0 u16, shape u32
//	| instrs: op u16, dtype u8, keep u8, nargs u16, nints u16, shape u32
//	| args i32 each | ints i64 each
//	| signals: see encode_signals.go
//
// Arguments and attributes are in the order of the instructions, so their offsets are not
// encoded.
const (
	programMagic  = "RSP1"
	programHeader = 8 + 7*4
	externalBytes = 8
	instrBytes    = 12
)

// EncodedSize returns the length of p's encoding in bytes.
func (p *Program) EncodedSize() int {
	dims := 0
	for _, s := range p.Shapes {
		dims += len(s)
	}
	n := programHeader + (len(p.Shapes)+3)&^3 + 4*dims + externalBytes*len(p.Externals) + instrBytes*len(p.Instrs) +
		4*len(p.Args) + 8*len(p.Ints)
	if len(p.Signals) > 0 {
		n += signalBytes(len(p.Signals), p.signalNames(), len(p.Externals), len(p.Instrs))
	}
	return n
}

// Append appends p's encoding to b.
func (p *Program) Append(b []byte) []byte {
	le := binary.LittleEndian
	dims := 0
	for _, s := range p.Shapes {
		dims += len(s)
	}
	b = append(b, programMagic...)
	version, flags := uint16(1), uint16(0)
	switch {
	case p.Unfused && len(p.Signals) > 0:
		version, flags = 3, flagUnfused|flagSignals
	case p.Unfused:
		version, flags = 3, flagUnfused
	case len(p.Signals) > 0:
		version = 2
	}
	b = le.AppendUint16(b, version)
	b = le.AppendUint16(b, flags)
	for _, n := range [...]int{len(p.Externals), len(p.Instrs), len(p.Args), len(p.Ints), dims, len(p.Shapes), p.NumScalars} {
		b = le.AppendUint32(b, uint32(n))
	}
	for _, s := range p.Shapes {
		b = append(b, uint8(len(s)))
	}
	for n := len(p.Shapes); n&3 != 0; n++ {
		b = append(b, 0)
	}
	for _, s := range p.Shapes {
		for _, d := range s {
			b = le.AppendUint32(b, uint32(d))
		}
	}
	for _, e := range p.Externals {
		b = append(b, uint8(e.DType), flag(e.Donated), 0, 0)
		b = le.AppendUint32(b, e.Shape)
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		b = le.AppendUint16(b, uint16(in.Op))
		b = append(b, uint8(in.DType), flag(in.Keep))
		b = le.AppendUint16(b, in.NArg)
		b = le.AppendUint16(b, in.NInt)
		b = le.AppendUint32(b, in.Shape)
	}
	for _, r := range p.Args {
		b = le.AppendUint32(b, uint32(r))
	}
	for _, n := range p.Ints {
		b = le.AppendUint64(b, uint64(n))
	}
	if len(p.Signals) > 0 {
		b = p.appendSignals(b)
	}
	return b
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// reader reads an encoding whose length has been checked against the counts.
type reader struct{ b []byte }

func (r *reader) u8() uint8   { v := r.b[0]; r.b = r.b[1:]; return v }
func (r *reader) u16() uint16 { v := binary.LittleEndian.Uint16(r.b); r.b = r.b[2:]; return v }
func (r *reader) u32() uint32 { v := binary.LittleEndian.Uint32(r.b); r.b = r.b[4:]; return v }
func (r *reader) u64() uint64 { v := binary.LittleEndian.Uint64(r.b); r.b = r.b[8:]; return v }

func malformed(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrProgram}, a...)...)
}

// ParseProgram decodes and checks a program from another process: the counts against the
// limits and the length, every reference, and every dtype and shape by inference. The
// result shares no memory with b.
func ParseProgram(b []byte) (*Program, error) {
	if len(b) > MaxProgramBytes {
		return nil, malformed("%d bytes, at most %d", len(b), MaxProgramBytes)
	}
	if len(b) < programHeader || string(b[:4]) != programMagic {
		return nil, malformed("%d bytes without the magic %q", len(b), programMagic)
	}
	r := reader{b[4:]}
	version, flags := r.u16(), r.u16()
	if version < 1 || version > ProgramVersion {
		return nil, malformed("version %d, expected 1 to %d", version, ProgramVersion)
	}
	signals := version == 2 || flags&flagSignals != 0
	// A program has one encoding.
	if unfused := flags&^flagSignals == flagUnfused; unfused != (version == 3) || version < 3 && flags != 0 {
		return nil, malformed("flags %#x in version %d", flags, version)
	}
	var n [7]int
	for i := range n {
		n[i] = int(r.u32())
	}
	externals, instrs, args, ints, dims, shapes, scalars := n[0], n[1], n[2], n[3], n[4], n[5], n[6]
	if externals > MaxExternals || instrs > MaxInstrs || scalars > MaxScalars {
		return nil, malformed("%d inputs, %d instructions, %d scalars; at most %d, %d, %d", externals, instrs, scalars, MaxExternals, MaxInstrs, MaxScalars)
	}
	want := programHeader + int64(shapes+3)&^3 + 4*int64(dims) + externalBytes*int64(externals) + instrBytes*int64(instrs) + 4*int64(args) + 8*int64(ints)
	if want != int64(len(b)) && !(signals && want < int64(len(b))) { // signals follow
		return nil, malformed("%d bytes, its counts need %d", len(b), want)
	}
	p := &Program{
		Externals: make([]External, externals), Instrs: make([]Instr, instrs), Args: make([]Ref, args),
		Ints: make([]int64, ints), Shapes: make([]Shape, shapes), NumScalars: scalars, Unfused: flags&flagUnfused != 0,
	}
	if err := p.parseShapes(&r, dims); err != nil {
		return nil, err
	}
	for i := range p.Externals {
		e := &p.Externals[i]
		e.DType, e.Donated = DType(r.u8()), r.u8() == 1
		r.u16()
		e.Shape = r.u32()
		if !e.DType.Valid() || int(e.Shape) >= shapes {
			return nil, malformed("input %d has %v and shape %d of %d", i, e.DType, e.Shape, shapes)
		}
	}
	arg, at := uint64(0), uint64(0)
	for i := range p.Instrs {
		in := &p.Instrs[i]
		in.Op, in.DType, in.Keep = Op(r.u16()), DType(r.u8()), r.u8() == 1
		in.NArg, in.NInt, in.Shape = r.u16(), r.u16(), r.u32()
		in.Arg, in.Int = uint32(arg), uint32(at)
		arg, at = arg+uint64(in.NArg), at+uint64(in.NInt)
		if !in.Op.Valid() || int(in.Shape) >= shapes || arg > uint64(args) || at > uint64(ints) {
			return nil, malformed("instruction %d: %v, shape %d of %d, %d arguments of %d", i, in.Op, in.Shape, shapes, arg, args)
		}
	}
	if arg != uint64(args) || at != uint64(ints) {
		return nil, malformed("%d arguments and %d attributes are left over", uint64(args)-arg, uint64(ints)-at)
	}
	for i := range p.Args {
		p.Args[i] = Ref(int32(r.u32()))
	}
	for i := range p.Ints {
		p.Ints[i] = int64(r.u64())
	}
	if signals {
		if err := p.parseSignals(&r); err != nil {
			return nil, err
		}
	}
	return p, p.check()
}

// parseShapes reads the table of shapes, which have dims dims in all.
func (p *Program) parseShapes(r *reader, dims int) error {
	for i := range p.Shapes {
		rank := int(r.u8())
		if rank > MaxRank || rank > dims {
			return malformed("shape %d has %d dims", i, rank)
		}
		dims -= rank
		p.Shapes[i] = make(Shape, rank)
	}
	if dims != 0 {
		return malformed("%d dims too many", dims)
	}
	for k := len(p.Shapes); k&3 != 0; k++ {
		if r.u8() != 0 {
			return malformed("padding is not 0")
		}
	}
	for _, s := range p.Shapes {
		for j := range s {
			s[j] = int(r.u32())
		}
		if err := s.Check(); err != nil {
			return malformed("%w", err)
		}
	}
	return nil
}

// check verifies the references and infers every instruction again.
func (p *Program) check() error {
	var c inference
	for i := range p.Instrs {
		in := &p.Instrs[i]
		info := in.Op.Info()
		args := p.ArgsOf(i)
		tensors := len(args) - len(info.Scalars)
		if tensors < info.MinTensors || tensors > info.MaxTensors {
			return malformed("instruction %d: %v with %d arguments", i, in.Op, len(args))
		}
		c.op, c.dt, c.sh, c.ints = in.Op, c.dt[:0], c.sh[:0], p.IntsOf(i)
		for k, r := range args {
			scalar := false
			if j, ok := r.Instr(); ok && j >= i {
				return malformed("instruction %d uses the result of %d", i, j)
			} else if j, ok := r.External(); ok && j >= len(p.Externals) {
				return malformed("instruction %d uses input %d of %d", i, j, len(p.Externals))
			} else if j, ok := r.Scalar(); ok {
				if scalar = true; j >= p.NumScalars {
					return malformed("instruction %d uses scalar %d of %d", i, j, p.NumScalars)
				}
			}
			if k >= tensors {
				if !scalar {
					return malformed("instruction %d: argument %d of %v is no scalar", i, k, in.Op)
				}
				continue
			}
			if scalar && (!info.Weak || in.Op == OpWhere && k == 0) {
				return malformed("instruction %d: argument %d of %v is a scalar", i, k, in.Op)
			}
			d, s := p.TypeOf(r)
			c.dt, c.sh = append(c.dt, d), append(c.sh, s)
		}
		if err := c.infer(info); err != nil {
			return malformed("instruction %d: %v: %w", i, in.Op, err)
		}
		if c.outDT != in.DType || !c.outShape.Equal(p.Shapes[in.Shape]) {
			return malformed("instruction %d: %v gives %v%v, not %v%v", i, in.Op, c.outDT, c.outShape, in.DType, p.Shapes[in.Shape])
		}
	}
	return nil
}
