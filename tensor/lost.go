package tensor

import (
	"errors"
	"fmt"
	"strings"
	"weak"
)

// label is the name of a tensor that may have been collected.
type label struct {
	name string
	t    weak.Pointer[Tensor]
}

// Name gives tensors names for messages and replaces the names given before: the error of
// a lost session lists the named tensors that existed. It keeps no tensor alive.
func (s *Session) Name(ts ...Named) {
	s.labels = s.labels[:0]
	for _, t := range ts {
		s.labels = append(s.labels, label{t.Name, weak.Make(t.T)})
	}
}

// lost adds the number of lost tensors, and the names of some, to an error that ends the
// session.
func (s *Session) lost(err error) error {
	if !errors.Is(err, ErrLost) {
		return err
	}
	const most = 8
	var names []string
	for _, l := range s.labels {
		t := l.t.Value()
		if t != nil && t.v.failed() == nil && t.v.refs > 0 && len(names) < most {
			names = append(names, l.name)
		}
	}
	text := fmt.Sprintf("%d tensors are lost with it", s.stats.Live)
	if s.stats.Live == 1 {
		text = "1 tensor is lost with it"
	}
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
		if n := s.stats.Live - len(names); n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
	}
	return fmt.Errorf("%w; %s", err, text)
}
