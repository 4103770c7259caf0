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

// TestNoPanic: an operation without a tensor is an error, which later operations carry.
func TestNoPanic(t *testing.T) {
	s, _ := newRecorded(t)
	x := Zeros(s, F32, 2, 2)
	var none *Tensor
	for name, c := range map[string]struct {
		y    *Tensor
		want error
	}{
		"concat of none": {Concat(0), ErrShape}, "stack of none": {Stack(1), ErrShape}, "stack of nil": {Stack(0, nil, x), ErrNil},
		"concat of nil": {Concat(0, nil, x), ErrNil}, "nil transposed": {none.T(), ErrNil}, "a product with nil": {x.Matmul(nil), ErrNil},
		"a product with nil transposed": {x.Matmul(none.T()), ErrNil}, "nil as condition": {Where(nil, x, x), ErrNil},
		"an embedding without a table": {Embedding(nil, x), ErrNil},
	} {
		for _, y := range []*Tensor{c.y, c.y.Add(x).ReLU().Sum(), c.y.Reshape(4), x.Mul(c.y), c.y.Cast(F64)} {
			if err := y.Err(); !errors.Is(err, c.want) || !strings.Contains(err.Error(), "arguments_test.go") {
				t.Errorf("%s: %v; expected %v and where", name, err, c.want)
			}
		}
		if _, err := c.y.Item(); !errors.Is(err, c.want) {
			t.Errorf("%s is read: %v; expected %v", name, err, c.want)
		}
		s.ClearErr()
		// The error of no session sticks to that of its first use.
		for _, use := range []func() error{x.Mul(c.y).Err, func() error { return x.Assign(c.y) }} {
			err := use()
			if sticky := s.ClearErr(); !errors.Is(err, c.want) || c.y.v.s == nil && sticky != err {
				t.Errorf("%s as an operand: %v, the session's is %v", name, err, sticky)
			}
		}
		if err := c.y.Assign(x); !errors.Is(err, c.want) {
			t.Errorf("%s is assigned: %v; expected %v", name, err, c.want)
		}
		c.y.Free()
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
