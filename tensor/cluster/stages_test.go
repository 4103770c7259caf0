package cluster_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// pipeline is a config of stages named stage0, stage1, ..., each of so many workers,
// which cut batches by rows.
func pipeline(stages, each int) *config.Config {
	c := &config.Config{Signals: []config.Signal{{Name: "batch", Shard: &config.Shard{}}}}
	for k := range stages {
		g := config.Signal{Name: fmt.Sprintf("stage%d", k)}
		for i := range each {
			g.Workers = append(g.Workers, k+stages*i) // not in a row
		}
		c.Signals = append(c.Signals, g)
	}
	return c
}

const pipeRows, pipeWidth = 8, 6

// chain is a network of layers, each a stage, trained by recording every step in the
// order of the schedule.
type chain struct {
	s       *tensor.Session
	weights []*tensor.Tensor
}

func newChain(s *tensor.Session, stages int) *chain {
	m := &chain{s: s}
	for k := range stages {
		s.Signal(fmt.Sprintf("stage%d", k), func() {
			m.weights = append(m.weights, tensor.From(s, numbers(pipeWidth*pipeWidth, k), pipeWidth, pipeWidth).RequireGrad())
		})
	}
	return m
}

// step is a step of some micro-batches; it returns the sum of their losses.
func (m *chain) step(t *testing.T, n, micro int) *tensor.Tensor {
	t.Helper()
	stages := len(m.weights)
	order, err := shard.PipelineOrder(stages, micro)
	if err != nil {
		t.Fatal(err)
	}
	var loss *tensor.Tensor
	m.s.Scope(func(sc *tensor.Scope) {
		in, out := make([][]*tensor.Tensor, stages), make([][]*tensor.Tensor, stages)
		for k := range stages {
			in[k], out[k] = make([]*tensor.Tensor, micro), make([]*tensor.Tensor, micro)
		}
		sums, back := make([]*tensor.Tensor, stages), make([]*tensor.Tensor, micro)
		for _, a := range order {
			k, i := a.Stage, a.Micro
			if a.Kind == shard.Forward {
				var x *tensor.Tensor
				if k > 0 {
					x = out[k-1][i].Detach().RequireGrad()
				} else {
					m.s.Signal("batch", func() { x = tensor.From(m.s, numbers(pipeRows*pipeWidth, 100*n+i), pipeRows, pipeWidth) })
				}
				m.s.Signal(fmt.Sprintf("stage%d", k), func() {
					y := x.Matmul(m.weights[k]).Tanh()
					if k == stages-1 {
						y = y.Mul(y).Mean()
						if loss == nil {
							loss = y
						} else {
							loss = loss.Add(y)
						}
					}
					in[k][i], out[k][i] = x, y
				})
				continue
			}
			of := []*tensor.Tensor{m.weights[k]}
			if k > 0 {
				of = append(of, in[k][i])
			}
			g, err := autograd.GradWith(&autograd.Options{GradOutput: back[i]}, out[k][i], of...)
			if err != nil {
				t.Fatal(err)
			}
			if k > 0 {
				back[i] = g[1]
			}
			if sums[k] == nil {
				sums[k] = g[0]
			} else {
				sums[k] = sums[k].Add(g[0])
			}
		}
		loss = sc.Keep(loss.Detach())
		m.s.NoGrad(func() {
			for k, w := range m.weights {
				if err := w.Assign(w.Sub(sums[k].MulS(0.1))); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
	return loss
}

func (m *chain) train(t *testing.T, steps, micro int) (losses []float64) {
	t.Helper()
	for n := range steps {
		loss := m.step(t, n, micro)
		v, err := loss.Item()
		if err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		loss.Free()
		losses = append(losses, v)
	}
	return losses
}

// values are the weights, read from where they are.
func (m *chain) values(t *testing.T) (out [][]float32) {
	t.Helper()
	for _, w := range m.weights {
		v, err := tensor.Data[float32](w)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// TestPipeline: stages give one worker's numbers, to the bit where each is one worker,
// and send between neighbours an activation forward and its gradient backward for every
// micro-batch, and nothing else.
func TestPipeline(t *testing.T) {
	const micro = 4
	for _, c := range []struct{ stages, each, steps int }{{2, 1, 30}, {3, 1, 10}, {4, 1, 5}, {2, 2, 10}} {
		t.Run(fmt.Sprintf("%dx%d", c.stages, c.each), func(t *testing.T) {
			one := newChain(session(t, start(t, cluster.Options{InProcess: true})), c.stages)
			want := one.train(t, c.steps, micro)
			e := dial(t, start(t, cluster.Options{Workers: c.stages * c.each, InProcess: testing.Short()}), &client.Options{Config: pipeline(c.stages, c.each)})
			m := newChain(tensor.NewSession(e, nil), c.stages)
			if got := m.train(t, 1, micro); math.Abs(got[0]-want[0]) > 1e-5 {
				t.Fatalf("loss %v, expected %v", got[0], want[0])
			}
			// of all workers, also those that have nothing to show
			stats := func() client.Stats {
				if err := m.s.Sync(); err != nil {
					t.Fatal(err)
				}
				return e.Stats()
			}
			first := stats()
			got := want[:1]
			for n := 1; n < c.steps; n++ {
				loss := m.step(t, n, micro)
				v, err := loss.Item()
				if err != nil {
					t.Fatal(err)
				}
				loss.Free()
				got = append(got, v)
			}
			bound := 0.0
			if c.each > 1 { // sums in another order
				bound = 1e-5
			}
			for n := range want {
				if d := math.Abs(got[n] - want[n]); d > bound {
					t.Errorf("step %d: loss %v, expected %v", n, got[n], want[n])
				}
			}
			for k, w := range m.values(t) {
				for i, x := range one.values(t)[k] {
					if d := math.Abs(float64(w[i] - x)); d > bound {
						t.Fatalf("weights of stage %d: %v, expected %v", k, w, one.values(t)[k])
					}
				}
			}
			st := stats()
			t.Logf("%+v", st)
			if c.each > 1 {
				return // beside the transfers there are the all-reduces of a stage
			}
			// The worker that sends most is one with neighbours on both sides, or one of
			// two: each has one direction.
			per := micro * min(2, c.stages-1)
			calls, moved := uint64(per*(c.steps-1)), uint64(per*(c.steps-1)*4*pipeRows*pipeWidth)
			if st.Calls-first.Calls != calls || st.Moved-first.Moved != moved || st.Plans > first.Plans+1 {
				t.Errorf("%d transfers of %d bytes, expected %d of %d; %d plans, at first %d", st.Calls-first.Calls, st.Moved-first.Moved, calls, moved, st.Plans, first.Plans)
			}
		})
	}
}

// TestSequence: where the result of a layer that is cut by columns and then by rows is
// wanted cut in its sequence, a reduce-scatter and an all-gather move what an all-reduce
// would.
func TestSequence(t *testing.T) {
	const batch, seq, hidden, wide, n = 2, 6, 4, 32, 2
	layer := func(s *tensor.Session) *tensor.Tensor {
		made := func(signal string, seed int, shape ...int) (x *tensor.Tensor) {
			elems := 1
			for _, d := range shape {
				elems *= d
			}
			s.Signal(signal, func() { x = tensor.From(s, numbers(elems, seed), shape...) })
			return x
		}
		h := made("whole", 1, batch, seq, hidden).Matmul(made("columns", 2, hidden, wide)).ReLU().Matmul(made("rows", 3, wide, hidden)).Signal("sequence")
		return h.Softmax(-1).Tanh().Matmul(made("columns", 4, hidden, wide)).Exp()
	}
	want, err := tensor.Data[float32](layer(session(t, start(t, cluster.Options{InProcess: true}))))
	if err != nil {
		t.Fatal(err)
	}
	c := rows(n)
	for _, cut := range []bool{false, true} {
		calls := uint64(1)
		if cut {
			calls = 2
			c.Signals = append(c.Signals, config.Signal{Name: "sequence", Shard: &config.Shard{Axis: 1}})
		}
		e := dial(t, start(t, cluster.Options{InProcess: true, Workers: n}), &client.Options{Config: c})
		got, err := tensor.Data[float32](layer(tensor.NewSession(e, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if d := math.Abs(float64(got[i] - want[i])); d > 1e-4*math.Abs(float64(want[i])) {
				t.Fatalf("element %d is %v, expected %v", i, got[i], want[i])
			}
		}
		if st := e.Stats(); st.Calls != calls || st.Moved != 2*4*batch*seq*hidden*(n-1)/n {
			t.Errorf("cut %v: %d collectives of %d bytes, expected %d of %d", cut, st.Calls, st.Moved, calls, 2*4*batch*seq*hidden*(n-1)/n)
		}
	}
}

// TestPipelineFails: what goes wrong in one stage goes wrong in all, is told as one
// worker would tell it, and costs only the batch.
func TestPipelineFails(t *testing.T) {
	for stages := 2; stages <= 3; stages++ {
		e := dial(t, start(t, cluster.Options{InProcess: true, Workers: stages}), &client.Options{Config: pipeline(stages, 1)})
		s := tensor.NewSession(e, nil)
		m := newChain(s, stages)
		sum := func(at int64) (float64, error) {
			y := m.weights[0].IndexSelect(0, tensor.From(s, []int64{0, at}))
			for _, w := range m.weights[1:] {
				y = y.Matmul(w)
			}
			y = y.Matmul(m.weights[0]).Sum() // back to the first
			defer y.Free()
			return y.Item()
		}
		failsOnce(t, fmt.Sprintf("%d stages", stages), s, sum, 1, 99)
	}
}

// TestPipelineWorkerDies: the session of a stage that is killed is over, with an error
// that says which worker it was and which tensors are lost.
func TestPipelineWorkerDies(t *testing.T) {
	c := start(t, cluster.Options{Workers: 3, Restart: true})
	e := dial(t, c, &client.Options{Config: pipeline(3, 1)})
	s := tensor.NewSession(e, nil)
	m := newChain(s, 3)
	s.Name(tensor.Named{Name: "first", T: m.weights[0]}, tensor.Named{Name: "second", T: m.weights[1]})
	m.train(t, 2, 4)
	process := ""
	for _, p := range c.Parts() {
		if p.Role == cluster.RoleWorker && p.Name == "w1" {
			process = fmt.Sprint("process ", p.PID)
			kill(t, p.PID)
		}
	}
	var err error
	for n := 0; err == nil; n++ {
		_, err = m.step(t, n, 4).Item()
	}
	for _, word := range []string{"first", "second"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
	if !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), `worker "w1"`) && !strings.Contains(err.Error(), process) {
		t.Errorf("%v, expected %v that names w1 or %s", err, client.ErrLost, process)
	}
}

// TestPipelineCheckpoint: each stage writes what it has, and a run of other stages goes
// on from it to the same bits.
func TestPipelineCheckpoint(t *testing.T) {
	dir := t.TempDir()
	state := func(m *chain) (all []tensor.Named) {
		for k, w := range m.weights {
			all = append(all, tensor.Named{Name: fmt.Sprintf("w%d", k), T: w})
		}
		return all
	}
	run := func(workers, stages int) *chain {
		e := dial(t, start(t, cluster.Options{Workers: workers, InProcess: true}), &client.Options{Config: pipeline(stages, workers/stages)})
		return newChain(tensor.NewSession(e, nil), 2)
	}
	m := run(2, 2)
	m.train(t, 3, 4)
	if err := checkpoint.Save(t.Context(), m.s, dir, state(m), &checkpoint.Options{Step: 3}); err != nil {
		t.Fatal(err)
	}
	want := m.values(t)
	for _, stages := range []int{2, 1} {
		x := run(stages, stages)
		c, err := checkpoint.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Restore(t.Context(), state(x)); err != nil {
			t.Fatal(err)
		}
		for k, v := range x.values(t) {
			if !slices.Equal(v, want[k]) {
				t.Errorf("%d stages: weights %d are %v, expected %v", stages, k, v, want[k])
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
