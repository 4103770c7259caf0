package cpu_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestStepsHaveRecordedShapes: a step is told of with the dims that the program gives its
// result, where the step goes over other ones.
func TestStepsHaveRecordedShapes(t *testing.T) {
	for _, c := range []struct {
		what string
		want string
		f    func(s *tensor.Session) *tensor.Tensor
	}{
		{"a product of a batch with a matrix of 16 bits", "[matmul]f32[2 3 5]", func(s *tensor.Session) *tensor.Tensor {
			x, w := tensor.From(s, make([]float32, 24), 2, 3, 4), tensor.From(s, make([]element.BFloat16, 20), 4, 5)
			return x.Matmul(w.Cast(tensor.F32))
		}},
		{"the same with an epilogue", "[matmul relu]f32[2 3 5]", func(s *tensor.Session) *tensor.Tensor {
			x, w := tensor.From(s, make([]float32, 24), 2, 3, 4), tensor.From(s, make([]element.BFloat16, 20), 4, 5)
			return x.Matmul(w.Cast(tensor.F32)).ReLU()
		}},
		{"an operand in another order of dims", "[tanh]f32[4 3 2]", func(s *tensor.Session) *tensor.Tensor {
			return tensor.From(s, make([]float32, 24), 2, 3, 4).Transpose(0, 2).Tanh()
		}},
		{"a reshape between two operations", "[tanh add]f32[6 4]", func(s *tensor.Session) *tensor.Tensor {
			return tensor.From(s, make([]float32, 24), 2, 3, 4).Tanh().Reshape(6, 4).AddS(1)
		}},
		{"a sum", "[tanh sum]f32[3]", func(s *tensor.Session) *tensor.Tensor {
			return tensor.From(s, make([]float32, 24), 3, 8).Tanh().Sum(1)
		}},
		{"a view that is kept", "[cast]f32[4 3 2]", func(s *tensor.Session) *tensor.Tensor {
			return tensor.From(s, make([]float32, 24), 2, 3, 4).Transpose(0, 2)
		}},
		{"the copy of an operand", "[cast]f32[4 3] [index_select]f32[2 3]", func(s *tensor.Session) *tensor.Tensor {
			return tensor.From(s, make([]float32, 12), 3, 4).T().IndexSelect(0, tensor.From(s, []int64{1, 3}, 2))
		}},
	} {
		s := session(t)
		var got []string
		var end time.Time
		device.Of(s.Engine()).(*cpu.Device).TraceSteps(func(step device.Step) {
			got = append(got, fmt.Sprintf("%v%v%v", step.Ops, step.DType, step.Shape))
			if step.Took <= 0 || !end.IsZero() && !step.Began.Equal(end) {
				t.Errorf("%s: a step took %v from %v on, the one before ended at %v", c.what, step.Took, step.Began, end)
			}
			end = step.Began.Add(step.Took)
		})
		s.Scope(func(sc *tensor.Scope) { sc.Keep(c.f(s)) })
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: steps %s, expected %s", c.what, text, c.want)
		}
	}
}
