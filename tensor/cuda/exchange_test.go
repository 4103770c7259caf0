package cuda

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// operand returns a tensor with those strides.
func operand(d tensor.DType, shape tensor.Shape, strides ...int) compile.Operand {
	return compile.Operand{Scalar: -1, DType: d, Shape: shape, Strides: strides}
}

// TestCut cuts matrices of random sizes up, dense and parts of others. No block needs
// more shared memory than the kernels have, and less than a tenth of the sectors is
// touched twice where rows follow one another.
func TestCut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	some := func() int { return int(8 * math.Exp2(r.Float64()*10)) }
	for _, d := range []tensor.DType{tensor.U8, tensor.BF16, tensor.F32, tensor.F64} {
		for range 5000 {
			rows, columns, gap := some(), some(), r.IntN(2)*r.IntN(9)
			from := operand(d, tensor.Shape{columns, rows}, 1, columns+gap)
			to := operand(d, from.Shape, rows, 1)
			x, ok := exchangeOf(to, from)
			if !ok || x.rows != rows || x.columns != columns {
				t.Fatalf("%d by %d: %+v, %v", rows, columns, x, ok)
			}
			c := x.cut(to, from)
			bytes := c.h * c.pitch * d.Size()
			switch {
			case bytes > exchangeSpace(d.Size()), c.flat && (c.w > c.pitch || gap > 0), c.blocks != ceilDiv(rows, c.h)*ceilDiv(columns, c.w):
				t.Fatalf("%d by %d of %v with gaps of %d: %+v", rows, columns, d, gap, c)
			case gap == 0 && c.lost >= 0.1:
				t.Errorf("%d by %d of %v: %+v", rows, columns, d, c)
			}
		}
	}
	// Rows that are whole sectors go through tiles of 32 by 32, also where they are few.
	for _, shape := range [][2]int{{32, 32}, {8, 4096}, {1024, 96}} {
		from := operand(tensor.F32, tensor.Shape{shape[1], shape[0]}, 1, shape[1])
		to := operand(tensor.F32, from.Shape, shape[0], 1)
		x, _ := exchangeOf(to, from)
		if c := x.cut(to, from); c.any || c.lost != 0 {
			t.Errorf("%v: %+v", shape, c)
		}
	}
}
