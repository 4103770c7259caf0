package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// onWorkers plays a behaviour in a session of one to four workers that cut what is made
// under "first" and "last". moves says whether they have to send something to each other.
func onWorkers(t *testing.T, moves bool, play func(t *testing.T, s *tensor.Session, e *client.Engine)) {
	for n := 1; n <= 4; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := start(t, cluster.Options{InProcess: true, Workers: n})
			e := dial(t, c, &client.Options{Config: cutInputs(n)})
			play(t, tensor.NewSession(e, nil), e)
			if st := e.Stats(); moves && (st.Calls > 0) != (n > 1) {
				t.Errorf("%d collectives of %d bytes", st.Calls, st.Moved)
			}
			if bytes := counters(t, c).Get("tensor_bytes"); bytes != 0 {
				t.Errorf("%d bytes of tensors went through the dispatcher", bytes)
			}
		})
	}
}

// wholes are n small whole numbers: sums of their products are exact in any order.
func wholes(n, seed int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32((i*7+seed*5)%11 - 5)
	}
	return out
}

// under makes a tensor of such numbers under a signal.
func under(s *tensor.Session, signal string, seed int, shape ...int) (x *tensor.Tensor) {
	s.Signal(signal, func() { x = tensor.From(s, wholes(tensor.Shape(shape).Elems(), seed), shape...) })
	return x
}

// here plays what one worker is to find on no worker at all.
func here(t *testing.T) *tensor.Session {
	t.Helper()
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestAccumulatedGradients: gradients of batches of different size add up until they are
// cleared, whichever worker has which rows.
func TestAccumulatedGradients(t *testing.T) {
	grads := func(t *testing.T, s *tensor.Session) (out [][]float32) {
		w := under(s, "last", 1, 6, 4).RequireGrad()
		read := func() {
			g, err := tensor.Data[float32](w.Grad())
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, g)
		}
		for i, rows := range []int{10, 3, 1, 7} {
			if i == 3 {
				if w.SetGrad(nil); w.Grad() != nil {
					t.Error("a gradient is left")
				}
			}
			if err := autograd.Backward(under(s, "first", i, rows, 6).Matmul(w).Square().Sum()); err != nil {
				t.Fatal(err)
			}
			read()
		}
		return out
	}
	want := grads(t, here(t))
	onWorkers(t, true, func(t *testing.T, s *tensor.Session, _ *client.Engine) {
		for i, g := range grads(t, s) {
			if !slices.Equal(g, want[i]) {
				t.Errorf("after batch %d: %v, expected %v", i, g, want[i])
			}
		}
	})
}

// TestOneBatchOrMany: operations that depend on each other, branch, use a name again,
// reduce, reshape and change shape from round to round give the same bits as one batch
// and as a batch each; a shape that comes again is a program that is known.
func TestOneBatchOrMany(t *testing.T) {
	rounds := []int{8, 5, 8, 3, 1, 5}
	play := func(t *testing.T, s *tensor.Session, each bool) (out [][]float32) {
		w := under(s, "last", 2, 6, 4)
		for i, rows := range rounds {
			s.Scope(func(*tensor.Scope) {
				step := func(x *tensor.Tensor) *tensor.Tensor {
					if each {
						if err := s.Sync(); err != nil {
							t.Fatal(err)
						}
					}
					return x
				}
				h := step(under(s, "first", i, rows, 6).Matmul(w))
				a := step(h.ReLU())
				b := step(step(h.MulS(float64(i))).Sub(a))
				h = step(h.Add(b))
				c := step(step(a.Sub(h).Reshape(-1, 2)).Sum(0))
				d := step(step(h.Max(0)).Reshape(2, 2).Add(c))
				y, err := tensor.Data[float32](step(d.Mul(step(b.Sum()))))
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, y)
			})
		}
		return out
	}
	want := play(t, here(t), false)
	onWorkers(t, true, func(t *testing.T, s *tensor.Session, e *client.Engine) {
		one := play(t, s, false)
		if n := e.Stats().Bodies; n != 4 { // shapes
			t.Errorf("%d programs were sent, expected 4", n)
		}
		many := play(t, s, true)
		for i := range want {
			if !slices.Equal(one[i], want[i]) || !slices.Equal(many[i], want[i]) {
				t.Errorf("round %d: %v as one batch, %v as many, expected %v", i, one[i], many[i], want[i])
			}
		}
	})
}

// TestMistakesTogether: a freed tensor, a tensor of another session and shapes that don't
// fit are errors that name both, and the session goes on with what its workers have.
func TestMistakesTogether(t *testing.T) {
	other := under(here(t), "first", 1, 5, 3)
	onWorkers(t, true, func(t *testing.T, s *tensor.Session, _ *client.Engine) {
		x, freed := under(s, "first", 1, 5, 3), under(s, "last", 2, 5, 3)
		freed.Free()
		sum := 0.0
		for _, v := range wholes(15, 1) {
			sum += float64(v)
		}
		for _, c := range []struct {
			what  string
			wrong func() *tensor.Tensor
			is    error
			says  []string
		}{
			{"a freed tensor", func() *tensor.Tensor { return x.Add(freed) }, tensor.ErrReleased, []string{"add", "f32[5 3]"}},
			{"another session's", func() *tensor.Tensor { return x.Add(other) }, tensor.ErrOtherSession, []string{"add", "f32[5 3], f32[5 3]"}},
			{"shapes", func() *tensor.Tensor { return x.Matmul(x) }, tensor.ErrShape, []string{"matmul", "f32[5 3], f32[5 3]"}},
			{"shapes that don't broadcast", func() *tensor.Tensor { return x.Add(under(s, "last", 1, 5, 4)) }, tensor.ErrShape, []string{"add", "f32[5 3], f32[5 4]"}},
		} {
			_, err := c.wrong().Sum().Item()
			if !errors.Is(err, c.is) {
				t.Errorf("%s: %v, expected %v", c.what, err, c.is)
			}
			for _, word := range c.says {
				if !strings.Contains(fmt.Sprint(err), word) {
					t.Errorf("%s: %v doesn't say %q", c.what, err, word)
				}
			}
			if err := s.ClearErr(); !errors.Is(err, c.is) {
				t.Errorf("%s: the session has %v", c.what, err)
			}
			if v, err := x.Sum().Item(); err != nil || v != sum {
				t.Errorf("after %s: %v, %v; expected %v", c.what, v, err, sum)
			}
		}
	})
}

// TestBackwardWorkersOfACluster: two stages have workers of their own for backward. The
// weights are one worker's to the bit; the forward workers send activations on, and to
// those that have the backward pass.
func TestBackwardWorkersOfACluster(t *testing.T) {
	const steps, micro = 5, 2
	train := func(c *config.Config) ([][]float32, client.Stats) {
		e := dial(t, start(t, cluster.Options{InProcess: true, Workers: c.Workers()}), &client.Options{Config: c})
		m := newChain(tensor.NewSession(e, nil), 2)
		m.train(t, steps, micro)
		return m.values(t), e.Stats()
	}
	want, _ := train(&config.Config{NumWorkers: 1})
	forward, with := train(pipeline(2, 1))
	c := pipeline(2, 1)
	for k := range 2 {
		back := fmt.Sprint("back", k)
		c.Signals[1+k].Backward = back
		c.Signals = append(c.Signals, config.Signal{Name: back, Workers: []int{3 - k}})
	}
	apart, of := train(c)
	for k := range want {
		if !slices.Equal(forward[k], want[k]) || !slices.Equal(apart[k], want[k]) {
			t.Errorf("weights %d are %v, with workers for backward %v; expected %v", k, forward[k], apart[k], want[k])
		}
	}
	if with.Moved == 0 || of.Calls <= with.Calls || of.Moved <= with.Moved {
		t.Errorf("%d transfers of %d bytes with workers for backward, %d of %d without: the backward pass is where forward is", of.Calls, of.Moved, with.Calls, with.Moved)
	}
}
