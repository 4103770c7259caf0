package tensor

import (
	"errors"
	"strings"
	"testing"
)

// TestNilTensor: a nil tensor is not taken for the scalar 0, and an argument that must be
// a tensor is no scalar.
func TestNilTensor(t *testing.T) {
	s, _ := newRecorded(t)
	x := Zeros(s, F32, 2)
	for name, y := range map[string]*Tensor{
		"add": x.Add(nil), "where": Where(x.GtS(0), x, nil), "concat": Concat(0, x, nil), "gather": x.Gather(0, nil),
	} {
		if err := y.Err(); !errors.Is(err, ErrNil) || !strings.Contains(err.Error(), "nil: tensor: nil tensor (recorded at ") {
			t.Errorf("%s: %v; expected ErrNil and where", name, err)
		}
	}
	if err := x.AddAssign(nil); !errors.Is(err, ErrNil) {
		t.Errorf("assignment: %v; expected ErrNil", err)
	}
	if err := s.Sync(); !errors.Is(err, ErrNil) {
		t.Errorf("sync: %v; expected ErrNil", err)
	}
	s.ClearErr()
	for _, y := range []*Tensor{s.Apply(OpNeg, nil, S(1)), s.Apply(OpWhere, nil, S(1), T(x), T(x)), s.Apply(OpMatmul, nil, T(x), S(1))} {
		if err := y.Err(); !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), "is a scalar, expected a tensor") {
			t.Errorf("%v; expected ErrShape", err)
		}
	}
	s.ClearErr()
	if err := s.Sync(); err != nil {
		t.Errorf("after errors were cleared: %v", err)
	}
}

// TestNotTakenForOne: an invalid stride, step or number of pieces is not taken for 1.
func TestNotTakenForOne(t *testing.T) {
	s, _ := newRecorded(t)
	x, w := Zeros(s, F32, 1, 1, 4, 4), Zeros(s, F32, 1, 1, 2, 2)
	for name, y := range map[string]*Tensor{
		"stride":   x.Conv2D(w, nil, ConvOptions{Stride: [2]int{-1, 1}}),
		"dilation": x.Conv2D(w, nil, ConvOptions{Dilation: [2]int{1, -2}}),
		"groups":   x.Conv2D(w, nil, ConvOptions{Groups: -1}),
		"step":     x.Slice(By(0, 3, 0)),
		"chunk":    x.Chunk(0, 0)[0],
	} {
		if err := y.Err(); !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v; expected ErrShape", name, err)
		}
	}
}
