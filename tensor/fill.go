package tensor

import "fmt"

// FromFill is FromBytes for a memory image that fill writes directly into the memory that
// the worker reads, so the content of a file is not copied. It calls fill before it
// returns. The slice has the length of the image and may hold any bytes before. An error
// of fill is returned and does not stick to the session; other errors do, as those of
// From.
func FromFill(s *Session, d DType, fill func(dst []byte) error, shape ...int) (*Tensor, error) {
	return s.upload(d, shape, -1, fill)
}

// FillLike is FromFill for a tensor that t will be assigned, with t's dtype, shape and
// signal. Workers that share memory with the client copy it into memory of their own,
// where it can be updated in place.
func FillLike(t *Tensor, fill func(dst []byte) error) (*Tensor, error) {
	if t.v.failed() != nil {
		return nil, t.v.failed()
	}
	s := t.v.s
	f, err := s.upload(t.v.dtype, t.v.shape, -1, fill)
	if err == nil {
		f.v.signal = t.v.signal
		s.pending[len(s.pending)-1].Own = true
	}
	return f, err
}

// otherSize says that n bytes are not want values of size bytes.
func otherSize(n, want, size int) string {
	if n%size != 0 {
		return fmt.Sprintf("%d bytes, expected %d: %d values of %d bytes", n, want*size, want, size)
	}
	return fmt.Sprintf("%d values, expected %d", n/size, want)
}

// upload makes a tensor of a memory image that fill writes. The image has have bytes, if
// that isn't negative.
func (s *Session) upload(d DType, shape []int, have int, fill func(dst []byte) error) (*Tensor, error) {
	if err := s.enter("upload"); err != nil {
		return nil, err
	}
	defer s.leave()
	sh := Shape(append([]int{}, shape...))
	err, n := sh.Check(), 0
	if !d.Valid() {
		err = fmt.Errorf("%w: %v", ErrDType, d)
	}
	if err == nil {
		if n = sh.Elems() * d.Size(); have >= 0 && have != n {
			err = fmt.Errorf("%w: %s", ErrShape, otherSize(have, sh.Elems(), d.Size()))
		}
	}
	var buf Buffer
	if err == nil && n > 0 {
		buf, err = s.alloc(n)
	}
	if err != nil {
		return nil, s.fail(&OpError{Op: "upload", Inputs: fmt.Sprintf("%v%v", d, sh), Site: callSite(), Err: err})
	}
	if n > 0 {
		if err := fill(buf.Bytes()[:n]); err != nil {
			buf.Release()
			return nil, err
		}
	}
	v := newValue(s, d, s.rec.shapes.of(sh))
	v.signal = s.rec.signals.now
	s.large.add(v, n)
	s.uploads = append(s.uploads, v)
	s.pending = append(s.pending, Upload{DType: d, Shape: v.shape, Buf: buf})
	s.stats.Uploads++
	s.stats.UploadedB += uint64(n)
	s.stats.Live++
	s.own(v)
	return &v.handle, nil
}
