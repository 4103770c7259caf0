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
	if t.v.err != nil {
		return nil, t.v.err
	}
	s := t.v.s
	f, err := s.upload(t.v.dtype, t.v.shape, -1, fill)
	if err == nil {
		f.v.signal = t.v.signal
		s.pending[len(s.pending)-1].Own = true
	}
	return f, err
}

// upload makes a tensor of a memory image that fill writes. The image has have bytes, if
// that isn't negative.
func (s *Session) upload(d DType, shape []int, have int, fill func(dst []byte) error) (*Tensor, error) {
	if err := s.enter("upload"); err != nil {
		return nil, err
	}
	defer s.leave()
	sh := Shape(append([]int{}, shape...))
	err, n := sh.Check(d), 0
	if !d.Valid() {
		err = fmt.Errorf("%w: %v", ErrDType, d)
	}
	if err == nil {
		if n = sh.Elems() * d.Size(); have >= 0 && have != n {
			err = fmt.Errorf("%w: %d bytes, expected %d", ErrShape, have, n)
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
	m := &made{}
	m.Tensor.v = &m.value
	m.value = value{s: s, dtype: d, shape: sh, refs: 1, signal: s.rec.signals.now}
	s.large.add(&m.value, n)
	s.uploads = append(s.uploads, &m.value)
	s.pending = append(s.pending, Upload{DType: d, Shape: sh, Buf: buf})
	s.stats.Uploads++
	s.stats.UploadedB += uint64(n)
	s.stats.Live++
	s.own(m)
	return &m.Tensor, nil
}
