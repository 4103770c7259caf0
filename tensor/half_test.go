package tensor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
)

// TestPromote compares Promote with torch.promote_types of PyTorch 2.6, row by row.
func TestPromote(t *testing.T) {
	order := []DType{Bool, U8, I32, I64, F16, BF16, F32, F64}
	for i, row := range [][]DType{
		{Bool, U8, I32, I64, F16, BF16, F32, F64},
		{U8, U8, I32, I64, F16, BF16, F32, F64},
		{I32, I32, I32, I64, F16, BF16, F32, F64},
		{I64, I64, I64, I64, F16, BF16, F32, F64},
		{F16, F16, F16, F16, F16, F32, F32, F64},
		{BF16, BF16, BF16, BF16, F32, BF16, F32, F64},
		{F32, F32, F32, F32, F32, F32, F32, F64},
		{F64, F64, F64, F64, F64, F64, F64, F64},
	} {
		for j, want := range row {
			if got := Promote(order[i], order[j]); got != want {
				t.Errorf("%v and %v meet in %v, expected %v", order[i], order[j], got, want)
			}
		}
	}
	for _, d := range DTypes() {
		if back, err := ParseDType(d.String()); err != nil || back != d {
			t.Errorf("%v is parsed as %v, %v", d, back, err)
		}
	}
}

// TestHalvesAreWidened: operations that compute are recorded in f32 between casts,
// operations that move are not.
func TestHalvesAreWidened(t *testing.T) {
	e := &recorder{}
	s := NewSession(e, nil)
	x := From(s, []element.BFloat16{element.ToBFloat16(1.5), element.ToBFloat16(-2)})
	y := x.Mul(x).AddS(1)
	z := Concat(0, x, x).Narrow(0, 1, 2).EqS(-2)
	for _, c := range []struct {
		x    *Tensor
		want DType
	}{{y, BF16}, {z, Bool}, {x.Sum(), BF16}, {x.ArgmaxAll(), I64}, {x.Add(From(s, []float32{1, 2})), F32},
		{x.Add(From(s, []element.Float16{1, 2})), F32}, {x.Add(From(s, []int64{1, 2})), BF16}, {Full(s, F16, 2, 3), F16}, {Rand(s, BF16, 3), BF16}} {
		if c.x.Err() != nil || c.x.DType() != c.want {
			t.Errorf("%v, expected %v", c.x, c.want)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	p := e.batches[len(e.batches)-1].Program
	text := p.String()
	for _, line := range []string{"cast f32[2] in0 [1]", "mul f32[2] %0 %0", "cast bf16[2] %1 [8]", "concat bf16[4] in0 in0", "rand f32[3] s"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if _, err := ParseProgram(p.Append(nil)); err != nil {
		t.Error(err)
	}
	// A program that computes in 16 bits is malformed.
	bad := p.Clone()
	for i := range bad.Instrs {
		if in := &bad.Instrs[i]; in.Op == OpMul {
			bad.Args[in.Arg], bad.Args[in.Arg+1], in.DType = ExternalRef(0), ExternalRef(0), BF16
		}
	}
	if _, err := ParseProgram(bad.Append(nil)); err == nil || !strings.Contains(err.Error(), fmt.Sprint(BF16)) {
		t.Errorf("a product of bf16: %v", err)
	}
}
