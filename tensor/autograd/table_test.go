package autograd

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

func TestTableIsComplete(t *testing.T) {
	for _, op := range tensor.Ops() {
		want := op.Info().Gradient == tensor.Differentiable
		if has := entry(op) != nil; has != want {
			t.Errorf("%v: entry %v, the op table says differentiable: %v", op, has, want)
		}
	}
	if n := len(table); entry(tensor.Op(n)) != nil {
		t.Error("an entry beyond the table")
	}
}
