package main

import (
	"fmt"
	"math"
	"slices"
)

// firstChosen is the least number of a tensor that the caller chooses. Those that put
// returns are below it.
const firstChosen = 1 << 62

// Numbers of calls in a record that are not of the op table.
const (
	callLine      = 1<<opBits - 3 // the line that the next operation is of
	callGradients = 1<<opBits - 2
	callStep      = 1<<opBits - 1 // of an optimizer
)

// batch has the results of a record that is under way, by number. Most are dropped at its
// end: a table of all tensors never has them.
//
// made has room for as many as the record has words, since a call of a result has
// several. A caller counts its numbers up, so most are between first and its end; the
// others are put into the table at once.
type batch struct {
	first int64 // number of made[0]; 0 before there is one
	made  []*held
}

// find returns the result of a number, or nil: also before there is a first one, as all
// of made is nil then.
func (b *batch) find(id int64) *held {
	if i := uint64(id - b.first); i < uint64(len(b.made)) {
		return b.made[i]
	}
	return nil
}

// record makes the calls of words in the session of b, and drops the tensors in dead. It
// returns the first error: the other calls are made.
func (b *batch) record(s *session, words, dead []int64) (err error) {
	defer b.end(s)
	b.first, b.made = 0, slices.Grow(b.made, len(words))[:len(words)]
	for len(words) > 0 {
		rest, failed := b.one(s, words)
		if failed != nil && err == nil {
			err = failed
		}
		words = rest
	}
	for _, id := range dead {
		if h := b.find(id); h != nil {
			b.made[id-b.first] = nil
			h.release()
		} else {
			s.drop([]int64{id})
		}
	}
	return err
}

// end moves the results that are left to the table of all tensors, also after a panic:
// the next record has other numbers.
func (b *batch) end(s *session) {
	for i, h := range b.made {
		if h != nil {
			s.tensors[b.first+int64(i)] = h
		}
	}
	clear(b.made)
	b.made = b.made[:0]
	s.line = ""
}

// one makes the first call of words and returns the words after it.
func (b *batch) one(s *session, words []int64) (rest []int64, err error) {
	h := parseHead(uint64(words[0]))
	if h.op >= callLine {
		return b.other(s, words)
	}
	end := 2 + h.args + h.ints
	if len(words) < end {
		return nil, fmt.Errorf("%w: %d words of a call of %v, expected %d", errArgument, len(words), h.op, end)
	}
	id, rest := words[1], words[end:]
	if err := b.unused(s, id); err != nil {
		return rest, err
	}
	t, err := operate(s, h, words[2:end])
	s.line = ""
	if err == nil && t.Err() != nil {
		err = s.end(t.Err())
	}
	if err != nil {
		return rest, err
	}
	b.hold(s, id, newHeld(s, t, s.in))
	return rest, nil
}

// other makes a call that is not of the op table: a head, the number of words that
// follow, and these.
func (b *batch) other(s *session, words []int64) (rest []int64, err error) {
	if len(words) < 2 || words[1] < 0 || words[1] > int64(len(words)-2) {
		return nil, fmt.Errorf("%w: %d words left of a call, which begins with %d", errArgument, len(words), words[:min(len(words), 2)])
	}
	call, rest := words[2:2+words[1]], words[2+words[1]:]
	op := parseHead(uint64(words[0])).op
	if op == callLine && len(call) == 1 {
		s.line = lines.name(int(call[0]))
		return rest, nil
	}
	defer func() { s.line = "" }()
	switch {
	case op == callGradients && len(call) >= 3 && len(call)%2 == 1:
		err = b.gradients(s, call)
	case op == callStep && len(call) >= 3:
		err = step(s, call)
	default:
		err = fmt.Errorf("%w: %d words of call %d", errArgument, len(call), op)
	}
	return rest, err
}

// gradients computes gradients: of a loss, with the gradient of that or 0, by flags, and
// with respect to tensors, each of which is followed by its gradient's number.
func (b *batch) gradients(s *session, call []int64) error {
	loss, output, flags, pairs := call[0], call[1], call[2], call[3:]
	xs := make([]int64, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		if err := b.unused(s, pairs[i+1]); err != nil {
			return err
		}
		xs = append(xs, pairs[i])
	}
	gs, err := s.grad(loss, output, int(flags), xs)
	for i, g := range gs {
		id := pairs[2*i+1]
		if twice := b.unused(s, id); twice != nil {
			err = twice
			g.release()
		} else {
			b.hold(s, id, g)
		}
	}
	return err
}

// step takes a step of an optimizer: its handle, the bits of the learning rate and of the
// norm to which gradients are clipped, and the gradients; without any those that backward
// left.
func step(s *session, call []int64) error {
	o, err := get[*optimizer](&all, uint64(call[0]))
	if err != nil {
		return err
	}
	if o.s != s {
		return fmt.Errorf("%w: optimizer %d is of another session", errArgument, call[0])
	}
	grads := call[3:]
	if len(grads) == 0 {
		grads = nil
	}
	return o.step(math.Float64frombits(uint64(call[1])), math.Float64frombits(uint64(call[2])), grads)
}

// unused returns an error if no new tensor may have the number id.
func (b *batch) unused(s *session, id int64) error {
	if id < firstChosen || b.find(id) != nil || s.tensors[id] != nil {
		return fmt.Errorf("%w: number %d of a result, expected an unused one of at least %d", errHandle, id, int64(firstChosen))
	}
	return nil
}

// hold has a new tensor under a number.
func (b *batch) hold(s *session, id int64, h *held) {
	if b.first == 0 {
		b.first = id
	}
	if i := uint64(id - b.first); i < uint64(len(b.made)) {
		b.made[i] = h
	} else {
		s.tensors[id] = h
	}
}
