package cpu

import (
	"errors"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// A step that panics is a failed program: its results don't exist, its memory is back, and the next one runs.
func TestPanicIsAnError(t *testing.T) {
	d, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	p := &tensor.Program{
		Instrs:     []tensor.Instr{{Op: tensor.OpFull, DType: tensor.F32, Keep: true, NArg: 1, NInt: 2}},
		Args:       []tensor.Ref{tensor.ScalarRef(0)},
		Ints:       []int64{int64(tensor.F32), 8},
		Shapes:     []tensor.Shape{{8}},
		NumScalars: 1,
	}
	encoded := p.Append(nil)
	c, err := d.Compile(tensor.HashOf(encoded), encoded)
	if err != nil {
		t.Fatal(err)
	}
	s := d.Open()
	defer s.Close()
	broken := *c
	broken.steps = []lowered{{instr: 0, f: func(*run) error { var none []int; none[0]++; return nil }}}
	err = s.Run(&broken, 10, nil, []float64{1})
	var at *tensor.RunError
	if !errors.Is(err, ErrInternal) || !errors.As(err, &at) || at.Op != "full" {
		t.Errorf("a panic gave %v", err)
	}
	if n := d.Stats().Arena.Blocks; s.Len() != 0 || n != 0 {
		t.Errorf("%d values and %d blocks are left", s.Len(), n)
	}
	if err := s.Run(c, 20, nil, []float64{1}); err != nil || s.Len() != 1 {
		t.Errorf("the next program gave %v and %d values", err, s.Len())
	}
}
