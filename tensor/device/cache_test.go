package device

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// encodedNegs returns a program of n negations.
func encodedNegs(n int) []byte {
	p := &tensor.Program{
		Shapes: []tensor.Shape{{4}}, Externals: []tensor.External{{DType: tensor.F32}},
	}
	x := tensor.ExternalRef(0)
	for i := range n {
		p.Args = append(p.Args, x)
		p.Instrs = append(p.Instrs, tensor.Instr{Op: tensor.OpNeg, DType: tensor.F32, NArg: 1, Arg: uint32(i), Keep: i == n-1})
		x = tensor.Ref(i)
	}
	return p.Append(nil)
}

// TestCacheOfOneHash wants two programs of one hash each to be found as their own.
func TestCacheOfOneHash(t *testing.T) {
	c := NewCache[*tensor.Program](0)
	get := func(n int) (*tensor.Program, bool) {
		t.Helper()
		e := encodedNegs(n)
		p, found, err := c.Get(tensor.HashOf(e), e, func(p *tensor.Program) (*tensor.Program, error) { return p, nil })
		if err != nil {
			t.Fatal(err)
		}
		return p, found
	}
	one, two := encodedNegs(1), encodedNegs(2)
	get(1)
	// As if both had that hash.
	c.byHash[tensor.HashOf(two)] = c.byHash[tensor.HashOf(one)]
	for i, want := range []int{2, 2, 1, 1} {
		p, _ := get(want)
		if got := len(p.Instrs); got != want {
			t.Errorf("look %d gave a program of %d negations, expected %d", i, got, want)
		}
	}
	if s := c.Stats(); s.Hits != 2 || s.Misses != 3 || s.Plans != 2 || s.PlanBytes != len(one)+len(two) {
		t.Errorf("%d hits, %d misses, %d plans of %d bytes; expected 2, 3, 2 of %d", s.Hits, s.Misses, s.Plans, s.PlanBytes, len(one)+len(two))
	}
}
