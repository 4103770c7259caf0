package shard

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// capture is an engine that keeps what a session submits.
type capture struct {
	data    map[uint64]*array
	program *tensor.Program
	scalars []float64
	inputs  []*array
	batches int
}

func (c *capture) Name() string                       { return "capture" }
func (c *capture) Alloc(n int) (tensor.Buffer, error) { return make(heap, n), nil }
func (c *capture) Close() error                       { return nil }

func (c *capture) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	for _, u := range b.Uploads {
		var bytes []byte
		if u.Buf != nil {
			bytes = u.Buf.Bytes()
		}
		c.data[u.ID] = decode(u.DType, u.Shape, bytes)
	}
	if b.Program != nil {
		c.batches++
		c.program, c.scalars = b.Program.Clone(), append([]float64(nil), b.Scalars...)
		for _, id := range b.Inputs {
			c.inputs = append(c.inputs, c.data[id])
		}
	}
	return nil, nil
}

// record returns the program that f records, with the tensors that f returns kept.
func record(t *testing.T, f func(s *tensor.Session) []*tensor.Tensor) *capture {
	t.Helper()
	c := &capture{data: map[uint64]*array{}}
	s := tensor.NewSession(c, nil)
	s.Scope(func(sc *tensor.Scope) {
		for _, x := range f(s) {
			sc.Keep(x)
		}
	})
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if c.batches != 1 {
		t.Fatalf("recorded %d programs", c.batches)
	}
	return c
}

// whole runs p on one worker and returns the result of every kept instruction.
func whole(t *testing.T, p *tensor.Program, inputs []*array, scalars []float64) []*array {
	t.Helper()
	w := &worker{t, enginetest.Reference(), 1, map[Var]uint64{}}
	r := &Run{Program: p}
	for i, a := range inputs {
		w.put(Var(i), a)
		r.Inputs = append(r.Inputs, Var(i))
	}
	for i := range scalars {
		r.Scalars = append(r.Scalars, Scalar{From: i})
	}
	for i, in := range p.Instrs {
		if in.Keep {
			r.Kept = append(r.Kept, Kept{i, Var(len(inputs) + i)})
		}
	}
	w.run(r, scalars)
	out := make([]*array, len(p.Instrs))
	for _, k := range r.Kept {
		out[k.Instr] = w.get(k.Var)
	}
	return out
}

func keepAll(p *tensor.Program) *tensor.Program {
	q := p.Clone()
	for i := range q.Instrs {
		q.Instrs[i].Keep = true
	}
	for i := range q.Externals {
		q.Externals[i].Donated = false
	}
	return q
}

// alone returns instruction i as a program, and the numbers of its operands: externals
// first, then instructions.
func alone(p *tensor.Program, i int) (*tensor.Program, []int) {
	in := p.Instrs[i]
	q := &tensor.Program{NumScalars: p.NumScalars, Shapes: p.Shapes, Ints: p.IntsOf(i)}
	var from []int
	for _, r := range p.ArgsOf(i) {
		if _, ok := r.Scalar(); ok {
			q.Args = append(q.Args, r)
			continue
		}
		n, ok := r.External()
		shape := uint32(0)
		if ok {
			shape = p.Externals[n].Shape
		} else {
			n, _ = r.Instr()
			shape = p.Instrs[n].Shape
			n += len(p.Externals)
		}
		d, _ := p.TypeOf(r)
		q.Args = append(q.Args, tensor.ExternalRef(len(from)))
		q.Externals = append(q.Externals, tensor.External{DType: d, Shape: shape})
		from = append(from, n)
	}
	in.Arg, in.Int, in.Keep = 0, 0, true
	q.Instrs = []tensor.Instr{in}
	return q, from
}

// randomLayout returns a random layout that a tensor can have.
func randomLayout(rng *rand.Rand, m Mesh, d tensor.DType, s tensor.Shape) Layout {
	for {
		var l Layout
		for k := range m {
			switch rng.IntN(5) {
			case 0, 1, 2:
				if len(s) > 0 {
					l[k] = Shard(rng.IntN(len(s)))
				}
			case 3:
				l[k] = Partial([]Fold{Sum, Sum, Mean, Max, Min, Prod}[rng.IntN(6)])
			}
		}
		if m.check(l, d, s) != nil {
			continue
		}
		if a, ok := l[0].Partial(); ok { // split mixes folds only if they are one
			if b, ok := l[1].Partial(); ok && a != b {
				continue
			}
		}
		if l.partial() && d == tensor.U8 {
			if f, ok := l[0].Partial(); ok && f != Sum {
				continue
			}
			if f, ok := l[1].Partial(); ok && f != Sum {
				continue
			}
		}
		return l
	}
}

var meshes = []Mesh{Line(1), Line(2), Line(3), Line(4), Line(5), Grid(2, 2), Grid(1, 3), Grid(2, 1), Grid(3, 2)}

var (
	randomPrograms = flag.Int("random.programs", 0, "so many random programs instead of the test's own number")
	randomAll      = flag.Bool("random.all", false, "each random program on every mesh, instead of on one")
)

// totals counts over all random programs.
type totals struct {
	calls          map[protocol.Kind]int
	sent           int64
	exact, rounded int
	bucketed       int
	programs       int
	ranks          [7]int // number of ranks, programs
}

// TestRandomPrograms: random programs on random meshes with random layouts compute the
// results of one worker. It checks every instruction on the operands that the ranks had
// together: the bits are equal where no sum is deferred, else the results are within the
// bound that the package states.
func TestRandomPrograms(t *testing.T) {
	n := 2000
	if testsize.Sampled() {
		n = 150
	}
	if *randomPrograms > 0 {
		n = *randomPrograms
	}
	sum := totals{calls: map[protocol.Kind]int{}}
	for seed := range uint64(n) {
		if !*randomAll {
			t.Run(fmt.Sprintf("seed=%d", seed+1), func(t *testing.T) { randomProgram(t, seed+1, nil, &sum) })
			continue
		}
		for _, m := range meshes {
			t.Run(fmt.Sprintf("seed=%d,mesh=%v", seed+1, m), func(t *testing.T) { randomProgram(t, seed+1, m, &sum) })
		}
	}
	t.Logf("%d programs on meshes of %v ranks: %v, %d bytes, %d results equal in all bits, %d within the bound, %d tensors in buckets", sum.programs, sum.ranks,
		sum.calls, sum.sent, sum.exact, sum.rounded, sum.bucketed)
	for _, k := range kindOrder {
		if sum.calls[k] < n/20 {
			t.Errorf("%d %v in %d programs", sum.calls[k], k, n)
		}
	}
	if sum.sent == 0 || sum.bucketed == 0 || sum.rounded < n/20 || sum.exact < n*5 {
		t.Errorf("programs did too little: %+v", sum)
	}
}

// randomProgram tries one program on m, or on a random mesh if m is nil.
func randomProgram(t *testing.T, seed uint64, m Mesh, sum *totals) {
	rng := rand.New(rand.NewPCG(seed, 6))
	c := record(t, func(s *tensor.Session) []*tensor.Tensor { return enginetest.Generate(s, seed, 14) })
	if any := meshes[rng.IntN(len(meshes))]; m == nil {
		m = any
	}
	sum.programs++
	sum.ranks[m.Size()]++
	var layouts []Layout
	var parts [][]*array
	var inputs []*array
	for _, x := range c.inputs {
		l := randomLayout(rng, m, x.dt, x.sh)
		p := split(m, l, x)
		layouts, parts = append(layouts, l), append(parts, p)
		// Terms are rounded, so the input is the tensor that they give together.
		x, _ := assemble(t, m, Placed{DType: x.dt, Shape: x.sh, Layout: l}, p)
		inputs = append(inputs, x)
	}
	o := &Options{BucketBytes: int64(rng.IntN(3)) << 12, OverlapBytes: int64(rng.IntN(3)) << 6}
	all := keepAll(c.program)
	p, err := Rewrite(all, m, layouts, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("%v\n%v", p.Explain(), p)
		}
	}()
	outs, tr := simulate(t, p, parts, c.scalars)
	tr.check(t, p)
	for k, v := range tr.calls {
		sum.calls[k] += v
	}
	sum.sent += p.Stats.Bytes
	sum.bucketed += p.Stats.Bucketed
	values, tops := make([]*array, len(inputs)+len(all.Instrs)), make([]float64, len(inputs)+len(all.Instrs))
	for i, ps := range parts {
		values[i], tops[i] = assemble(t, m, p.Inputs[i], ps)
	}
	for k, out := range p.Outputs {
		at := len(inputs) + out.Instr
		values[at], tops[at] = assemble(t, m, out.Placed, outs[k])
	}
	for i := range all.Instrs {
		one, from := alone(all, i)
		var args []*array
		top, free := tops[len(inputs)+i], true
		for _, n := range from {
			args = append(args, values[n])
			top = max(top, tops[n])
			if n < len(inputs) {
				free = free && !layouts[n].partial()
			} else {
				free = free && !p.results[n-len(inputs)].partial()
			}
		}
		tol := 0.0
		got, want := values[len(inputs)+i], whole(t, one, args, c.scalars)[0]
		if free && !p.results[i].partial() && all.Instrs[i].Op != tensor.OpCrossEntropyGrad {
			sum.exact++
		} else if got.dt.IsFloat() {
			sum.rounded++
			tol = 16 * ulp(got.dt) * ((1+top)*(1+top) + largest(want))
		}
		if diff := differs(got, want, tol); diff != "" {
			t.Fatalf("%%%d = %v %v of %v, result lies %v: %s", i, all.Instrs[i].Op, all.IntsOf(i), from, p.results[i], diff)
		}
	}
	// Once more with only the program's own results kept, and with its inputs donated:
	// the numbers are the same.
	few, err := Rewrite(c.program, m, layouts, o)
	if err != nil {
		t.Fatal(err)
	}
	outs, tr = simulate(t, few, parts, c.scalars)
	tr.check(t, few)
	for k, out := range few.Outputs {
		got, top := assemble(t, m, out.Placed, outs[k])
		// A partial result may be kept in another of its versions.
		if diff := differs(got, values[len(inputs)+out.Instr], 8*ulp(got.dt)*(1+top)); diff != "" {
			t.Fatalf("with few results kept, %%%d %s\n%v", out.Instr, diff, few)
		}
	}
}

// ulp returns the distance from 1 to the next number, 0 for integers.
func ulp(d tensor.DType) float64 {
	switch d {
	case tensor.F32:
		return 0x1p-23
	case tensor.F64:
		return 0x1p-52
	case tensor.F16:
		return 0x1p-10
	case tensor.BF16:
		return 0x1p-7
	}
	return 0
}

// largest returns the largest finite magnitude in a.
func largest(a *array) (top float64) {
	for _, x := range a.f {
		if x = math.Abs(x); x > top && !math.IsInf(x, 0) {
			top = x
		}
	}
	return top
}

// check compares the actions of the ranks with the plan.
func (tr traffic) check(t *testing.T, p *Plan) {
	t.Helper()
	for _, k := range kindOrder {
		if tr.calls[k] != p.Stats.Collectives[k] || tr.moves[k] != p.Stats.Moves[k] {
			t.Errorf("%d %v of %d tensors, the plan says %d of %d", tr.calls[k], k, tr.moves[k], p.Stats.Collectives[k], p.Stats.Moves[k])
		}
	}
	if most := slices.Max(tr.sent); most != p.Stats.Bytes {
		t.Errorf("a rank sent %d bytes, the plan says %d", most, p.Stats.Bytes)
	}
}
