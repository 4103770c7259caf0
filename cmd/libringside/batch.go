package main

import (
	"fmt"
	"slices"
)

// firstChosen is the least number of a tensor that the caller chooses. Those that put
// returns are below it.
const firstChosen = 1 << 62

// batch has the results of a record that is under way, by number. Most are dropped at its
// end: a table of all tensors never has them.
type batch struct {
	first int64 // number of made[0]
	made  []*held
}

// find returns the result of a number, or nil.
func (b *batch) find(id int64) *held {
	if i := uint64(id - b.first); i < uint64(len(b.made)) {
		return b.made[i]
	}
	return nil
}

// record records operations in the session of b, each a head, the number of its result,
// its arguments and its attributes, and drops the tensors in dead. It returns the first
// error: the others are recorded.
func (b *batch) record(s *session, words, dead []int64) (err error) {
	defer b.end(s)
	if n := len(words) / 2; n > 0 {
		b.first, b.made = words[1], slices.Grow(b.made, n)[:n]
	}
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
			b.keep(s, b.first+int64(i), h)
		}
	}
	clear(b.made)
	b.made = b.made[:0]
}

// one records the first operation of words and returns the words after it.
func (b *batch) one(s *session, words []int64) (rest []int64, err error) {
	h := parseHead(uint64(words[0]))
	end := 2 + h.args + h.ints
	if len(words) < end {
		return nil, fmt.Errorf("%w: %d words of a call of %v, expected %d", errArgument, len(words), h.op, end)
	}
	id, rest := words[1], words[end:]
	if id < firstChosen || b.find(id) != nil {
		return rest, fmt.Errorf("%w: number %d of a result, expected an unused one of at least %d", errHandle, id, int64(firstChosen))
	}
	t, err := operate(s, h, words[2:end])
	if err == nil && t.Err() != nil {
		err = s.end(t.Err())
	}
	if err != nil {
		return rest, err
	}
	made := newHeld(s, t, s.in)
	if i := uint64(id - b.first); i < uint64(len(b.made)) {
		b.made[i] = made
	} else {
		b.keep(s, id, made)
	}
	return rest, nil
}

// keep has a tensor under a number. One that had it is dropped.
func (*batch) keep(s *session, id int64, h *held) {
	s.drop([]int64{id})
	s.tensors[id] = h
}
