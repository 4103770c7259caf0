package cluster_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// registers is how many tensors a session of a history has.
const registers = 3

// act is what happens to one session of a history.
type act struct {
	session int
	kind    actKind

	reg, from int   // actWrite, actAdd, actRead: reg; actCopy: from from to reg
	value     int64 // written or added
	waits     bool  // for the worker's answer; reads and openings always do

	// of actHarm
	hosts bool // a process is killed that runs the session's programs
	ends  bool // no answer can come afterwards
}

type actKind string

const (
	actOpen  actKind = "open"
	actWrite actKind = "write"
	actAdd   actKind = "add"
	actCopy  actKind = "copy"
	actRead  actKind = "read"
	actClose actKind = "close"
	actHarm  actKind = "harm" // a process is killed, or a link cut
)

// answer is what an act gave.
type answer struct {
	outcome outcome
	value   int64 // read
}

type outcome string

const (
	fine      outcome = "fine"
	lost      outcome = "lost"   // client.ErrLost
	wasClosed outcome = "closed" // tensor.ErrClosed
)

// life is the state of a session.
type life struct {
	open, closed bool
	unhosted     bool // a process that it is placed on was dead before it opened
	harmed       bool // it may be lost
	ended        bool // it can't answer
	lost         bool // an act was told so
	values       [registers]int64
}

// next is the state after an act, and whether the answer is possible.
func (l life) next(a act, got answer) (bool, life) {
	switch a.kind {
	case actOpen:
		ok := !l.open && !l.unhosted
		l.open = true
		return ok, l
	case actHarm:
		if !l.open {
			l.unhosted = l.unhosted || a.hosts
			return true, l
		}
		l.harmed, l.ended = true, l.ended || a.ends
		return true, l
	case actClose:
		l.closed = true
		return l.open, l
	}
	switch got.outcome {
	case wasClosed:
		return l.closed, l
	case lost:
		l.lost = true
		return l.harmed, l
	}
	ok := l.open && !l.closed && !l.lost && (!l.ended || !a.waits)
	switch a.kind {
	case actWrite:
		l.values[a.reg] = a.value
	case actAdd:
		l.values[a.reg] += a.value
	case actCopy:
		l.values[a.reg] = l.values[a.from]
	case actRead:
		ok = ok && l.values[a.reg] == got.value
	}
	return ok, l
}

// sessionModel is the model of all sessions. It says of each that
//
//   - it reads what its programs wrote last, each of which ran once;
//   - it is placed on processes that live;
//   - it is lost only if a process or a link that it needs is, and then for good;
//   - it answers no call that began when it was closed or could not be reached.
var sessionModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		of := map[int][]porcupine.Operation{}
		for _, op := range history {
			id := op.Input.(act).session
			of[id] = append(of[id], op)
		}
		var all [][]porcupine.Operation
		for _, h := range of {
			all = append(all, h)
		}
		return all
	},
	Init: func() any { return life{} },
	Step: func(state, in, out any) (bool, any) {
		ok, l := state.(life).next(in.(act), out.(answer))
		return ok, l
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v: %+v", in, out) },
}

// TestSessionModel gives the model histories that are possible and histories that are
// not. Each is written as acts at two times, one digit each, and begins with an opening
// at 01.
func TestSessionModel(t *testing.T) {
	ok, gone, shut := answer{outcome: fine}, answer{outcome: lost}, answer{outcome: wasClosed}
	value := func(v int64) answer { return answer{fine, v} }
	at := func(call, end int64, a act, got answer) porcupine.Operation {
		a.waits = a.waits || a.kind == actRead || a.kind == actOpen
		return porcupine.Operation{Input: a, Output: got, Call: call, Return: end}
	}
	var (
		write, add = act{kind: actWrite, value: 5}, act{kind: actAdd, value: 2}
		read       = act{kind: actRead}
		cut        = act{kind: actHarm, ends: true}
		death      = act{kind: actHarm, hosts: true, ends: true}
		other      = act{kind: actHarm} // of a process that it may not need
		shutting   = act{kind: actClose}
	)
	for name, c := range map[string]struct {
		possible bool
		then     []porcupine.Operation
	}{
		"what was written and added": {true, []porcupine.Operation{at(2, 3, write, ok), at(4, 5, add, ok), at(6, 7, read, value(7))}},
		"a value of no program":      {false, []porcupine.Operation{at(2, 3, write, ok), at(6, 7, read, value(6))}},
		"a program that ran twice":   {false, []porcupine.Operation{at(2, 3, write, ok), at(4, 5, add, ok), at(6, 7, read, value(9))}},
		"a program that did not run": {false, []porcupine.Operation{at(2, 3, write, ok), at(4, 5, add, ok), at(6, 7, read, value(5))}},
		"an old value":               {false, []porcupine.Operation{at(2, 3, write, ok), at(4, 5, read, value(0))}},
		"lost by a death":            {true, []porcupine.Operation{at(2, 3, death, ok), at(4, 5, read, gone), at(6, 7, write, gone)}},
		"lost amid a death":          {true, []porcupine.Operation{at(2, 5, death, ok), at(3, 4, read, gone)}},
		"lost before a death":        {false, []porcupine.Operation{at(2, 3, read, gone), at(4, 5, death, ok)}},
		"lost for no reason":         {false, []porcupine.Operation{at(2, 3, read, gone)}},
		"lost and alive again":       {false, []porcupine.Operation{at(2, 3, other, ok), at(4, 5, read, gone), at(6, 7, read, value(0))}},
		"a death that it survives":   {true, []porcupine.Operation{at(2, 3, other, ok), at(4, 5, read, value(0))}},
		"an answer of the dead":      {false, []porcupine.Operation{at(2, 3, death, ok), at(4, 5, read, value(0))}},
		"an answer over a cut link":  {false, []porcupine.Operation{at(2, 3, cut, ok), at(4, 5, read, value(0))}},
		"placed on the dead":         {false, []porcupine.Operation{at(-3, -2, death, ok), at(4, 5, read, value(0))}},
		"closed":                     {true, []porcupine.Operation{at(2, 3, shutting, ok), at(4, 5, read, shut)}},
		"closed amid a read":         {true, []porcupine.Operation{at(2, 4, shutting, ok), at(3, 5, read, shut)}},
		"not closed":                 {false, []porcupine.Operation{at(4, 5, read, shut)}},
		"an answer when closed":      {false, []porcupine.Operation{at(2, 3, shutting, ok), at(4, 5, read, value(0))}},
		"opened twice":               {false, []porcupine.Operation{at(2, 3, act{kind: actOpen}, ok)}},
	} {
		history := slices.Concat([]porcupine.Operation{at(0, 1, act{kind: actOpen}, ok)}, c.then)
		if got := porcupine.CheckOperations(sessionModel, history); got != c.possible {
			t.Errorf("%s: %v, expected %v", name, got, c.possible)
		}
	}
}
