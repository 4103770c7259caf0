package shard

import (
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// fast makes small programs worth cutting.
var fast = &AutoOptions{FlopsPerSecond: 1e6, ElemsPerSecond: 1e6, BytesPerSecond: 1e9, LargeBytes: 256}

// TestAutoFindsTheBatch: Auto finds the batch of a training step, because cutting it
// saves time.
func TestAutoFindsTheBatch(t *testing.T) {
	s := gptStep(t, 4)
	c, err := Auto(s.program, Line(2), fast)
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for i, l := range c.Inputs {
		if l == On(Shard(0)) {
			cut++
			if !s.fresh[i] {
				t.Errorf("in%d is cut and is no data", i)
			}
		}
	}
	if cut != 2 || !strings.Contains(c.Why, "so the inputs of 4 rows") {
		t.Errorf("%d inputs are cut\n%s", cut, c.Why)
	}
	p := s.run(t, Line(2), func(i int) Layout { return c.Inputs[i] }, nil)
	if p.Stats.Collectives[protocol.AllReduce] == 0 {
		t.Errorf("%v", p.Stats)
	}
}

// TestAutoCutsMatrices: Auto cuts large matrices along the last dim of a mesh and leaves
// small ones whole.
func TestAutoCutsMatrices(t *testing.T) {
	rec := record(t, func(s *tensor.Session) []*tensor.Tensor {
		return []*tensor.Tensor{upload(s, 3, 16).Matmul(upload(s, 16, 64)).ReLU().Matmul(upload(s, 64, 16)).Add(upload(s, 16))}
	})
	c, err := Auto(rec.program, Grid(1, 2), fast)
	if err != nil {
		t.Fatal(err)
	}
	if c.Inputs[0] != (Layout{}) || c.Inputs[3] != (Layout{}) {
		t.Errorf("small inputs are cut: %v", c.Inputs)
	}
	if c.Inputs[1] != On(Replicate, Shard(1)) || c.Inputs[2] == (Layout{}) {
		t.Errorf("matrices lie %v\n%s", c.Inputs, c.Why)
	}
	p, err := Rewrite(rec.program, Grid(1, 2), c.Inputs, nil)
	if err != nil || len(p.Stats.Collectives) > 1 {
		t.Errorf("%v, %v", p.Stats, err)
	}
}

// TestAutoLeavesAlone: Auto cuts nothing if moving costs more than computing, or on one
// worker.
func TestAutoLeavesAlone(t *testing.T) {
	s := mlpStep(t, 8)
	for _, c := range []struct {
		m Mesh
		o *AutoOptions
	}{{Line(4), &AutoOptions{BytesPerSecond: 1}}, {Line(1), fast}} {
		got, err := Auto(s.program, c.m, c.o)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range got.Inputs {
			if l != (Layout{}) {
				t.Errorf("%v: in%d lies %v\n%s", c.m, i, l, got.Why)
			}
		}
	}
	if _, err := Auto(s.program, Mesh{}, nil); err == nil {
		t.Error("a mesh of no dims is taken")
	}
}
