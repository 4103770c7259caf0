package tensor

import "fmt"

// FromBytes makes a tensor of its memory image, as files and messages have it: row-major,
// little endian, a bool one byte 0 or 1. It copies data once.
func FromBytes(s *Session, d DType, data []byte, shape ...int) *Tensor {
	t, err := s.upload(d, shape, len(data), func(dst []byte) error {
		copyChunked(dst, data)
		return nil
	})
	if err != nil {
		return poisoned(s, err)
	}
	return t
}

// ViewBytes is View of t's memory image, for any dtype; see FromBytes. If another
// goroutine closes the engine meanwhile, f may have read other bytes, and the error is
// ErrClosed.
func (t *Tensor) ViewBytes(f func([]byte) error) error {
	b, release, err := t.Pin()
	if err != nil {
		return err
	}
	defer release()
	err = f(b)
	if l, ok := t.v.s.eng.(Lender); ok && l.Closed() {
		return fmt.Errorf("tensor: read: %w", ErrClosed)
	}
	return err
}

// Pin returns t's memory image as ViewBytes does, for reads that end later. It stays as
// it is until release is called, once, by any goroutine. Until then the worker keeps the
// memory, also when t is assigned another value or freed, but not when the engine is
// closed, see Lender.
func (t *Tensor) Pin() (b []byte, release func(), err error) {
	s := t.v.s
	if s == nil && t.v.failed() != nil {
		return nil, nil, t.v.failed()
	}
	if err := s.enter("read"); err != nil {
		return nil, nil, err
	}
	got, err := s.fetch(t.v)
	s.leave()
	if err != nil {
		return nil, nil, err
	}
	if want := t.v.shape.Elems() * t.v.dtype.Size(); len(got.Bytes) != want {
		got.Release()
		return nil, nil, fmt.Errorf("tensor: engine %s returned %d bytes for %v, expected %d", s.eng.Name(), len(got.Bytes), t.v, want)
	}
	return got.Bytes, got.Release, nil
}
