package turn

import (
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// TestStep tests that an event outside of the table is an error and changes nothing.
func TestStep(t *testing.T) {
	for role := range roles {
		for state := range states {
			for e := range Event(255) {
				x := Turn{role, state}
				says, err := x.Step(e)
				known := e < events && changes[role][state][e].exists
				switch {
				case known != (err == nil):
					t.Errorf("%+v, %v: %v", Turn{role, state}, e, err)
				case !known && (x != Turn{role, state} || says):
					t.Errorf("%+v, %v: an error, and %+v", Turn{role, state}, e, x)
				case says && role != First:
					t.Errorf("%+v, %v: only the first worker says that a turn is over", Turn{role, state}, e)
				}
			}
		}
	}
}

// TestLine tests the order in which a Line gives turns.
func TestLine(t *testing.T) {
	type said struct {
		session uint64
		what    wire.TurnWhat
	}
	var got []said
	l := NewLine(func(s *Session[string], what wire.TurnWhat) { got = append(got, said{s.ID, what}) })
	expect := func(want ...said) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("the line says %v, want %v", got, want)
		}
		got = nil
	}
	a := l.Join(1, []string{"w0", "w1"})
	hear := func(s *Session[string], what wire.TurnWhat) {
		t.Helper()
		if err := l.Hear(s, what); err != nil {
			t.Error(err)
		}
	}
	hear(a, wire.TurnAsk)
	expect(said{1, wire.TurnOpen})
	b := l.Join(2, []string{"w1", "w2"})
	c := l.Join(3, []string{"w0", "w1"})
	hear(b, wire.TurnAsk)
	expect(said{1, wire.TurnBack})
	if l.MayForward(c) {
		t.Error("a message is forwarded to workers that are held")
	}
	hear(a, wire.TurnOver)
	expect(said{2, wire.TurnOne})
	hear(a, wire.TurnAsk)
	hear(b, wire.TurnOver)
	expect() // c stands before a
	if !l.MayForward(c) {
		t.Error("the oldest in the line, with free workers, may not forward")
	}
	l.Forwarded(c)
	expect(said{1, wire.TurnOne})
	for _, what := range []wire.TurnWhat{wire.TurnAsk, wire.TurnOne, wire.TurnOpen, wire.TurnBack, 200} {
		err := l.Hear(a, what)
		if err == nil || !strings.Contains(err.Error(), Event(what).String()) {
			t.Errorf("Turn %d is heard of a session with the turn: %v", what, err)
		}
	}
	l.Leave(b)
	l.Leave(c)
	l.Leave(a)
	if len(l.holder)+len(l.shared)+len(l.waiting) != 0 {
		t.Errorf("behind all sessions: %+v", l)
	}
	expect()
}
