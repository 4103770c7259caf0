package cluster_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/enginetest"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// scene is a session in which a behaviour is played: through a cluster with a config, or
// by the reference without. Tensors of data are made under a signal, and it reads the
// results itself where reading is part of the behaviour.
type scene struct {
	t      *testing.T
	s      *tensor.Session
	leaves []*tensor.Tensor // that have gradients
}

// cut makes a tensor of numbers under a signal.
func (c *scene) cut(signal string, shape ...int) (x *tensor.Tensor) {
	c.s.Signal(signal, func() { x = tensor.From(c.s, numbers(tensor.Shape(shape).Elems(), len(c.leaves)+1), shape...) })
	x.RequireGrad()
	c.leaves = append(c.leaves, x)
	return x
}

// first and last make tensors that are cut in their first and last dim, whole one that is
// not.
func (c *scene) first(shape ...int) *tensor.Tensor { return c.cut("first", shape...) }
func (c *scene) last(shape ...int) *tensor.Tensor  { return c.cut("last", shape...) }
func (c *scene) whole(shape ...int) *tensor.Tensor { return c.cut("whole", shape...) }

func (c *scene) read(x *tensor.Tensor) []float64 {
	c.t.Helper()
	out, err := tensor.Data[float64](x.Cast(tensor.F64))
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// behaviours are played on one to four workers, and give the reference's results and
// gradients: those of the sum of the squares of all results. The numbers are those of the
// list in gt_index_test.go. In all but the first the workers have to send something to
// each other.
var behaviours = []struct {
	number int
	name   string
	play   func(c *scene) []*tensor.Tensor
}{
	{1, "making", func(c *scene) []*tensor.Tensor {
		return []*tensor.Tensor{c.first(7, 3), c.last(7, 3), c.first(2), tensor.Zeros(c.s, tensor.F32, 3, 2).Add(c.whole(3, 2)),
			tensor.Ones(c.s, tensor.F32, 5).Mul(c.first(5)), tensor.RandN(c.s, tensor.F32, 100, 100), tensor.Rand(c.s, tensor.F32, 33)}
	}},
	{2, "operands", func(c *scene) (out []*tensor.Tensor) {
		for _, make := range []func(...int) *tensor.Tensor{c.first, c.last} {
			for _, of := range [][2][]int{{{6, 4}, {6, 4}}, {{3, 1}, {1, 4}}, {{4}, {3, 4}}, {{2, 3, 4}, {4}}} {
				a, b := make(of[0]...), c.last(of[1]...)
				out = append(out, a.Add(b), a.Sub(b), a.Mul(b), a.Div(b.Square().AddS(1)), a.Square().AddS(1).Pow(b),
					a.AddS(2), a.RSubS(2), a.MulS(3), a.Square().AddS(1).RDivS(2), a.DivS(4), a.Maximum(b))
			}
			x := make(5, 6)
			e := x.Sub(x.MaxKeep(-1)).Exp()
			out = append(out, x.Div(x.Square().AddS(1).SumKeep(1)), e.Div(e.SumKeep(-1)))
		}
		return out
	}},
	{3, "chains", func(c *scene) []*tensor.Tensor {
		a, b, bias := c.first(10, 6), c.last(6, 7), c.whole(7)
		y := a.Matmul(b).Add(bias)
		r := y.ReLU().Sum()
		before := c.read(r)[0]
		z := y.Tanh().MulS(2).Add(y.Sigmoid()).Sub(bias)
		for i := range 20 {
			z = z.MulS(0.9).AddS(0.01 * float64(i)).Tanh()
			if i%7 == 3 {
				c.read(z)
			}
		}
		w := r
		for range 1000 {
			w = w.MulS(1.001)
		}
		kept := y.Sum(0)
		c.s.NoGrad(func() {
			dropped := kept.MulS(2)
			z = z.Add(dropped.Sum())
			dropped.Free() // what was made of it stays
		})
		if after := c.read(r)[0]; after != before {
			c.t.Errorf("a sum is %v, and was %v", after, before)
		}
		return []*tensor.Tensor{r, z, w, kept, a.T().Matmul(a).Sub(b.Matmul(b.T())), a.Sub(a.MeanKeep(1)).Square().Mean(1).AddS(1).Sqrt()}
	}},
	{4, "reductions", func(c *scene) (out []*tensor.Tensor) {
		for _, make := range []func(...int) *tensor.Tensor{c.first, c.last, c.whole} {
			for _, shape := range [][]int{{10, 3}, {3, 10}, {3, 2, 5}} {
				x := make(shape...)
				for _, dims := range [][]int{nil, {0}, {1}, {-1}, {0, 1}, {0, -1}} {
					out = append(out, x.Sum(dims...), x.SumKeep(dims...), x.Mean(dims...), x.MeanKeep(dims...), x.Max(dims...))
				}
			}
		}
		return out
	}},
	{5, "products", func(c *scene) []*tensor.Tensor {
		rows, whole, columns, tall := c.first(10, 8), c.whole(8, 6), c.last(8, 6), c.first(8, 6)
		return []*tensor.Tensor{rows.Matmul(whole), c.whole(9, 8).Matmul(columns), rows.Matmul(tall), c.last(10, 8).Matmul(tall),
			rows.Matmul(columns).Tanh().Matmul(c.first(6, 5)).Matmul(c.last(5, 4)), c.first(5, 3, 8).Matmul(whole), c.first(2, 3, 8).Matmul(c.first(2, 8, 3)),
			c.first(3, 8).Matmul(c.last(4, 8, 2)), c.first(8).Matmul(columns), rows.Matmul(c.last(8))}
	}},
	{6, "slices", func(c *scene) (out []*tensor.Tensor) {
		for _, make := range []func(...int) *tensor.Tensor{c.first, c.last} {
			x := make(11, 6)
			out = append(out, x.Slice(tensor.To(4, 5)), x.Slice(tensor.To(0, 2)), x.Slice(tensor.To(1, 10)), x.Slice(tensor.By(1, 11, 3)),
				x.Slice(tensor.Ellipsis(), tensor.At(2)), x.Slice(tensor.Every(), tensor.NewAxis(), tensor.To(1, 5)), x.Slice(tensor.At(-1)),
				x.Flip(0), x.T(), x.Reshape(6, 11), x.Reshape(-1, 3), x.Permute(1, 0).Flatten(), x.Unsqueeze(1).Squeeze(1),
				tensor.Concat(0, x, make(3, 6)), tensor.Concat(1, x, make(11, 2)), tensor.Concat(0, x.Chunk(0, 4)...), tensor.Concat(1, x.Chunk(1, 2)...),
				tensor.Concat(0, x.Split(0, 1, 7, 3)...))
			for i := range 3 {
				out = append(out, x.Slice(tensor.At(10-i)))
			}
		}
		return out
	}},
	{7, "gradients", func(c *scene) []*tensor.Tensor {
		x, w, b := c.first(10, 12), c.last(12, 16), c.last(16)
		y := x.Matmul(w).Add(b).Square().AddS(1).Sqrt()
		n := y.Sub(y.MeanKeep(-1)).Div(y.Var(0, -1).AddS(1).Sqrt().Unsqueeze(-1))
		return []*tensor.Tensor{n, tensor.Concat(1, y, n).Permute(1, 0).Sum(0), y.Mul(b.Unsqueeze(0)).Mean(0)}
	}},
}

// TestBehaviours plays them. Each is played twice in a session: the second time every
// plan is known, and the results are the same bits.
func TestBehaviours(t *testing.T) {
	for _, b := range behaviours {
		want, wantGrads := play(t, tensor.NewSession(enginetest.Reference(), nil), b.play)
		for n := 1; n <= 4; n++ {
			if testing.Short() && n != 3 {
				continue
			}
			t.Run(fmt.Sprint(b.number, b.name, n), func(t *testing.T) {
				c := start(t, cluster.Options{Workers: n, InProcess: true})
				e := dial(t, c, &client.Options{Config: cutInputs(n)})
				sess := tensor.NewSession(e, nil)
				got, grads := play(t, sess, b.play)
				known := e.Stats()
				near(t, "result", got, want)
				near(t, "gradient", grads, wantGrads)
				again, gradsAgain := play(t, sess, b.play)
				st := e.Stats()
				for i := range got {
					if random := b.number == 1 && i >= 5; !random && !slices.Equal(got[i], again[i]) {
						t.Errorf("result %d is not the same the second time", i)
					}
				}
				for i := range grads {
					if !slices.Equal(grads[i], gradsAgain[i]) {
						t.Errorf("gradient %d is not the same the second time", i)
					}
				}
				if st.Bodies != known.Bodies || st.Plans != known.Plans {
					t.Errorf("%d programs were sent again, %d plans made", st.Bodies-known.Bodies, st.Plans-known.Plans)
				}
				if moves := n > 1 && b.number > 1; (st.Calls > 0) != moves || (st.Moved > 0) != moves {
					t.Errorf("%d collectives of %d bytes on %d workers", st.Calls, st.Moved, n)
				}
				if bytes := counters(t, c).Get("tensor_bytes"); bytes != 0 {
					t.Errorf("%d bytes of tensors went through the dispatcher", bytes)
				}
			})
		}
	}
}

// play plays a behaviour and reads its results and the gradients of their squares' sum.
func play(t *testing.T, s *tensor.Session, f func(c *scene) []*tensor.Tensor) (results, grads [][]float64) {
	t.Helper()
	s.Scope(func(*tensor.Scope) {
		c := &scene{t: t, s: s}
		out := f(c)
		var loss *tensor.Tensor
		for _, y := range out {
			if l := y.Square().Sum(); loss == nil {
				loss = l
			} else {
				loss = loss.Add(l)
			}
		}
		g, err := autograd.Grad(loss, c.leaves...)
		if err != nil {
			t.Fatal(err)
		}
		for _, y := range out {
			results = append(results, c.read(y))
		}
		for i, y := range g {
			if !y.Shape().Equal(c.leaves[i].Shape()) {
				t.Errorf("the gradient of leaf %d is %v, the leaf %v", i, y.Shape(), c.leaves[i].Shape())
			}
			grads = append(grads, c.read(y))
		}
	})
	return results, grads
}

// near compares with a tolerance for sums in another order.
func near(t *testing.T, what string, got, want [][]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d %ss, expected %d", len(got), what, len(want))
	}
	for k := range want {
		scale := 1.0
		for _, x := range want[k] {
			scale = max(scale, math.Abs(x))
		}
		for i := range want[k] {
			if d := math.Abs(got[k][i] - want[k][i]); !(d <= 1e-4*scale) {
				t.Errorf("%s %d, element %d is %v, expected %v", what, k, i, got[k][i], want[k][i])
				break
			}
		}
	}
}

// TestUpdates: an update of a parameter changes what is read later and nothing that was
// computed before, whole or cut; a loop of them reaches the least-squares solution, and
// XOR is learned.
func TestUpdates(t *testing.T) {
	for n := 1; n <= 4; n++ {
		if testing.Short() && n != 3 {
			continue
		}
		for i, signal := range []string{"first", "last", "whole"} {
			// The race detector sees every number of workers, and every signal.
			if testing.Short() && signal != "first" || testsize.Raced && !testing.Short() && i != n%3 {
				continue
			}
			t.Run(fmt.Sprint(n, signal), func(t *testing.T) {
				c := start(t, cluster.Options{Workers: n, InProcess: true})
				e := dial(t, c, &client.Options{Config: cutInputs(n)})
				s := tensor.NewSession(e, &tensor.SessionOptions{Seed: 7})
				sc := &scene{t: t, s: s}
				var w *tensor.Tensor
				s.Signal(signal, func() { w = tensor.From(s, []float32{1, 2, 3, 4, 5}) })
				y := w.MulS(10)
				for _, f := range []func() error{func() error { return w.SubAssign(w.MulS(0.5)) }, func() error { return w.Assign(w.AddS(1)) }, func() error { return w.MulAssign(w) }} {
					if err := f(); err != nil {
						t.Fatal(err)
					}
				}
				if got := sc.read(w); !slices.Equal(got, []float64{2.25, 4, 6.25, 9, 12.25}) {
					t.Errorf("after three updates: %v", got)
				}
				if got := sc.read(y); !slices.Equal(got, []float64{10, 20, 30, 40, 50}) {
					t.Errorf("what was computed before: %v", got)
				}
				if err := w.ZeroAssign(); err != nil {
					t.Fatal(err)
				}
				if got := sc.read(w); !slices.Equal(got, make([]float64, 5)) {
					t.Errorf("after zeroing: %v", got)
				}
				leastSquares(sc, signal)
				xor(sc, signal)
				if st := e.Stats(); n > 1 && signal != "whole" && (st.Calls < 500 || st.Moved == 0) {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

// leastSquares fits y = x·truth, whose examples lie as the signal says.
func leastSquares(c *scene, signal string) {
	c.t.Helper()
	truth := []float32{1.5, -2, 0.25}
	data := numbers(40*3, 5)
	y := make([]float32, 40)
	for i := range y {
		for k, w := range truth {
			y[i] += w * data[3*i+k]
		}
	}
	var x, target *tensor.Tensor
	c.s.Signal(signal, func() { x, target = tensor.From(c.s, data, 40, 3), tensor.From(c.s, y, 40, 1) })
	w := tensor.Zeros(c.s, tensor.F32, 3, 1).RequireGrad()
	for range 300 {
		c.s.Scope(func(*tensor.Scope) {
			g, err := autograd.Grad(x.Matmul(w).Sub(target).Square().Mean(), w)
			if err == nil {
				c.s.NoGrad(func() { err = w.SubAssign(g[0].MulS(0.5)) })
			}
			if err != nil {
				c.t.Fatal(err)
			}
		})
	}
	for i, got := range c.read(w) {
		if math.Abs(got-float64(truth[i])) > 1e-3 {
			c.t.Errorf("coefficient %d is %v, expected %v", i, got, truth[i])
		}
	}
}

// xor trains an MLP on the four rows of XOR.
func xor(c *scene, signal string) {
	c.t.Helper()
	var x, target *tensor.Tensor
	c.s.Signal(signal, func() {
		x, target = tensor.From(c.s, []float32{0, 0, 0, 1, 1, 0, 1, 1}, 4, 2), tensor.From(c.s, []float32{0, 1, 1, 0}, 4, 1)
	})
	w := []*tensor.Tensor{tensor.RandN(c.s, tensor.F32, 2, 8), tensor.Zeros(c.s, tensor.F32, 8), tensor.RandN(c.s, tensor.F32, 8, 1), tensor.Zeros(c.s, tensor.F32, 1)}
	for _, p := range w {
		p.RequireGrad()
	}
	predict := func() *tensor.Tensor { return x.Matmul(w[0]).Add(w[1]).Tanh().Matmul(w[2]).Add(w[3]).Sigmoid() }
	for range 2000 {
		c.s.Scope(func(*tensor.Scope) {
			g, err := autograd.Grad(predict().Sub(target).Square().Mean(), w...)
			for i := range g {
				if err == nil {
					c.s.NoGrad(func() { err = w[i].SubAssign(g[i].MulS(2)) })
				}
			}
			if err == nil {
				err = c.s.Flush()
			}
			if err != nil {
				c.t.Fatal(err)
			}
		})
	}
	for i, got := range c.read(predict()) {
		if want := []float64{0, 1, 1, 0}[i]; math.Abs(got-want) > 0.2 {
			c.t.Errorf("XOR of row %d is %v", i, got)
		}
	}
}

// TestScopesOfSignals: the inner scope counts, one that the config does not have says
// nothing, a tensor may have fewer rows than there are workers, and without any config
// the numbers are the same.
func TestScopesOfSignals(t *testing.T) {
	program := func(s *tensor.Session) *tensor.Tensor {
		var a, b, d *tensor.Tensor
		s.Signal("first", func() {
			s.Signal("last", func() { a = tensor.From(s, numbers(8*8, 1), 8, 8) })
			s.Signal("nobody's", func() { d = tensor.From(s, numbers(2*8, 3), 2, 8) })
			b = tensor.From(s, numbers(8*8, 2), 8, 8)
		})
		return d.Matmul(a.Matmul(b)) // by the inner dim: one all-reduce
	}
	want, err := tensor.Data[float32](program(session(t, start(t, cluster.Options{InProcess: true}))))
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= 4; n++ {
		c := start(t, cluster.Options{InProcess: true, Workers: n})
		for what, o := range map[string]client.Options{"config": {Config: cutInputs(n)}, "no config": {Workers: n}} {
			e := dial(t, c, &o)
			got, err := tensor.Data[float32](program(tensor.NewSession(e, nil)))
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > 1e-5 {
					t.Errorf("%d workers, %s: element %d is %v, expected %v", n, what, i, got[i], want[i])
				}
			}
			// The nested scope's was the inner one: both in rows, nothing could be
			// multiplied without being gathered first.
			if st := e.Stats(); (st.Calls > 0) != (what == "config") || st.Calls > 2 {
				t.Errorf("%d workers, %s: %d collectives", n, what, st.Calls)
			}
		}
		few := tensor.NewSession(dial(t, c, &client.Options{Config: cutInputs(n)}), nil)
		var x *tensor.Tensor
		few.Signal("first", func() { x = tensor.From(few, []float32{7}, 1, 1) })
		if v, err := x.MulS(2).Sum().Item(); err != nil || v != 14 {
			t.Errorf("%d workers, a tensor of one row: %v, %v", n, v, err)
		}
	}
}

// TestAutoShardOfACluster: nothing is cut unless it is asked for; then what is large is,
// unevenly if need be, and what is small is not.
func TestAutoShardOfACluster(t *testing.T) {
	product := func(s *tensor.Session, rows int) ([]float32, error) {
		x := tensor.From(s, numbers(rows*300, 1), rows, 300)
		w := tensor.From(s, numbers(300*300, 2), 300, 300)
		return tensor.Data[float32](x.Matmul(w).ReLU().Matmul(w).Sum(0)) // over the rows
	}
	want, err := product(session(t, start(t, cluster.Options{InProcess: true})), 301)
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= 4; n++ {
		c := start(t, cluster.Options{InProcess: true, Workers: n})
		for what, o := range map[string]client.Options{
			"off": {Workers: n}, "on": {Config: &config.Config{NumWorkers: n, AutoShard: true}},
			"beside signals": {Config: &config.Config{NumWorkers: n, AutoShard: true, Signals: cutInputs(n).Signals}},
		} {
			e := dial(t, c, &o)
			s := tensor.NewSession(e, nil)
			if v, err := tensor.From(s, []float32{1, 2, 3}).AddS(1).Sum().Item(); err != nil || v != 9 || e.Stats().Calls != 0 {
				t.Errorf("%d workers, %s: a small sum is %v, %v, with %d collectives", n, what, v, err, e.Stats().Calls)
			}
			got, err := product(s, 301)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > 1e-3*math.Abs(float64(want[i]))+1e-2 {
					t.Fatalf("%d workers, %s: element %d is %v, expected %v", n, what, i, got[i], want[i])
				}
			}
			if st := e.Stats(); (st.Calls > 0) != (what != "off") || st.Calls > 2 {
				t.Errorf("%d workers, %s: %d collectives of %d bytes", n, what, st.Calls, st.Moved)
			}
		}
	}
}
