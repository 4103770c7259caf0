package shard

import (
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestWithin compares within with the loop that it stands for.
func TestWithin(t *testing.T) {
	for at := -12; at <= 12; at++ {
		for step := -4; step <= 4; step++ {
			for count := 0; step != 0 && count <= 6; count++ {
				for size := 0; size <= 8; size++ {
					first, end := within(at, step, count, size)
					n := 0
					for j := range count {
						in := at+j*step >= 0 && at+j*step < size
						if in {
							n++
						}
						if got := j >= first && j < end; got != in {
							t.Fatalf("within(%d, %d, %d, %d) is %d to %d: place %d is %v", at, step, count, size, first, end, j, in)
						}
					}
					if end-first != n {
						t.Fatalf("within(%d, %d, %d, %d) is %d to %d, expected %d places", at, step, count, size, first, end, n)
					}
				}
			}
		}
	}
}

// TestRewriteOfHugeDims rewrites slices of the largest dims: the time of a rewriting
// depends on the instructions, and a loop over the places of these would take an hour.
func TestRewriteOfHugeDims(t *testing.T) {
	const n, half = math.MaxInt32, math.MaxInt32 / 2
	p := &tensor.Program{
		Externals: []tensor.External{{DType: tensor.U8}},
		Shapes:    []tensor.Shape{{n}, {half}},
	}
	for i := range 512 {
		p.Args = append(p.Args, tensor.ExternalRef(0))
		p.Ints = append(p.Ints, int64(i), 1, half)
		p.Instrs = append(p.Instrs, tensor.Instr{Op: tensor.OpSlice, DType: tensor.U8, Keep: true, NArg: 1, NInt: 3, Arg: uint32(i), Int: uint32(3 * i), Shape: 1})
	}
	plan, err := Rewrite(p, Mesh{{Size: 8}}, []Layout{{Shard(0)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Outputs) != 512 {
		t.Errorf("%d outputs, expected 512", len(plan.Outputs))
	}
}
