package enginetest

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// number is a JSON number, or "nan", "inf" or "-inf".
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(s) > 1 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	x, err := strconv.ParseFloat(s, 64)
	*n = number(x)
	return err
}

// block is a tensor in a golden file. Its dtype is f32 if the file names none.
type block struct {
	ID    string
	Shape []int
	DType string
	Data  []number
	Grad  bool
}

func (b *block) array(t *testing.T) *array {
	t.Helper()
	d := tensor.F32
	if b.DType != "" {
		var err error
		if d, err = tensor.ParseDType(b.DType); err != nil {
			t.Fatal(err)
		}
	}
	a := newArray(d, append(tensor.Shape{}, b.Shape...))
	if a.len() != len(b.Data) {
		t.Fatalf("%d values for %v", len(b.Data), b.Shape)
	}
	for k, x := range b.Data {
		if a.dt.IsFloat() {
			a.f[k] = float64(x)
		} else {
			a.i[k] = int64(x)
		}
	}
	a.settle()
	return a
}

// goldenCase is a case of ops.json; tensor/testdata/golden.py defines the format.
type goldenCase struct {
	Name, Op string
	Inputs   []block
	Ints     map[string][]int
	Floats   map[string]number
	Strings  map[string]string
	Outputs  []block
	Weights  [][]number
	Grads    [][]number

	in []*tensor.Tensor
}

func (c *goldenCase) int(name string) int { return c.Ints[name][0] }

func (c *goldenCase) float(name string, absent float64) float64 {
	if x, ok := c.Floats[name]; ok {
		return float64(x)
	}
	return absent
}

func (c *goldenCase) pairs(name string) [2]int { return [2]int(c.Ints[name]) }

// goldenWide are the cases in which float32 itself is far off: PyTorch's own result
// differs from the value in double precision by nearly as much. Others stay within
// goldenTolerance of the largest value of the result.
var goldenWide = map[string]float64{"logsumexp_far": 5e-5, "layer_norm_offset": 2e-5}

const goldenTolerance = 1e-6

// allowed returns the tolerance of each element of a golden result; nil for integers.
func (c *goldenCase) allowed(want *array, scale float64) []float64 {
	if !want.dt.IsFloat() {
		return nil
	}
	rel := goldenTolerance
	if w, ok := goldenWide[c.Name]; ok {
		rel = w
	}
	top := 0.0
	for _, x := range want.f {
		if !math.IsInf(x, 0) && !math.IsNaN(x) {
			top = max(top, math.Abs(x))
		}
	}
	tol := make([]float64, len(want.f))
	for k := range tol {
		tol[k] = rel * scale * max(top, 1e-3)
	}
	return tol
}

// goldenOps runs every operation of ops.json through the tensor methods that users call.
func (s *suite) goldenOps(t *testing.T) {
	var file struct{ Cases []goldenCase }
	if err := json.Unmarshal(testdata(t, "ops.json"), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 250 {
		t.Fatalf("ops.json has %d cases", len(file.Cases))
	}
	sess := s.session(t)
	for i := range file.Cases {
		c := &file.Cases[i]
		t.Run(c.Name, func(t *testing.T) {
			defer sess.ClearErr()
			build := goldenBuilders[c.Op]
			if build == nil {
				t.Fatalf("no way to build %q", c.Op)
			}
			for k := range c.Inputs {
				x := put(sess, c.Inputs[k].array(t))
				if s.o.Grad != nil && c.Inputs[k].Grad {
					x.RequireGrad()
				}
				c.in = append(c.in, x)
			}
			out := build(c)
			if len(out) != len(c.Outputs) {
				t.Fatalf("%d results, expected %d", len(out), len(c.Outputs))
			}
			for k, y := range out {
				want := c.Outputs[k].array(t)
				equal(t, mustRead(t, y), want, c.allowed(want, 1), "result %d", k)
			}
			if s.o.Grad != nil && c.Grads != nil {
				c.gradients(t, s, sess, out)
			}
		})
	}
}

// gradients compares the gradients of sum(out*weights), which Options.Grad computes.
func (c *goldenCase) gradients(t *testing.T, s *suite, sess *tensor.Session, out []*tensor.Tensor) {
	var loss *tensor.Tensor
	for k, y := range out {
		w := block{Shape: c.Outputs[k].Shape, DType: c.Outputs[k].DType, Data: c.Weights[k]}
		l := y.Mul(put(sess, w.array(t))).Sum()
		if loss == nil {
			loss = l
		} else {
			loss = loss.Add(l)
		}
	}
	var xs []*tensor.Tensor
	var golden []*array
	zero := true
	for k := range c.Inputs {
		if c.Grads[k] == nil {
			continue
		}
		b := block{Shape: c.Inputs[k].Shape, DType: c.Inputs[k].DType, Data: c.Grads[k]}
		xs, golden = append(xs, c.in[k]), append(golden, b.array(t))
		for _, x := range b.Data {
			zero = zero && x == 0
		}
	}
	grads, err := s.o.Grad(loss, xs...)
	if errors.Is(err, tensor.ErrNoGrad) && zero {
		return // a step function: no gradient at all, or zero
	}
	if err != nil {
		t.Fatal(err)
	}
	for k, g := range grads {
		equal(t, mustRead(t, g), golden[k], c.allowed(golden[k], 4), "gradient %d", k)
	}
}
