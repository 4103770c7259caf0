package tensor

import (
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Limits of signals: the length of a name in bytes, and the number of signals of a
// program and of a session.
const (
	MaxSignalName = 128
	MaxSignals    = 4096
)

// Signal is a name for a part of a program, to which a placement on workers can be
// attached. Backward marks the backward pass of the operations recorded under the name. A
// signal changes no result; without a placement it has no effect.
type Signal struct {
	Name     string
	Backward bool
}

// String returns the name, with a tick for the backward pass.
func (g Signal) String() string {
	if g.Backward {
		return g.Name + "'"
	}
	return g.Name
}

// CheckSignalName returns an error for a name that no signal can have. A name has 1 to
// MaxSignalName bytes of UTF-8 without spaces and control characters.
func CheckSignalName(name string) error {
	if name == "" || len(name) > MaxSignalName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: name %.80q, expected 1 to %d bytes of UTF-8", ErrSignal, name, MaxSignalName)
	}
	for _, r := range name {
		if unicode.IsControl(r) || unicode.IsSpace(r) {
			return fmt.Errorf("%w: name %q, expected no spaces and no control characters", ErrSignal, name)
		}
	}
	return nil
}

// Signal runs f under the signal of that name: the operations that f records belong to
// it. Scopes nest, and the inner one counts. Gradients of these operations belong to the
// backward signal of the name, wherever they are requested.
//
// A placement of the signal applies to the tensors that f makes from data or constants
// (From, Zeros, RandN), and chooses the workers that run its operations; see
// tensor/shard/config. Results of operations lie where that is cheapest; Tensor.Signal
// names a single result. Without a placement Signal(name, f) is the same as f().
//
// An invalid name (see CheckSignalName), or one more than MaxSignals, is ErrSignal, which
// sticks to the session; f runs anyway.
func (s *Session) Signal(name string, f func()) { s.under(Signal{Name: name}, f) }

func (s *Session) under(g Signal, f func()) {
	before := s.rec.signals.now
	s.rec.signals.now = s.signalNumber(g)
	defer func() { s.rec.signals.now = before }()
	f()
}

// signalNumber returns g's number in the session, or 0 and a sticky error if it can't
// have one.
func (s *Session) signalNumber(g Signal) uint16 {
	n, err := s.rec.signals.number(g)
	if err != nil {
		s.fail(&OpError{Op: "signal", Site: callSite(), Err: err})
	}
	return n
}

// signals numbers the signals of a session, and those of the program being recorded.
type signals struct {
	now   uint16            // number of the signal that new instructions get, 0 for none
	all   []Signal          // of the session: number n at n-1
	ids   map[Signal]uint16 // their numbers
	slots []uint16          // their numbers in Program.Signals, 0 for none yet
	names int               // bytes of the names in Program.Signals

	unfuses func(signal string) bool // see Unfuser; nil for an engine that is none
	unfused []bool                   // parallel to all
}

// number returns g's number in the session, from 1.
func (t *signals) number(g Signal) (uint16, error) {
	if n, ok := t.ids[g]; ok {
		return n, nil
	}
	if err := CheckSignalName(g.Name); err != nil {
		return 0, err
	}
	if len(t.all) == MaxSignals {
		return 0, fmt.Errorf("%w: %v is one more than %d", ErrSignal, g, MaxSignals)
	}
	if t.ids == nil {
		t.ids = map[Signal]uint16{}
	}
	t.all = append(t.all, g)
	t.unfused = append(t.unfused, t.unfuses != nil && t.unfuses(g.Name))
	t.slots = append(t.slots, 0)
	t.ids[g] = uint16(len(t.all))
	return t.ids[g], nil
}

// slot returns the number in p, the program being recorded, of signal n of the session.
// It adds the signal to p if p doesn't have it.
func (t *signals) slot(p *Program, n uint16) uint16 {
	if n == 0 {
		return 0
	}
	slot := &t.slots[n-1]
	if *slot == 0 {
		p.Signals = append(p.Signals, t.all[n-1])
		*slot = uint16(len(p.Signals))
		t.names += len(t.all[n-1].Name)
		p.Unfused = p.Unfused || t.unfused[n-1]
	}
	return *slot
}

// reset begins another program.
func (t *signals) reset() {
	clear(t.slots)
	t.names = 0
}

// Signal gives t alone the signal of that name, whatever scope it was made in, and
// returns t. A placement of the signal then applies to t for all later uses, even if t is
// the result of an operation. A tensor that is assigned (Assign) keeps its signal.
func (t *Tensor) Signal(name string) *Tensor {
	v := t.v
	if v.failed() != nil {
		return t
	}
	s := v.s
	if err := s.enter("signal"); err != nil {
		return poisoned(s, err)
	}
	defer s.leave()
	n := s.signalNumber(Signal{Name: name})
	if n == 0 {
		return t
	}
	v.signal = n
	if v.epoch == s.rec.epoch {
		if i, ok := v.ref.Instr(); ok {
			s.rec.prog.Instrs[i].Named = s.rec.signals.slot(&s.rec.prog, n)
		} else if i, ok := v.ref.External(); ok {
			s.rec.prog.Externals[i].Signal = s.rec.signals.slot(&s.rec.prog, n)
		}
	}
	return t
}

// SignalName returns the name of the signal that t was made or named with, or "".
func (t *Tensor) SignalName() string {
	if n := t.v.signal; n != 0 {
		return t.v.s.rec.signals.all[n-1].Name
	}
	return ""
}

// Backward runs f, which records the gradients of n, under the backward signal of n. It
// is for packages that compute gradients.
func (n *Node) Backward(f func() error) error {
	s := n.out.s
	if n.signal == 0 {
		return f()
	}
	var err error
	s.under(Signal{s.rec.signals.all[n.signal-1].Name, true}, func() { err = f() })
	return err
}

// NameGradient gives g, the gradient of n's result, the backward signal of that result's
// name. It has no effect unless the result was named (Tensor.Signal), g was computed in
// the program being recorded, and g has no name. It is for packages that compute
// gradients.
func (n *Node) NameGradient(g *Tensor) {
	s := n.out.s
	if n.out.signal == 0 || g.v.failed() != nil || g.v.epoch != s.rec.epoch {
		return
	}
	i, ok := g.v.ref.Instr()
	if !ok || s.rec.prog.Instrs[i].Named != 0 {
		return
	}
	if k := s.signalNumber(Signal{s.rec.signals.all[n.out.signal-1].Name, true}); k != 0 {
		s.rec.prog.Instrs[i].Named = s.rec.signals.slot(&s.rec.prog, k)
	}
}

// Signals returns the signals of the session in the order of their first use.
func (s *Session) Signals() []Signal {
	if err := s.enter("signals"); err != nil {
		return nil
	}
	defer s.leave()
	return slices.Clone(s.rec.signals.all)
}

// SignalOf returns the signal that instruction r was recorded under, or that external
// input r was made or named with.
func (p *Program) SignalOf(r Ref) (Signal, bool) {
	n := uint16(0)
	if i, ok := r.Instr(); ok {
		n = p.Instrs[i].Signal
	} else if i, ok := r.External(); ok {
		n = p.Externals[i].Signal
	}
	return p.signal(n)
}

// NameOf returns the signal of the result of instruction i alone (Tensor.Signal).
func (p *Program) NameOf(i int) (Signal, bool) { return p.signal(p.Instrs[i].Named) }

func (p *Program) signal(n uint16) (Signal, bool) {
	if n == 0 {
		return Signal{}, false
	}
	return p.Signals[n-1], true
}
