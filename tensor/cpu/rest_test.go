package cpu_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// failing returns a program of n instructions that fail, none of which depends on
// another, and one that makes a result.
func failing(n, size int) []byte {
	var b builder
	x, at, one := b.in(tensor.F32, false, size), b.in(tensor.I64, false, 1), b.scalar()
	y := b.op(tensor.OpAdd, tensor.F32, []int{size}, nil, x, one)
	b.keep(y)
	for range n {
		x = b.op(tensor.OpAdd, tensor.F32, []int{size}, nil, x, one)
		b.keep(b.op(tensor.OpIndexSelect, tensor.F32, []int{1}, []int{0}, x, at))
	}
	return b.Append(nil)
}

// TestWorkOfRest wants all runs of a program in which instructions fail to have at most
// twice the limit of one program, and none of what they run to be in the cache.
func TestWorkOfRest(t *testing.T) {
	const failures, size = 8, 1000
	encoded := failing(failures, size)
	parsed, err := tensor.ParseProgram(encoded)
	if err != nil {
		t.Fatal(err)
	}
	work := compile.Compile(parsed, &compile.Options{NoFuse: true}).Work()
	for _, c := range []struct {
		limit int // in runs of the program
		runs  uint64
		rest  bool
	}{
		{-1, failures + 1, true},
		{failures + 1, failures + 1, true},
		{1, 2, false},
	} {
		d, err := cpu.New(&cpu.Options{MaxWork: c.limit * work, NoFuse: true})
		if err != nil {
			t.Fatal(err)
		}
		s := d.Open()
		err = errors.Join(
			s.Make(1, tensor.F32, tensor.Shape{size}), s.Fill(1, make([]byte, 4*size)),
			s.Make(2, tensor.I64, tensor.Shape{1}), s.Fill(2, binary.NativeEndian.AppendUint64(nil, size)),
		)
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Compile(tensor.HashOf(encoded), encoded)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			before := d.Stats().Runs
			err = s.Run(p, 10, []uint64{1, 2}, []float64{1}, nil)
			var f *device.Failure
			if !errors.Is(err, tensor.ErrIndex) || errors.As(err, &f) != c.rest {
				t.Errorf("a limit of %d runs: %v, expected ErrIndex, with the rest: %v", c.limit, err, c.rest)
			}
			if _, exists := s.Lookup(10); exists != c.rest {
				t.Errorf("a limit of %d runs: the result that does not depend on failures exists: %v", c.limit, exists)
			}
			s.Free(10)
			if n := d.Stats().Runs - before; n != c.runs {
				t.Errorf("a limit of %d runs: %d runs, expected %d", c.limit, n, c.runs)
			}
		}
		if st := d.Stats(); st.Plans != 1 || st.Misses != 1 {
			t.Errorf("a limit of %d runs: %d programs in the cache of %d compiled for it, expected 1", c.limit, st.Plans, st.Misses)
		}
		s.Close()
		d.Close()
	}
}
