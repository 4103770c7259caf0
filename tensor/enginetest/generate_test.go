package enginetest

import (
	"encoding/hex"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestGenerateReachesEveryOperation wants the seeds of Run to reach every operation of
// the table, and every program to be well formed.
func TestGenerateReachesEveryOperation(t *testing.T) {
	seen := map[tensor.Op]int{}
	kinds := map[tensor.DType]int{}
	empty, scalars, total := 0, 0, 0
	for seed := range uint64(60) {
		p := recorded(t, func(s *tensor.Session) []*tensor.Tensor {
			out := Generate(s, seed+1, 40)
			if err := s.Err(); err != nil {
				t.Fatalf("seed %d: %v", seed+1, err)
			}
			return out
		})
		if _, err := tensor.ParseProgram(p.p.Append(nil)); err != nil {
			t.Fatalf("seed %d: %v", seed+1, err)
		}
		for _, in := range p.p.Instrs {
			seen[in.Op]++
			kinds[in.DType]++
			total++
			switch sh := p.p.Shapes[in.Shape]; {
			case len(sh) == 0:
				scalars++
			case sh.Elems() == 0:
				empty++
			}
		}
	}
	for _, op := range tensor.Ops() {
		if seen[op] == 0 {
			t.Errorf("no program has %v", op)
		}
	}
	for _, d := range tensor.DTypes() {
		if kinds[d] < total/100 {
			t.Errorf("%d of %d results are %v", kinds[d], total, d)
		}
	}
	if empty < total/100 || empty > total/3 || scalars < total/100 {
		t.Errorf("of %d results %d are empty and %d scalars", total, empty, scalars)
	}
}

// TestGenerateIsStable wants a seed to record the same program forever: change its values
// only with the generator.
func TestGenerateIsStable(t *testing.T) {
	hash := func() string {
		p := recorded(t, func(s *tensor.Session) []*tensor.Tensor { return Generate(s, 7, 60) })
		h := tensor.HashOf(p.p.Append(nil))
		return hex.EncodeToString(h[:4])
	}
	const golden = "ac965bb9"
	if a, b := hash(), hash(); a != b || a != golden {
		t.Errorf("hashes are %s and %s, expected %s", a, b, golden)
	}
}
