package cpu_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/explain"
)

// The plan of a program, as ringside plan dump prints it for the models that it knows.
func ExampleOptions_plan() {
	var plan explain.Plan
	o := &cpu.Options{Trace: func(p explain.Plan, _ int, _ time.Duration) { plan = p }}
	s, err := cpu.NewSession(o, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	x := tensor.From(s, []float32{1, 2, 3, 4}, 2, 2)
	b := tensor.From(s, []float32{1, -9}, 2)
	s.Scope(func(sc *tensor.Scope) {
		sc.Keep(x.Matmul(x).Add(b).ReLU())
	})
	if err := s.Sync(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(plan)
	fmt.Println(strings.NewReplacer("), ", ")\n", "; ", "\n").Replace(plan.Summary()))
	// Output:
	// out0:f32[2 2] = {matmul add relu} in0:f32[2 2] in0:f32[2 2] in1:f32[2 2]/[0 1]+0
	// out0 is %2
	// 3 instructions in 1 steps (0 views, 0 dead, 2 fused, 0 copies)
	// 0 in place, 0 take an input's memory
	// temporaries 0 bytes, 1.00 of the most that live at once
}
