package ptx

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// layouts are shapes of a result, and the strides of its operands.
var layouts = []struct {
	shape   tensor.Shape
	strides [][]int
	vector  int
}{
	{tensor.Shape{8, 12}, [][]int{{12, 1}}, 4},
	{tensor.Shape{8, 12}, [][]int{{1, 8}, {0, 1}, {12, 1}}, 4},
	{tensor.Shape{8, 12}, [][]int{{12, 1}, {1, 0}, {0, 0}}, 4},
	{tensor.Shape{5, 7}, [][]int{{7, 1}, {0, 1}, {1, 5}}, 1},
	{tensor.Shape{4, 3, 5}, [][]int{{1, 4, 12}, {15, 5, 1}}, 1},
}

// steps returns a step of every operation that Tiles takes, dtype and layout.
func steps() (out []*compile.Step) {
	for _, op := range tensor.Ops() {
		info := op.Info()
		if info.Class != tensor.ClassElementwise && !Numbered(op) {
			continue
		}
		for _, from := range tensor.DTypes() {
			for _, to := range tensor.DTypes() {
				switch {
				case op == tensor.OpCast:
				case op == tensor.OpOneHot:
					if from != tensor.I32 {
						continue
					}
				case op.Info().Random && to != tensor.F32 && to != tensor.F64:
					continue
				case comparisons[op] != "":
					if to != tensor.Bool {
						continue
					}
				case from != to:
					continue
				}
				for i, l := range layouts {
					s := &compile.Step{Op: op, Out: compile.Operand{Scalar: -1, DType: to, Shape: l.shape, Strides: l.shape.Strides(), Dense: true}}
					s.Ints = []int64{1, 2}
					for k := range info.MinTensors {
						d := from
						if op == tensor.OpWhere && k == 0 {
							d = tensor.Bool
						}
						s.In = append(s.In, compile.Operand{Scalar: -1, DType: d, Shape: l.shape, Strides: l.strides[(k+i)%len(l.strides)]})
					}
					for k := range info.Scalars {
						s.In = append(s.In, compile.Operand{Scalar: k})
					}
					out = append(out, Elementwise(s))
				}
			}
		}
	}
	return out
}

// TestTexts checks of every operation, dtype and layout that the interpreter and NVIDIA's
// assembler take the kernel, and that it has no operation that is approximate, flushes
// subnormal numbers or leaves its rounding open.
func TestTexts(t *testing.T) {
	g := cudatest.New(t, 0, os.Getenv)
	loose := regexp.MustCompile(`\b(add|sub|mul|fma|div|sqrt|rcp)\.f(32|64)\b|\.approx|\.ftz|\.full`)
	var texts []string
	without := map[string]bool{}
	for _, s := range steps() {
		k := Tiles(s)
		if k == nil {
			without[fmt.Sprintf("%v %v", s.Op, s.Out.DType)] = true
			continue
		}
		if found := loose.FindString(k.Text); found != "" {
			t.Errorf("%v of %v has %s", s.Op, s.In[0].DType, found)
		}
		if m, err := g.ModuleLoad(k.Text); err != nil {
			t.Errorf("%v of %v to %v: %v\n%s", s.Op, s.In[0].DType, s.Out.DType, err, k.Text)
		} else if err := g.ModuleUnload(m); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, k.Text)
	}
	if len(texts) < 800 {
		t.Errorf("%d kernels, expected 800 or more", len(texts))
	}
	t.Logf("%d kernels; without one: %d operations and dtypes", len(texts), len(without))
	assemble(t, texts)
}

// assemble has NVIDIA's assembler take texts for all targets. No kernel has a stack.
func assemble(t *testing.T, texts []string) {
	t.Helper()
	ptxas := cudatest.Tool(t, os.Getenv, "ptxas")
	if ptxas == "" {
		return
	}
	targets := cudatest.Targets
	if testing.Short() {
		targets = targets[:1]
	}
	for _, target := range targets {
		if u := cudatest.Assemble(t, ptxas, cudatest.Join(texts, Name), target, "-O1"); u.Stack+u.Spilled > 0 {
			t.Errorf("for %s %d kernels have a stack, and %d keep registers there", target, u.Stack, u.Spilled)
		}
	}
}

// TestVectors checks how many elements a thread of each layout computes, and that equal
// structures have equal texts.
func TestVectors(t *testing.T) {
	for i, l := range layouts {
		s := &compile.Step{Op: tensor.OpNeg, Out: compile.Operand{Scalar: -1, DType: tensor.F32, Shape: l.shape, Dense: true}}
		s.In = []compile.Operand{{Scalar: -1, DType: tensor.F32, Shape: l.shape, Strides: l.strides[0]}}
		k := Tiles(Elementwise(s))
		if k == nil || k.Vector != l.vector {
			t.Fatalf("layout %d: %+v, expected %d elements a thread", i, k, l.vector)
		}
	}
	text := func(n int) string {
		o := compile.Operand{Scalar: -1, DType: tensor.F32, Shape: tensor.Shape{n}, Strides: []int{1}}
		return Tiles(Elementwise(&compile.Step{Op: tensor.OpExp, In: []compile.Operand{o}, Out: o})).Text
	}
	if text(64) != text(4096) {
		t.Error("exp of 64 and of 4096 elements have different kernels")
	}
}
