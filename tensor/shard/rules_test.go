package shard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// upload returns a tensor of small integers.
func upload(s *tensor.Session, sh ...int) *tensor.Tensor {
	x := make([]float32, tensor.Shape(sh).Elems())
	for i := range x {
		x[i] = float32(i*7%5 - 2)
	}
	return tensor.From(s, x, sh...)
}

// placedCase is a small program, the layouts of its inputs, and the collectives that it
// must get.
type placedCase struct {
	name   string
	build  func(s *tensor.Session) *tensor.Tensor
	mesh   Mesh
	in     []Layout
	out    Layout
	needs  map[protocol.Kind]int
	wanted *Layout // the requested layout of the result
}

var (
	byRows = On(Shard(0))
	byCols = On(Shard(1))
	onAll  = Layout{}
	asSum  = On(Partial(Sum))
)

func two(f func(a, b *tensor.Tensor) *tensor.Tensor, a, b []int) func(s *tensor.Session) *tensor.Tensor {
	return func(s *tensor.Session) *tensor.Tensor { return f(upload(s, a...), upload(s, b...)) }
}

func megatron(s *tensor.Session) *tensor.Tensor {
	return upload(s, 6, 8).Matmul(upload(s, 8, 12)).ReLU().Matmul(upload(s, 12, 8)).Add(upload(s, 8))
}

var none = map[protocol.Kind]int{}

// placedCases lists exactly the collectives that programs get, for 2 to 4 workers.
var placedCases = []placedCase{
	{name: "matmul, rows", build: two((*tensor.Tensor).Matmul, []int{10, 6}, []int{6, 4}), in: []Layout{byRows, onAll}, out: byRows},
	{name: "matmul, columns", build: two((*tensor.Tensor).Matmul, []int{10, 6}, []int{6, 9}), in: []Layout{onAll, byCols}, out: byCols},
	{name: "matmul, inner, not read", build: two((*tensor.Tensor).Matmul, []int{10, 6}, []int{6, 9}), in: []Layout{byCols, byRows}, out: asSum},
	{name: "matmul, inner", build: two((*tensor.Tensor).Matmul, []int{10, 6}, []int{6, 9}), in: []Layout{byCols, byRows}, wanted: &onAll, needs: map[protocol.Kind]int{protocol.AllReduce: 1}},
	{name: "matmul, columns then rows", build: megatron, in: []Layout{onAll, byCols, byRows, onAll}, wanted: &onAll, needs: map[protocol.Kind]int{protocol.AllReduce: 1}},
	{name: "matmul, both by rows", build: two((*tensor.Tensor).Matmul, []int{12, 12}, []int{12, 12}), in: []Layout{byRows, byRows}, out: byRows, needs: map[protocol.Kind]int{protocol.AllGather: 1}},
	{name: "matmul, batch", build: two((*tensor.Tensor).Matmul, []int{5, 3, 4}, []int{5, 4, 2}), in: []Layout{byRows, byRows}, out: byRows},
	{name: "matmul of a partial", build: two((*tensor.Tensor).Matmul, []int{4, 6}, []int{6, 4}), in: []Layout{asSum, onAll}, out: asSum},
	{name: "sum of what is sharded", build: func(s *tensor.Session) *tensor.Tensor { return upload(s, 10, 3).Sum(0) }, in: []Layout{byRows}, out: asSum},
	{name: "mean of it, read", build: func(s *tensor.Session) *tensor.Tensor { return upload(s, 10, 4).Mean(0) }, in: []Layout{byRows}, wanted: &onAll, needs: map[protocol.Kind]int{protocol.AllReduce: 1}},
	{name: "sum of another dim", build: func(s *tensor.Session) *tensor.Tensor { return upload(s, 10, 3).Sum(1) }, in: []Layout{byRows}, out: byRows},
	{name: "max of it", build: func(s *tensor.Session) *tensor.Tensor { return upload(s, 10, 3).Max(0) }, in: []Layout{byRows}, out: On(Partial(Max))},
	{name: "max of 3 rows on 4", mesh: Line(4), build: func(s *tensor.Session) *tensor.Tensor { return upload(s, 3, 5).Max(0) }, in: []Layout{byRows}, out: byRows, needs: map[protocol.Kind]int{protocol.AllToAll: 1}},
	{name: "linear operations pass partials on", build: func(s *tensor.Session) *tensor.Tensor {
		x := upload(s, 4, 6)
		return x.T().Neg().MulS(3).Reshape(2, 12).Add(upload(s, 2, 12).ReLU())
	}, in: []Layout{asSum, onAll}, out: asSum},
	{name: "others don't", build: func(s *tensor.Session) *tensor.Tensor { return upload(s, 4, 6).MulS(3).ReLU() }, in: []Layout{asSum}, needs: map[protocol.Kind]int{protocol.AllReduce: 1}},
	{name: "one value, read by two", build: func(s *tensor.Session) *tensor.Tensor {
		x := upload(s, 4, 6)
		return x.ReLU().Mul(x.Square())
	}, in: []Layout{asSum}, needs: map[protocol.Kind]int{protocol.AllReduce: 1}},
	{name: "what nobody needs", build: func(s *tensor.Session) *tensor.Tensor {
		x := upload(s, 4, 6)
		x.Square()
		return x.Neg()
	}, in: []Layout{asSum}, out: asSum},
	// The inputs are in the order of their use: g first.
	{name: "a parameter stays whole", build: two(func(w, g *tensor.Tensor) *tensor.Tensor {
		return w.Sub(g.MulS(0.5))
	}, []int{4, 6}, []int{4, 6}), in: []Layout{asSum, onAll}, needs: map[protocol.Kind]int{protocol.AllReduce: 1}},
	{name: "the largest of largest", build: two(func(x, y *tensor.Tensor) *tensor.Tensor {
		return x.Session().Apply(tensor.OpMax, nil, tensor.T(x), tensor.T(y))
	}, []int{4, 6}, []int{4, 6}), in: []Layout{On(Partial(Max)), On(Partial(Max))}, out: On(Partial(Max))},
	{name: "terms of bytes wrap, sums of them don't", build: func(s *tensor.Session) *tensor.Tensor { return tensor.From(s, []uint8{1, 200, 250}, 3).Sum(0) },
		in: []Layout{asSum}, needs: map[protocol.Kind]int{protocol.AllReduce: 1}},
	{name: "softmax, other dim", build: func(s *tensor.Session) *tensor.Tensor { return upload(s, 5, 6).Softmax(1) }, in: []Layout{byRows}, out: byRows},
	{name: "softmax, its own dim", build: func(s *tensor.Session) *tensor.Tensor { return upload(s, 6, 6).Softmax(1) }, in: []Layout{byCols}, out: byRows, needs: map[protocol.Kind]int{protocol.AllToAll: 1}},
	{name: "embedding", build: func(s *tensor.Session) *tensor.Tensor {
		return upload(s, 7, 4).IndexSelect(0, tensor.From(s, []int32{6, 0, 3, 3, 1}, 5))
	}, in: []Layout{onAll, byRows}, out: byRows},
	{name: "gradient of an embedding", build: func(s *tensor.Session) *tensor.Tensor {
		return tensor.Zeros(s, tensor.F32, 7, 4).IndexAdd(0, tensor.From(s, []int32{6, 0, 3, 3, 1}, 5), upload(s, 5, 4))
	}, in: []Layout{byRows, byRows}, out: asSum},
	{name: "concat along the sharded dim", build: two(func(a, b *tensor.Tensor) *tensor.Tensor { return tensor.Concat(0, a, b) }, []int{4, 8}, []int{8, 8}), in: []Layout{byCols, byCols}, out: byCols},
	{name: "a row of what is sharded", build: func(s *tensor.Session) *tensor.Tensor {
		return s.Apply(tensor.OpSlice, []int64{7, 1, 1, 0, 1, 3}, tensor.T(upload(s, 10, 3)))
	}, in: []Layout{byRows}, out: asSum},
	{name: "rope by sequence", build: func(s *tensor.Session) *tensor.Tensor {
		return s.Apply(tensor.OpRope, []int64{0}, tensor.T(upload(s, 2, 5, 4)), tensor.T(upload(s, 5, 2)), tensor.T(upload(s, 5, 2)))
	}, in: []Layout{byCols, byRows, byRows}, out: byCols},
	{name: "conv by outputs", mesh: Line(2), build: two(func(x, w *tensor.Tensor) *tensor.Tensor {
		return x.Session().Apply(tensor.OpConv2D, []int64{1, 1, 1, 1, 1, 1, 1}, tensor.T(x), tensor.T(w))
	}, []int{2, 4, 5, 5}, []int{6, 4, 3, 3}), in: []Layout{onAll, byRows}, out: byCols},
	{name: "conv by inputs", mesh: Line(2), build: two(func(x, w *tensor.Tensor) *tensor.Tensor {
		return x.Session().Apply(tensor.OpConv2D, []int64{1, 1, 1, 1, 1, 1, 1}, tensor.T(x), tensor.T(w))
	}, []int{2, 4, 5, 5}, []int{6, 4, 3, 3}), in: []Layout{byCols, byCols}, out: asSum},
	{name: "triangle by rows", build: func(s *tensor.Session) *tensor.Tensor { return upload(s, 7, 5).Tril(1) }, in: []Layout{byRows}, out: byRows},
	{name: "dropout", build: func(s *tensor.Session) *tensor.Tensor { return upload(s, 7, 5).Dropout(0.5) }, in: []Layout{byCols}, out: byCols},
}

func TestPlacements(t *testing.T) {
	for _, c := range placedCases {
		for n := 2; n <= 4; n++ {
			m := Line(n)
			if c.mesh != nil {
				if m = c.mesh; m.Size() != n {
					continue
				}
			}
			t.Run(fmt.Sprintf("%s on %d", c.name, n), func(t *testing.T) {
				rec := record(t, func(s *tensor.Session) []*tensor.Tensor { return []*tensor.Tensor{c.build(s)} })
				var parts [][]*array
				for i, x := range rec.inputs {
					parts = append(parts, split(m, c.in[i], x))
				}
				last := len(rec.program.Instrs) - 1
				o := &Options{}
				if c.wanted != nil {
					o.Outputs = map[int]Layout{last: *c.wanted}
				}
				p, err := Rewrite(rec.program, m, c.in, o)
				if err != nil {
					t.Fatal(err)
				}
				outs, tr := simulate(t, p, parts, rec.scalars)
				tr.check(t, p)
				needs := c.needs
				if needs == nil {
					needs = none
				}
				if !maps.Equal(tr.calls, needs) {
					t.Errorf("collectives %v, expected %v\n%s", tr.calls, needs, p.Explain())
				}
				want := c.out
				if c.wanted != nil {
					want = *c.wanted
				}
				if got := p.Outputs[0].Layout; got != want {
					t.Errorf("the result lies %v, expected %v\n%s", got, want, p.Explain())
				}
				got, _ := assemble(t, m, p.Outputs[0].Placed, outs[0])
				if diff := differs(got, whole(t, rec.program, rec.inputs, rec.scalars)[last], 1e-6); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestRedistribute: Redistribute works between any two layouts and changes no bits.
func TestRedistribute(t *testing.T) {
	for _, m := range []Mesh{Line(2), Line(3), Grid(2, 2), Grid(2, 3)} {
		for _, s := range []tensor.Shape{{7, 5}, {1, 4, 3}, {3, 2}, {6}} {
			x := newArray(tensor.F32, s)
			for k := range x.f {
				x.f[k] = float64(k) + 0.5
			}
			one := []Placement{Replicate, Partial(Sum), Partial(Max)}
			for d := range s {
				one = append(one, Shard(d))
			}
			var layouts []Layout
			for _, a := range one {
				for _, b := range one {
					if l := On(a, b); m.check(l, x.dt, s) == nil && (a.kind != partial || b.kind != partial || a == b) {
						layouts = append(layouts, l)
					}
				}
			}
			for _, from := range layouts {
				for _, to := range layouts {
					p, err := Redistribute(m, x.dt, s, from, to)
					if err != nil {
						t.Fatal(err)
					}
					outs, tr := simulate(t, p, [][]*array{split(m, from, x)}, nil)
					tr.check(t, p)
					if got, _ := assemble(t, m, p.Outputs[0].Placed, outs[0]); differs(got, x, 0) != "" || p.Outputs[0].Layout != to {
						t.Fatalf("%v from %v to %v: %s\n%v", s, from, to, differs(got, x, 0), p)
					}
					if from == to && len(tr.calls) > 0 {
						t.Fatalf("%v stays %v and moves", s, from)
					}
				}
			}
		}
	}
}

// TestRandomNumbers: random numbers depend neither on the number of workers nor on the
// requested layout.
func TestRandomNumbers(t *testing.T) {
	rec := record(t, func(s *tensor.Session) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.RandN(s, tensor.F32, 10, 3), tensor.Rand(s, tensor.F64, 7), tensor.Arange(s, tensor.I32, 3, 2, 9)}
	})
	want := whole(t, rec.program, nil, rec.scalars)
	for n := 1; n <= 5; n++ {
		o := &Options{Outputs: map[int]Layout{}}
		for i := range rec.program.Instrs {
			o.Outputs[i] = byRows
		}
		p, err := Rewrite(rec.program, Line(n), nil, o)
		if err != nil {
			t.Fatal(err)
		}
		outs, tr := simulate(t, p, nil, rec.scalars)
		if len(tr.calls) > 0 {
			t.Errorf("random numbers move: %v", tr.calls)
		}
		for k, out := range p.Outputs {
			if got, _ := assemble(t, p.Mesh, out.Placed, outs[k]); differs(got, want[out.Instr], 0) != "" {
				t.Errorf("%d workers, result %d %s", n, k, differs(got, want[out.Instr], 0))
			}
		}
	}
}

// TestOverlap: a large all-reduce runs beside computation that doesn't need it; small
// ones are joined.
func TestOverlap(t *testing.T) {
	rec := record(t, func(s *tensor.Session) []*tensor.Tensor {
		a := upload(s, 64, 8).Matmul(upload(s, 8, 64))
		b := upload(s, 64, 8).Matmul(upload(s, 8, 64))
		return []*tensor.Tensor{a.ReLU(), b.ReLU()}
	})
	in := []Layout{byCols, byRows, byCols, byRows}
	kinds := func(o *Options) (k []Kind, moves int) {
		p, err := Rewrite(rec.program, Line(2), in, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Ranks[0].Steps {
			k = append(k, s.Kind)
			if s.Kind == Start {
				moves += len(s.Collective.Moves)
			}
		}
		return k, moves
	}
	run, start, wait := RunProgram, Start, Wait
	for _, c := range []struct {
		name string
		o    Options
		want []Kind
	}{
		{"apart and at once", Options{BucketBytes: -1, OverlapBytes: 1}, []Kind{run, start, run, start, wait, run, wait, run}},
		{"apart and late", Options{BucketBytes: -1, OverlapBytes: 1 << 20}, []Kind{run, start, wait, run, start, wait, run}},
		{"together", Options{OverlapBytes: 1 << 20}, []Kind{run, start, wait, run}},
	} {
		if got, moves := kinds(&c.o); !slices.Equal(got, c.want) || moves != 2 {
			t.Errorf("%s: steps %v with %d tensors, expected %v with 2", c.name, got, moves, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	rec := record(t, func(s *tensor.Session) []*tensor.Tensor { return []*tensor.Tensor{upload(s, 4, 4).ReLU()} })
	for _, c := range []struct {
		name string
		m    Mesh
		in   []Layout
		o    *Options
		want error
		text string
	}{
		{"no dims", Mesh{}, []Layout{onAll}, nil, ErrMesh, "0 dims"},
		{"no ranks", Line(0), []Layout{onAll}, nil, ErrMesh, "data has 0"},
		{"too many ranks", Grid(512, 4), []Layout{onAll}, nil, ErrMesh, "2048"},
		{"no layout", Line(2), nil, nil, ErrPlacement, "0 layouts for 1"},
		{"a dim that isn't there", Line(2), []Layout{On(Shard(2))}, nil, ErrPlacement, "input 0: shard: bad placement: S(2) of a tensor f32[4 4]"},
		{"a negative dim", Line(2), []Layout{On(Shard(-1))}, nil, ErrPlacement, "S(-1)"},
		{"a dim that the mesh hasn't", Line(2), []Layout{On(Replicate, Shard(0))}, nil, ErrPlacement, "along dim 1 of a mesh of 1"},
		{"no fold", Line(2), []Layout{On(Partial(NoFold))}, nil, ErrPlacement, "P(none)"},
		{"a result that isn't kept", Line(2), []Layout{onAll}, &Options{Outputs: map[int]Layout{7: byRows}}, ErrPlacement, "instruction 7"},
		{"a result's dim", Line(2), []Layout{onAll}, &Options{Outputs: map[int]Layout{0: On(Shard(9))}}, ErrPlacement, "result 0"},
	} {
		_, err := Rewrite(rec.program, c.m, c.in, c.o)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v, expected %v with %q", c.name, err, c.want, c.text)
		}
	}
	if _, err := Redistribute(Line(2), tensor.I32, tensor.Shape{3}, On(Partial(Mean)), onAll); !errors.Is(err, ErrPlacement) {
		t.Errorf("a mean of integers: %v", err)
	}
}

func TestChunk(t *testing.T) {
	var got []string
	for _, c := range [][2]int{{10, 4}, {3, 4}, {0, 2}} {
		for i := range c[1] {
			start, n := Chunk(c[0], c[1], i)
			got = append(got, fmt.Sprintf("%d+%d", start, n))
		}
	}
	if s := strings.Join(got, " "); s != "0+3 3+3 6+2 8+2 0+1 1+1 2+1 3+0 0+0 0+0" {
		t.Error(s)
	}
	m := Grid(2, 3)
	if g := fmt.Sprint(m.Group(4, 0), m.Group(4, 1), m.Coord(4, 0), m.Coord(4, 1)); g != "[1 4] [3 4 5] 1 1" {
		t.Error(g)
	}
	if _, sh := m.Local(On(Shard(0), Shard(0)), tensor.Shape{7}, 0); sh[0] != 2 {
		t.Errorf("nested chunk is %v", sh)
	}
}

// TestExplain compares the printed plan and its explanation, as plan dump shows them.
func TestExplain(t *testing.T) {
	rec := record(t, func(s *tensor.Session) []*tensor.Tensor { return []*tensor.Tensor{megatron(s)} })
	p, err := Rewrite(rec.program, Line(2), []Layout{onAll, byCols, byRows, onAll}, &Options{Outputs: map[int]Layout{3: onAll}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `mesh data 2
in0 f32[6 8] [R]
in1 f32[8 12] [S(1)]
in2 f32[12 8] [S(0)]
in3 f32[8] [R]
%0 = matmul f32[6 12] in0 in1 [S(1)]
%1 = relu f32[6 12] %0 [S(1)]
%2 = matmul f32[6 8] %1 in2 [P(sum)]
%3 = add f32[6 8] %2 in3 [P(sum)]
all-reduce along data: %3 add, partial sum to whole, for readers; 192 bytes/rank
%3 is kept [R]
1 all-reduce; bytes sent by a rank: 192; programs: 1; local changes of layout: 1
rank 0
  run of [0 1 2 3]
    in0 f32[6 8] donated
    in1 f32[8 6] donated
    in2 f32[6 8] donated
    in3 f32[8] donated
    %0 = matmul f32[6 6] in0 in1
    %1 = relu f32[6 6] %0
    %2 = matmul f32[6 8] %1 in2
    %3 = reshape f32[8] in3 [8]
    %4 = add f32[6 8] %2 %3 keep
    %4 is value 8
  start all-reduce 0 sum f32 along dim 0 of the mesh: 8[6 8] to 9[6 8]
  wait for all-reduce 0
  free [8]
rank 1
  run of [0 1 2]
    in0 f32[6 8] donated
    in1 f32[8 6] donated
    in2 f32[6 8] donated
    %0 = matmul f32[6 6] in0 in1
    %1 = relu f32[6 6] %0
    %2 = matmul f32[6 8] %1 in2
    %3 = full f32[8] s0 [1 8]
    %4 = add f32[6 8] %2 %3 keep
    %4 is value 8
  free [3]
  start all-reduce 0 sum f32 along dim 0 of the mesh: 8[6 8] to 9[6 8]
  wait for all-reduce 0
  free [8]
`
	if got := p.Explain() + p.String(); got != want {
		t.Errorf("got\n%s", got)
	}
}
