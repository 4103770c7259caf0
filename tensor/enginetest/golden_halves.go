package enginetest

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
)

// exactHalves are operations of 16 bits that have one right result: that of f32, rounded.
var exactHalves = map[string]bool{"add": true, "sub": true, "mul": true, "div": true, "maximum": true, "neg": true, "abs": true, "relu": true, "square": true, "sqrt": true}

// goldenHalves converts numbers to f16 and bf16 and computes with them, and compares with
// PyTorch's results in halves.json.
func (s *suite) goldenHalves(t *testing.T) {
	var file struct {
		From      []uint32
		F16, BF16 []uint16
		Cases     []goldenCase
	}
	if err := json.Unmarshal(testdata(t, "halves.json"), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.From) < 2000 || len(file.F16) != len(file.From) || len(file.BF16) != len(file.From) || len(file.Cases) < 40 {
		t.Fatalf("halves.json has %d conversions, %d to f16 and %d to bf16, and %d cases", len(file.From), len(file.F16), len(file.BF16), len(file.Cases))
	}
	sess := s.session(t)
	from := make([]float32, len(file.From))
	for i, b := range file.From {
		from[i] = math.Float32frombits(b)
	}
	x := tensor.From(sess, from, len(from))
	for i, got := range mustData[element.Float16](t, x.Cast(tensor.F16)) {
		if uint16(got) != file.F16[i] {
			t.Errorf("f16 of %#08x is %#04x, expected %#04x", file.From[i], uint16(got), file.F16[i])
		}
	}
	for i, got := range mustData[element.BFloat16](t, x.Cast(tensor.BF16)) {
		if uint16(got) != file.BF16[i] {
			t.Errorf("bf16 of %#08x is %#04x, expected %#04x", file.From[i], uint16(got), file.BF16[i])
		}
	}
	for i := range file.Cases {
		c := &file.Cases[i]
		t.Run(c.Name, func(t *testing.T) {
			for k := range c.Inputs {
				c.in = append(c.in, put(sess, c.Inputs[k].array(t)))
			}
			want := c.Outputs[0].array(t)
			got := mustRead(t, goldenBuilders[c.Op](c)[0])
			equal(t, got, want, halfTolerance(c, want), "result")
		})
	}
}

// mustData reads x.
func mustData[E tensor.Element](t *testing.T, x *tensor.Tensor) []E {
	t.Helper()
	v, err := tensor.Data[E](x)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// halfTolerance returns the tolerance of each element: nothing, or a unit in the last
// place, which is more for a sum that cancels.
func halfTolerance(c *goldenCase, want *array) []float64 {
	tol := make([]float64, want.len())
	if exactHalves[c.Op] {
		return tol
	}
	unit := 0x1p-10
	if strings.HasSuffix(c.Name, "bf16") {
		unit = 0x1p-7
	}
	for k, x := range want.f {
		tol[k] = unit * math.Abs(x)
		if c.Op == "matmul" {
			tol[k] += 1e-6
		}
	}
	return tol
}
