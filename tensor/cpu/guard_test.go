package cpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestPanicIsAnError wants a step that panics to be a failed program: it has no results,
// its memory is free again, and the next program runs.
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
	s := d.Open().(*space)
	defer s.Close()
	broken := *c.(*compiled)
	broken.steps = []lowered{{instr: 0, f: func(*run) error { var none []int; none[0]++; return nil }}}
	err = s.Run(&broken, 10, nil, []float64{1}, nil)
	var at *tensor.RunError
	if !errors.Is(err, ErrInternal) || !errors.As(err, &at) || at.Op != "full" {
		t.Errorf("a panic gave %v", err)
	}
	if n := d.Stats().Arena.Blocks; len(s.values) != 0 || n != 0 {
		t.Errorf("%d values and %d blocks are left", len(s.values), n)
	}
	if err := s.Run(c, 20, nil, []float64{1}, nil); err != nil || len(s.values) != 1 {
		t.Errorf("the next program gave %v and %d values", err, len(s.values))
	}
}

// TestPool wants every part of a shared step to be done once, by any thread, and a panic
// in one to be the step's error.
func TestPool(t *testing.T) {
	const parts, jobs = 4, 3000
	lanes := make([]*run, parts)
	for i := range lanes {
		lanes[i] = &run{part: i, parts: parts}
	}
	p := newPool(lanes)
	defer p.close()
	var done [parts]int
	for job := range jobs {
		err := p.run(func(r *run) error {
			done[r.part]++
			if job%100 == 7 && r.part >= 2 {
				panic(r.part)
			}
			return nil
		}, parts)
		if (err != nil) != (job%100 == 7) {
			t.Fatalf("job %d gave %v", job, err)
		}
		if err != nil && (!errors.Is(err, ErrInternal) || !strings.Contains(err.Error(), "internal error: 2")) {
			t.Fatalf("job %d gave %v, expected the panic of part 2", job, err)
		}
	}
	for i, n := range done {
		if n != jobs {
			t.Errorf("part %d was done %d times in %d jobs", i, n, jobs)
		}
	}
}
