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

// ViewBytes is View of t's memory image, for any dtype; see FromBytes.
func (t *Tensor) ViewBytes(f func([]byte) error) error {
	s := t.v.s
	if s == nil && t.v.err != nil {
		return t.v.err
	}
	if err := s.enter("read"); err != nil {
		return err
	}
	got, err := s.fetch(t.v)
	s.leave()
	if err != nil {
		return err
	}
	defer got.Release()
	if want := t.v.shape.Elems() * t.v.dtype.Size(); len(got.Bytes) != want {
		return fmt.Errorf("tensor: engine %s returned %d bytes for %v, expected %d", s.eng.Name(), len(got.Bytes), t.v, want)
	}
	return f(got.Bytes)
}
