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

// goldenProgram is a program of programs.json; tensor/testdata/README.md defines the
// format.
type goldenProgram struct {
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
	for _, p := range readPrograms(t, s.testdata(t, "programs.json")) {
		t.Run(p.Name, func(t *testing.T) { p.check(t, sess, s.o.Grad, nil) })
	}
}

func readPrograms(t *testing.T, data []byte) []goldenProgram {
	t.Helper()
	var file struct{ Programs []goldenProgram }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Programs) < 55 {
		t.Fatalf("programs.json has %d programs", len(file.Programs))
	}
	return file.Programs
}

// Program is a program with known values and gradients.
type Program struct {
	Name string
	p    goldenProgram
}

// Programs returns those of programs.json, for tests that run them in sessions of their
// own. Of o, only Testdata is used; nil is the default.
func Programs(t *testing.T, o *Options) []Program {
	t.Helper()
	s := &suite{}
	if o != nil {
		s.o = *o
	}
	var all []Program
	for _, p := range readPrograms(t, s.testdata(t, "programs.json")) {
		all = append(all, Program{p.Name, p})
	}
	return all
}

// Check runs the program in sess and compares its results. place makes each of its
// tensors from data; it also gets the number of the tensor, and can place it under a
// signal. grad is that of Options; without it there are no gradients.
func (p *Program) Check(t *testing.T, sess *tensor.Session, grad func(*tensor.Tensor, ...*tensor.Tensor) ([]*tensor.Tensor, error), place func(k int, f func())) {
	t.Helper()
	p.p.check(t, sess, grad, place)
}

func (p *goldenProgram) check(t *testing.T, sess *tensor.Session, grad func(*tensor.Tensor, ...*tensor.Tensor) ([]*tensor.Tensor, error), place func(k int, f func())) {
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

func (p *goldenProgram) compare(t *testing.T, what string, x *tensor.Tensor, b *block) {
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
	x, ok := vars[fmt.Sprint(in.In[0])]
	if !ok {
		return fmt.Errorf("%s of %v: no such tensor", in.Op, in.In[0])
	}
	var out []*tensor.Tensor
	if len(in.In) == 2 {
		y, err := in.binary(vars, x)
		if err != nil {
			return err
		}
		out = []*tensor.Tensor{y}
	} else {
		out = in.unary(x)
	}
	if out == nil {
		return fmt.Errorf("no way to build %q", in.Op)
	}
	for k, id := range in.Out {
		vars[id] = out[k]
	}
	return nil
}

func (in *goldenInstr) binary(vars map[string]*tensor.Tensor, a *tensor.Tensor) (*tensor.Tensor, error) {
	if b, ok := in.In[1].(float64); ok {
		switch in.Op {
		case "add":
			return a.AddS(b), nil
		case "sub":
			return a.SubS(b), nil
		case "mul":
			return a.MulS(b), nil
		case "div":
			return a.DivS(b), nil
		case "isub":
			return a, a.Assign(a.SubS(b))
		}
		return nil, fmt.Errorf("no way to build %q with a number", in.Op)
	}
	b := vars[fmt.Sprint(in.In[1])]
	switch in.Op {
	case "add":
		return a.Add(b), nil
	case "sub":
		return a.Sub(b), nil
	case "mul":
		return a.Mul(b), nil
	case "div":
		return a.Div(b), nil
	case "matmul":
		return a.Matmul(b), nil
	case "cat":
		return tensor.Concat(*in.Attr.Axis, a, b), nil
	case "isub":
		return a, a.SubAssign(b)
	}
	return nil, fmt.Errorf("no way to build %q of two", in.Op)
}

func (in *goldenInstr) unary(x *tensor.Tensor) []*tensor.Tensor {
	var dims []int
	if in.Attr.Axis != nil {
		dims = []int{*in.Attr.Axis}
	}
	fold := func(drop, keep func(...int) *tensor.Tensor) *tensor.Tensor {
		if in.Attr.Keepdims {
			return keep(dims...)
		}
		return drop(dims...)
	}
	var y *tensor.Tensor
	switch in.Op {
	case "exp":
		y = x.Exp()
	case "T":
		y = x.T()
	case "relu":
		y = x.ReLU()
	case "sigmoid":
		y = x.Sigmoid()
	case "tanh":
		y = x.Tanh()
	case "sqrt":
		y = x.Sqrt()
	case "pow2":
		y = x.Square()
	case "sum":
		y = fold(x.Sum, x.SumKeep)
	case "mean":
		y = fold(x.Mean, x.MeanKeep)
	case "max":
		y = fold(x.Max, x.MaxKeep)
	case "transpose":
		y = x.Transpose(in.Attr.Dims[0], in.Attr.Dims[1])
	case "permute":
		y = x.Permute(in.Attr.Dims...)
	case "reshape":
		y = x.Reshape(in.Attr.Shape...)
	case "slice":
		y = x.Slice(ranges(in.Attr.Key)...)
	case "split":
		var sizes []int
		for left := x.Dim(in.Attr.Dim); left > 0; left -= in.Attr.Size {
			sizes = append(sizes, min(left, in.Attr.Size))
		}
		return x.Split(in.Attr.Dim, sizes...)
	case "chunk":
		return x.Chunk(in.Attr.Dim, in.Attr.N)
	default:
		return nil
	}
	return []*tensor.Tensor{y}
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
