package tensor

import "fmt"

// FromFill is FromBytes for a memory image that fill writes directly into the memory that
// the worker reads, so the content of a file is not copied. It calls fill before it
// returns. The slice has the length of the image and may hold any bytes before. An error
// of fill is returned and does not stick to the session; other errors do, as those of
// From.
func FromFill(s *Session, d DType, fill func(dst []byte) error, shape ...int) (*Tensor, error) {
	return s.fill(d, fill, shape)
}

// FillLike is FromFill for a tensor that t will be assigned, with t's dtype, shape and
// signal. Workers that share memory with the client copy it into memory of their own,
// where it can be updated in place.
func FillLike(t *Tensor, fill func(dst []byte) error) (*Tensor, error) {
	if t.v.err != nil {
		return nil, t.v.err
	}
	s := t.v.s
	f, err := s.fill(t.v.dtype, fill, t.v.shape)
	if err == nil {
		f.v.signal = t.v.signal
		s.pending[len(s.pending)-1].Own = true
	}
	return f, err
}

func (s *Session) fill(d DType, fill func(dst []byte) error, shape []int) (*Tensor, error) {
	if err := s.enter("upload"); err != nil {
		return nil, err
	}
	defer s.leave()
	sh := Shape(append([]int{}, shape...))
	err := error(nil)
	if !d.Valid() {
		err = fmt.Errorf("%w: %v", ErrDType, d)
	} else {
		err = sh.Check(d)
	}
	if err != nil {
		return nil, s.fail(&OpError{Op: "upload", Inputs: fmt.Sprintf("%v%v", d, sh), Site: callSite(), Err: err})
	}
	n := sh.Elems() * d.Size()
	var buf Buffer
	if n > 0 {
		if buf, err = s.eng.Alloc(n); err != nil {
			return nil, s.fail(&OpError{Op: "upload", Inputs: fmt.Sprintf("%v%v", d, sh), Site: callSite(), Err: err})
		}
		if err := fill(buf.Bytes()[:n]); err != nil {
			buf.Release()
			return nil, err
		}
	}
	return s.uploaded(d, sh, buf, n), nil
}
