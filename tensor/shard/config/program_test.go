package config

import (
	"context"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// keeper is an engine that keeps the last program of a session.
type keeper struct{ program *tensor.Program }

type heap []byte

func (h heap) Bytes() []byte { return h }
func (h heap) Release()      {}

func (k *keeper) Name() string                       { return "keeper" }
func (k *keeper) Alloc(n int) (tensor.Buffer, error) { return make(heap, n), nil }
func (k *keeper) Close() error                       { return nil }
func (k *keeper) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		k.program = b.Program.Clone()
	}
	return nil, nil
}

// TestCheckProgram: a tensor that can't lie as the config says is an error at the place
// of the entry.
func TestCheckProgram(t *testing.T) {
	k := &keeper{}
	s := tensor.NewSession(k, nil)
	s.Scope(func(sc *tensor.Scope) {
		var x *tensor.Tensor
		s.Signal("batch", func() { x = tensor.From(s, make([]float32, 6*10), 6, 10) })
		s.Signal("mixed", func() {
			for _, shape := range [][]int{{3}, {4, 2}, {}, {5}} {
				sc.Keep(tensor.Zeros(s, tensor.F32, shape...))
			}
		})
		w := tensor.Zeros(s, tensor.F32, 10, 7).Signal("w")
		b := tensor.Zeros(s, tensor.F32, 7).Signal("b")
		m := tensor.Zeros(s, tensor.F32, 10, 7).Signal("state/w")
		sc.Keep(x.Matmul(w.Add(m)).Add(b))
		sc.Keep(x.Sum().Signal("total"))
	})
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing wrong", "workers: 5\nbatch: {shard: {axis: 1, even: true}}\nw: {shard: {axis: -1}}\n", ""},
		{"a scope's tensors may lack the dim", "workers: 5\nbatch: {shard: {axis: 1}}\nmixed: {shard: {axis: -2}}\n", ""},
		{"one of them must have it", "workers: 5\nbatch: {shard: {axis: 7}}\n",
			"c.yaml:2:23: batch.shard.axis: 7: no tensor of batch has this dim, the largest of them the shape [6 10], expected -2 to 1"},
		{"one of several must have it", "workers: 5\nmixed: {shard: {axis: -3}}\n",
			"c.yaml:2:23: mixed.shard.axis: -3: no tensor of mixed has this dim, the largest of them the shape [4 2], expected -2 to 1"},
		{"a name of nothing", "workers: 5\nv: {shard: {axis: 7, even: true}}\n", ""},
		{"no such dim", "workers: 2\nw:\n  shard: {axis: 2}\n",
			"c.yaml:3:17: w.shard.axis: 2: a tensor of w has the shape [10 7], expected -2 to 1"},
		{"no such dim from the last", "workers: 2\nb:\n  shard:\n    axis: -2\n",
			"c.yaml:4:11: b.shard.axis: -2: a tensor of b has the shape [7], expected -1 to 0"},
		{"a number", "workers: 2\ntotal: {shard: {axis: 0}}\n",
			"c.yaml:2:23: total.shard.axis: 0: a tensor of total is a number, which can't be cut: leave it out"},
		{"uneven", "workers: 4\nbatch:\n  shard: {axis: 0, even: true}\n",
			"c.yaml:3:26: batch.shard.even: true: dim 0 of a tensor of batch, of shape [6 10], is cut in 4, expected a multiple of 4 there, workers that divide 6, or even: false"},
		{"uneven by two dims of a mesh", "mesh: 2x2\nbatch: {shard: {axis: -1, even: true}}\n",
			"c.yaml:2:33: batch.shard.even: true: dim 1 of a tensor of batch, of shape [6 10], is cut in 4, expected a multiple of 4 there, workers that divide 10, or even: false"},
		{"uneven on a stage", "batch: {workers: [0, 1, 2, 3], shard: {axis: 0, even: true}}\nw: {workers: [4]}\n",
			"c.yaml:1:55: batch.shard.even: true: dim 0 of a tensor of batch, of shape [6 10], is cut in 4, expected a multiple of 4 there, workers that divide 6, or even: false"},
		{"by a pattern", "workers: 2\nw*: {shard: {axis: 3}}\n",
			"c.yaml:2:20: w*.shard.axis: 3: a tensor of w has the shape [10 7], expected -2 to 1"},
		{"state as its parameter", "workers: 3\nw: {shard: {axis: 0}}\nstate: {shard: {axis: 1, even: true}}\n",
			"c.yaml:3:32: state.shard.even: true: dim 0 of a tensor of state/w, of shape [10 7], is cut in 3, expected a multiple of 3 there, workers that divide 10, or even: false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := parse(t, c.text).CheckProgram(k.program)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, ErrConfig) || err.Error() != c.want {
				t.Errorf("error\n%v\nexpected\n%s", err, c.want)
			}
		})
	}
}

// TestCheckProgramBackward: gradients lie as the backward signal says, and an error names
// its entry.
func TestCheckProgramBackward(t *testing.T) {
	k := &keeper{}
	s := tensor.NewSession(k, nil)
	s.Scope(func(sc *tensor.Scope) {
		s.Signal("a", func() { sc.Keep(tensor.Zeros(s, tensor.F32, 5).Signal("a")) })
	})
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range k.program.Signals { // as if autograd had recorded it
		k.program.Signals[i].Backward = true
	}
	c := parse(t, "workers: 2\na: {backward: b}\nb:\n  shard: {axis: 1}\n")
	const want = "c.yaml:4:17: b.shard.axis: 1: a tensor of a' has the shape [5], expected -1 to 0"
	if err := c.CheckProgram(k.program); err == nil || err.Error() != want {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
}

func TestUnused(t *testing.T) {
	c := parse(t, "batch: {shard: {axis: 0}}\nbacth:\n  shard: {axis: 0}\n\"*.weight\": {shard: {axis: 0}, backward: whole}\nwhole:\nstate: {shard: {axis: 0}}\n\"b*.bias\":\n")
	got := c.Unused([]tensor.Signal{{Name: "batch"}, {Name: "a.bias"}, {Name: "state/a.weight"}})
	want := []string{
		"c.yaml:2:1: bacth: the program has no such signal, so the entry has no effect; check the spelling",
		"c.yaml:7:11: b*.bias: the program has no such signal, so the entry has no effect; check the spelling",
	}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i, err := range got {
		if !errors.Is(err, ErrConfig) || err.Error() != want[i] {
			t.Errorf("%v, expected %s", err, want[i])
		}
	}
}
