package enginetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// Program is a program of programs.json, with known values and gradients;
// tensor/testdata/README.md defines the format.
type Program struct {
	Name     string
	Tensors  []block
	Program  []goldenInstr
	Backward string
	Expect   map[string]block
	Grads    map[string]block
	RTol     float64
	ATol     float64
}

type goldenInstr struct {
	Op   string
	In   []any // ids, or numbers
	Attr struct {
		Axis     *int
		Keepdims bool
		Size     int
		Dim      int
		N        int
		Dims     []int
		Shape    []int
		Key      []any
	}
	Out []string
}

// goldenPrograms runs programs.json.
func (s *suite) goldenPrograms(t *testing.T) {
	sess := s.session(t)
	for _, p := range Programs(t) {
		t.Run(p.Name, func(t *testing.T) { p.Check(t, sess, s.o.Grad, nil) })
	}
}

// Programs returns those of programs.json, for tests that run them in sessions of their
// own.
func Programs(t *testing.T) []Program {
	t.Helper()
	var file struct{ Programs []Program }
	if err := json.Unmarshal(testdata(t, "programs.json"), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Programs) < 55 {
		t.Fatalf("programs.json has %d programs", len(file.Programs))
	}
	return file.Programs
}

// Check runs the program in sess and compares its results. place makes each of its
// tensors from data; it also gets the number of the tensor, and can place it under a
// signal. grad is that of Options; without it there are no gradients.
func (p *Program) Check(t *testing.T, sess *tensor.Session, grad func(*tensor.Tensor, ...*tensor.Tensor) ([]*tensor.Tensor, error), place func(k int, f func())) {
	t.Helper()
	defer sess.ClearErr()
	vars := map[string]*tensor.Tensor{}
	for k := range p.Tensors {
		b := &p.Tensors[k]
		a := b.array(t)
		f := func() { vars[b.ID] = put(sess, a) }
		if place != nil {
			place(k, f)
		} else {
			f()
		}
		if b.Grad && grad != nil {
			vars[b.ID].RequireGrad()
		}
	}
	for k := range p.Program {
		if err := p.Program[k].run(vars); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.Expect)) {
		b := p.Expect[id]
		p.compare(t, id, vars[id], &b)
	}
	if grad == nil || p.Backward == "" {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(p.Grads)) {
		g, err := grad(vars[p.Backward], vars[id])
		if err != nil {
			t.Fatal(err)
		}
		b := p.Grads[id]
		p.compare(t, "gradient of "+id, g[0], &b)
	}
}

func (p *Program) compare(t *testing.T, what string, x *tensor.Tensor, b *block) {
	t.Helper()
	if x == nil {
		t.Fatalf("%s was not made", what)
	}
	want := b.array(t)
	tol := make([]float64, len(want.f))
	for k, v := range want.f {
		tol[k] = p.ATol + p.RTol*math.Abs(v)
	}
	equal(t, mustRead(t, x), want, tol, "%s", what)
}

// run records one instruction.
func (in *goldenInstr) run(vars map[string]*tensor.Tensor) error {
	c := &goldenCase{Ints: in.ints()}
	var number float64
	for _, id := range in.In {
		if x, ok := id.(float64); ok {
			number = x
			continue
		}
		x := vars[fmt.Sprint(id)]
		if x == nil {
			return fmt.Errorf("%s of %v: no such tensor", in.Op, id)
		}
		c.in = append(c.in, x)
	}
	out, err := in.results(c, number)
	if err != nil {
		return err
	}
	for k, id := range in.Out {
		vars[id] = out[k]
	}
	return nil
}

// ints returns the attributes as those of a golden case.
func (in *goldenInstr) ints() map[string][]int {
	a := &in.Attr
	ints := map[string][]int{"dims": a.Dims, "shape": a.Shape, "size": {a.Size}, "chunks": {a.N}, "keepdim": {0}, "dim": {a.Dim}}
	if a.Keepdims {
		ints["keepdim"] = []int{1}
	}
	switch in.Op {
	case "sum", "mean", "max": // over all dims without an axis
		ints["dim"] = nil
	}
	if a.Axis != nil {
		ints["dim"] = []int{*a.Axis}
	}
	return ints
}

// results records the operation on the tensors of c, or on one and a number.
func (in *goldenInstr) results(c *goldenCase, number float64) ([]*tensor.Tensor, error) {
	a, op := c.in[0], in.Op
	if len(c.in) < len(in.In) {
		op += " a number"
	}
	if f := programOps[op]; f != nil {
		return []*tensor.Tensor{f(a, number)}, nil
	}
	switch op {
	case "isub":
		return c.in[:1], a.SubAssign(c.in[1])
	case "isub a number":
		return c.in, a.Assign(a.SubS(number))
	case "slice":
		return []*tensor.Tensor{a.Slice(ranges(in.Attr.Key)...)}, nil
	}
	build := goldenBuilders[op]
	if build == nil {
		return nil, fmt.Errorf("no way to build %q", op)
	}
	return build(c), nil
}

// programOps are the operations of programs that are not in goldenBuilders under their
// names.
var programOps = map[string]func(a *tensor.Tensor, number float64) *tensor.Tensor{
	"add a number": (*tensor.Tensor).AddS, "sub a number": (*tensor.Tensor).SubS,
	"mul a number": (*tensor.Tensor).MulS, "div a number": (*tensor.Tensor).DivS,
	"T":    func(a *tensor.Tensor, _ float64) *tensor.Tensor { return a.T() },
	"pow2": func(a *tensor.Tensor, _ float64) *tensor.Tensor { return a.Square() },
}

// ranges reads a slice's key: an index, [start, stop, step] with nulls, null for a new
// dim, or "...".
func ranges(key []any) []tensor.Range {
	var out []tensor.Range
	for _, k := range key {
		switch k := k.(type) {
		case nil:
			out = append(out, tensor.NewAxis())
		case string:
			out = append(out, tensor.Ellipsis())
		case float64:
			out = append(out, tensor.At(int(k)))
		case []any:
			r := tensor.Every()
			for i, p := range []*int{&r.Start, &r.Stop, &r.Step} {
				if i < len(k) && k[i] != nil {
					*p = int(k[i].(float64))
				}
			}
			out = append(out, r)
		}
	}
	return out
}
