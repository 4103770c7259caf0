package shard_test

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/enginetest"
	"github.com/ringside-go/ringside/tensor/shard"
)

// recorder is an engine that keeps the last program.
type recorder struct {
	tensor.Engine
	program *tensor.Program
}

func (r *recorder) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		r.program = b.Program.Clone()
	}
	return r.Engine.Submit(ctx, b)
}

// A product sharded by the inner dim: each of two workers has half of the columns of x
// and half of the rows of w, and computes a term of the result. Nothing moves until the
// ReLU needs its value.
func ExampleRewrite() {
	r := &recorder{Engine: enginetest.Reference()}
	s := tensor.NewSession(r, nil)
	x, w := tensor.Zeros(s, tensor.F32, 4, 8), tensor.Zeros(s, tensor.F32, 8, 2)
	if err := s.Flush(); err != nil {
		fmt.Println(err)
	}
	h := x.Matmul(w)
	y := h.ReLU()
	h.Free()
	if err := s.Flush(); err != nil {
		fmt.Println(err)
	}
	defer y.Free()
	plan, err := shard.Rewrite(r.program, shard.Line(2), []shard.Layout{shard.On(shard.Shard(1)), shard.On(shard.Shard(0))}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(plan.Explain())
	// Output:
	// mesh data 2
	// in0 f32[4 8] [S(1)]
	// in1 f32[8 2] [S(0)]
	// %0 = matmul f32[4 2] in0 in1 [P(sum)]
	// %1 = relu f32[4 2] %0 [R]
	// all-reduce along data: %0 matmul, partial sum to whole, for %1 relu; 32 bytes/rank
	// %1 is kept [R]
	// 1 all-reduce; bytes sent by a rank: 32; programs: 2; local changes of layout: 0
}
