package tensor

import "encoding/binary"

// The signals are at the end of an encoding of version 2:
//
//	| signals, bytes of names u32
//	| signals: backward u8, length of the name u8 each, padded to 4 | names, padded to 4
//	| externals: signal u16 each, padded to 4 | instrs: signal, named u16 each
//
// A signal is named by its position in the table from 1; 0 is none.
const signalHeader = 8

func pad4(n int) int { return (n + 3) &^ 3 }

// signalBytes returns the length of the section for these counts; names counts bytes.
func signalBytes(signals, names, externals, instrs int) int {
	return signalHeader + pad4(2*signals) + pad4(names) + pad4(2*externals) + 4*instrs
}

func (p *Program) signalNames() (n int) {
	for _, g := range p.Signals {
		n += len(g.Name)
	}
	return n
}

func (p *Program) appendSignals(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(p.Signals)))
	b = le.AppendUint32(b, uint32(p.signalNames()))
	fill := func(n int) {
		for ; n&3 != 0; n++ {
			b = append(b, 0)
		}
	}
	for _, g := range p.Signals {
		b = append(b, flag(g.Backward), uint8(len(g.Name)))
	}
	fill(2 * len(p.Signals))
	for _, g := range p.Signals {
		b = append(b, g.Name...)
	}
	fill(p.signalNames())
	for _, e := range p.Externals {
		b = le.AppendUint16(b, e.Signal)
	}
	fill(2 * len(p.Externals))
	for i := range p.Instrs {
		b = le.AppendUint16(b, p.Instrs[i].Signal)
		b = le.AppendUint16(b, p.Instrs[i].Named)
	}
	return b
}

// parseSignals reads the section, the rest of r, into p, whose externals and instructions
// are complete.
func (p *Program) parseSignals(r *reader) error {
	if len(r.b) < signalHeader {
		return malformed("%d bytes of signals", len(r.b))
	}
	have := len(r.b)
	n, names := int64(r.u32()), int64(r.u32())
	if n < 1 || n > MaxSignals || names > n*MaxSignalName {
		return malformed("%d signals with names of %d bytes, expected 1 to %d of at most %d each", n, names, MaxSignals, MaxSignalName)
	}
	if want := signalBytes(int(n), int(names), len(p.Externals), len(p.Instrs)); want != have {
		return malformed("%d bytes of signals, their counts need %d", have, want)
	}
	skip := func(n int) error {
		for ; n&3 != 0; n++ {
			if r.u8() != 0 {
				return malformed("padding of signals is not 0")
			}
		}
		return nil
	}
	p.Signals = make([]Signal, n)
	lens, sum := make([]int, n), 0
	for i := range p.Signals {
		back := r.u8()
		if back > 1 {
			return malformed("signal %d has flags %d", i, back)
		}
		p.Signals[i].Backward, lens[i] = back == 1, int(r.u8())
		sum += lens[i]
	}
	if int64(sum) != names {
		return malformed("names of signals have %d bytes, expected %d", sum, names)
	}
	if err := skip(2 * int(n)); err != nil {
		return err
	}
	seen := make(map[Signal]bool, n)
	for i := range p.Signals {
		g := &p.Signals[i]
		g.Name = string(r.b[:lens[i]])
		r.b = r.b[lens[i]:]
		if err := CheckSignalName(g.Name); err != nil {
			return malformed("signal %d: %w", i, err)
		}
		if seen[*g] {
			return malformed("signal %d: %v is a duplicate", i, g)
		}
		seen[*g] = true
	}
	if err := skip(sum); err != nil {
		return err
	}
	for i := range p.Externals {
		e := &p.Externals[i]
		if e.Signal = r.u16(); int64(e.Signal) > n {
			return malformed("input %d has signal %d of %d", i, e.Signal, n)
		}
	}
	if err := skip(2 * len(p.Externals)); err != nil {
		return err
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if in.Signal, in.Named = r.u16(), r.u16(); int64(in.Signal) > n || int64(in.Named) > n {
			return malformed("instruction %d has signals %d and %d of %d", i, in.Signal, in.Named, n)
		}
	}
	return nil
}
