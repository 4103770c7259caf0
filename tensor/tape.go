package tensor

import (
	"fmt"
	"strings"
)

// Tape returns a copy of the program that is being recorded: what the next sync point
// submits, if nothing is recorded before it. It is empty after a sync point. Package
// explain shows the plan that it is compiled to, package shard how it is rewritten for
// several workers, and `ringside plan dump --program` both, of a file with
// Append(nil). The error is ErrConcurrent or ErrClosed.
func (s *Session) Tape() (*Program, error) {
	if err := s.enter("tape"); err != nil {
		return nil, err
	}
	defer s.leave()
	p := s.rec.prog.Clone()
	for i, v := range s.rec.values {
		p.Instrs[i].Keep = v.refs > 0
	}
	for i, v := range s.rec.inputs {
		p.Externals[i].Donated = v.refs == 0
	}
	p.NumScalars = len(s.rec.scalars.values)
	return p, nil
}

// Explainer is implemented by an Engine that can tell how the bytes of its session
// travel.
type Explainer interface {
	// Explain returns a line for each path: between which processes it is, what it is,
	// and why it is not a faster one.
	Explain() []string
}

// Explain says of t, without reading it or waiting for it: where it is (an instruction of
// the program being recorded, or a value of the engine), its signal, and the paths that
// bytes take to the engine and back.
func (s *Session) Explain(t *Tensor) (string, error) {
	if err := s.enter("explain"); err != nil {
		return "", err
	}
	defer s.leave()
	var b strings.Builder
	v := t.v
	switch {
	case v.failed() != nil:
		return "", v.failed()
	case v.s != s:
		return "", fmt.Errorf("%w: %v belongs to the session on %s, this one is on %s", ErrOtherSession, v, v.s.eng.Name(), s.eng.Name())
	case v.refs <= 0:
		return "", fmt.Errorf("%w: %v", ErrReleased, v)
	case v.flushed:
		fmt.Fprintf(&b, "%v: value %d of %s\n", v, v.id, s.eng.Name())
	default:
		where := "an upload that goes with the next program"
		if i, ok := v.ref.Instr(); ok && v.epoch == s.rec.epoch {
			where = fmt.Sprintf("recorded, not submitted yet: instruction %%%d, %v, of the tape", i, s.rec.prog.Instrs[i].Op)
		}
		fmt.Fprintf(&b, "%v: %s, to %s\n", v, where, s.eng.Name())
	}
	if v.signal > 0 {
		fmt.Fprintf(&b, "signal: %v\n", s.rec.signals.all[v.signal-1])
	}
	if e, ok := s.eng.(Explainer); ok {
		for _, line := range e.Explain() {
			fmt.Fprintf(&b, "path: %s\n", line)
		}
	}
	return b.String(), nil
}
