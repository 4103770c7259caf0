package compile

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestIndexSelectInPlace wants index_select to read slices that lie apart along its dim
// without a copy, and others as a copy.
func TestIndexSelectInPlace(t *testing.T) {
	idx := []int64{1, 0, 1}
	for name, c := range map[string]struct {
		of     func(s *tensor.Session, x *tensor.Tensor) *tensor.Tensor
		copies int
	}{
		"every second row":      {func(s *tensor.Session, x *tensor.Tensor) *tensor.Tensor { return x.Slice(tensor.By(0, 4, 2)) }, 0},
		"some columns":          {func(s *tensor.Session, x *tensor.Tensor) *tensor.Tensor { return x.Narrow(1, 1, 2) }, 0},
		"a row again and again": {func(s *tensor.Session, x *tensor.Tensor) *tensor.Tensor { return x.Slice(tensor.To(0, 1)).Expand(4, 3) }, 0},
		"transposed":            {func(s *tensor.Session, x *tensor.Tensor) *tensor.Tensor { return x.T() }, 1},
		"backwards":             {func(s *tensor.Session, x *tensor.Tensor) *tensor.Tensor { return x.Flip(0) }, 1},
	} {
		p := planOf(t, func(s *tensor.Session, sc *tensor.Scope, _, _ *tensor.Tensor) {
			x := tensor.From(s, make([]float32, 12), 4, 3)
			sc.Keep(c.of(s, x).IndexSelect(0, tensor.From(s, idx, 3)))
		})
		if p.Stats.Copies != c.copies {
			t.Errorf("%s: %d copies, want %d\n%v", name, p.Stats.Copies, c.copies, p)
		}
	}
}
