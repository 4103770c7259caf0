package main

import (
	"fmt"
	"time"

	"github.com/ringside-go/ringside/tensor"
)

// longWork is so much that a program may take longer than the answer to a signal, some
// milliseconds.
const longWork = 1 << 24

// wait calls f, which runs what is recorded. Much work of this process runs before that,
// beside the caller's thread: a signal ends the wait, and the program goes on.
func (s *session) wait(f func() error) error {
	long := s.work > longWork
	s.work = 0
	if long {
		if err := beside(s, s.s.Flush); err != nil {
			return err
		}
	}
	return s.waited(f())
}

// beside calls f, which runs a program, beside the caller's thread and waits for its end.
// A signal ends the wait, and f goes on. Then leave keeps the session locked until f
// ends, and nothing of it may be used before.
func beside(s *session, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	t := time.NewTicker(pulseEvery)
	defer t.Stop()
	for {
		select {
		case err := <-done:
			return s.end(err)
		case <-t.C:
			if s.pulse.interrupted() {
				s.behind = done
				return errInterrupted
			}
		}
	}
}

// waited returns the error of a wait. One that ended well just as a signal came is
// interrupted, too: the caller's language has an exception to raise.
func (s *session) waited(err error) error {
	if err == nil {
		err = s.pulse.Context.Err()
	}
	return s.end(err)
}

// description is what describe writes: dtype, flags, number of dims, dims.
type description [3 + tensor.MaxRank]int64

// Flags of a description.
const (
	flagLeaf  = 1 // requires a gradient
	flagGraph = 2 // was computed from a leaf
)

// describe describes a tensor.
func (s *session) describe(id int64) (d description, err error) {
	h, err := s.get(id)
	if err != nil {
		return d, err
	}
	d[0], d[2] = int64(h.t.DType()), int64(h.t.Rank())
	if h.t.RequiresGrad() {
		d[1] |= flagLeaf
	}
	if h.t.Node() != nil {
		d[1] |= flagGraph
	}
	for i, n := range h.t.Shape() {
		d[3+i] = int64(n)
	}
	return d, nil
}

// read copies a tensor's memory image to dst, which has its length.
func (s *session) read(id int64, dst []byte) error {
	h, err := s.get(id)
	if err != nil {
		return err
	}
	return s.wait(func() error {
		return h.t.ViewBytes(func(b []byte) error {
			if len(b) != len(dst) {
				return fmt.Errorf("%w: a buffer of %d bytes for %v", errArgument, len(dst), h.t)
			}
			copy(dst, b)
			return nil
		})
	})
}

// view returns a tensor's memory image, which stays as it is until release, also when the
// session is closed before.
func (s *session) view(id int64) (b []byte, release func(), err error) {
	h, err := s.get(id)
	if err != nil {
		return nil, nil, err
	}
	err = s.wait(func() (err error) {
		b, release, err = h.t.Pin()
		return err
	})
	if err != nil {
		if release != nil {
			release()
		}
		return nil, nil, err
	}
	s.viewsMu.Lock()
	defer s.viewsMu.Unlock()
	if s.closed && s.views == 0 {
		release()
		return nil, nil, fmt.Errorf("view: %w", tensor.ErrClosed)
	}
	s.views++
	give := release
	return b, func() { give(); unviewed(s) }, nil
}

// unviewed counts a view of s that is released. The last one of a session that was closed
// ends it.
func unviewed(s *session) {
	s.viewsMu.Lock()
	s.views--
	last := s.closed && s.views == 0
	s.viewsMu.Unlock()
	if last {
		_ = disconnect(s) // the caller has closed it before, and has no use for an error
	}
}

// flush submits what is recorded and, if wait is set, waits until it has run.
func (s *session) flush(wait bool) error {
	if wait {
		return s.wait(s.s.Sync)
	}
	return s.wait(s.s.Flush)
}

// item copies the memory image of a tensor's one element and returns its dtype.
func (s *session) item(id int64, dst []byte) (int64, error) {
	h, err := s.get(id)
	if err != nil {
		return 0, err
	}
	if n := h.t.Elems(); n != 1 {
		return 0, fmt.Errorf("%w: item of %v, expected one element", tensor.ErrShape, h.t)
	}
	err = s.wait(func() error {
		return h.t.ViewBytes(func(b []byte) error { copy(dst, b); return nil })
	})
	return int64(h.t.DType()), err
}
