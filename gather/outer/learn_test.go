package outer

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/gather/store/storetest"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/train"
)

// noisy is a peer that sends noise of some norm in place of what it learned.
type noisy struct {
	*Outer
	norm float64
	rng  *rand.Rand
}

func (n *noisy) Exchange(ctx context.Context, weights []train.Weight) (int, error) {
	all := 0
	for _, w := range weights {
		all += len(w.Values)
	}
	for i, w := range weights {
		for j := range w.Values {
			w.Values[j] = n.weights[i][j] + float32(n.norm*n.rng.NormFloat64()/math.Sqrt(float64(all)))
		}
	}
	return n.Outer.Exchange(ctx, weights)
}

// Data parallelism of as many workers as peers takes learnSteps steps of batches of
// learnBatch a worker. Peers take as many examples, a quarter as many in a step.
const (
	learners   = 4
	learnSteps = 200
	learnBatch = 8
	learnCut   = 4
	learnInner = 100
)

// learn trains by peers that meet in a store. The last sends noise, unless norm is 0.
func learn(t *testing.T, s store.Store, m *train.Model, d train.Data, rule string, norm float64) (heldOut, ratio float64) {
	t.Helper()
	peers, sums, errs := make([]*Outer, learners), make([]*train.Summary, learners), make([]error, learners)
	var wg sync.WaitGroup
	for i := range peers {
		peers[i] = peer(t, s, uint64(i)+1, learners, func(o *Options) {
			o.Aggregator, o.Timeout = rule, 10*time.Minute
			o.Fetch = store.FetchOptions{Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond}
		})
		var o train.Outer = peers[i]
		if norm > 0 && i == learners-1 {
			o = &noisy{peers[i], norm, rand.New(rand.NewPCG(7, math.Float64bits(norm)))}
		}
		wg.Go(func() {
			sums[i], errs[i] = trained(t.Context(), m, d, train.Options{Steps: learnSteps * learnCut, Batch: learnBatch / learnCut, Outer: o, Inner: learnInner})
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	equal(t, peers...)
	sum, st := sums[0], peers[0].Stats()
	if len(st.Missing) != 0 {
		t.Errorf("%s, noise %v: %+v, expected all peers in all rounds", rule, norm, st)
	}
	return sum.HeldOut, float64(sum.Parameters) * 4 * learnSteps / float64(st.Sent)
}

func trained(ctx context.Context, m *train.Model, d train.Data, o train.Options) (*train.Summary, error) {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	o.Seed, o.Sample = 7, -1
	return m.Train(ctx, s, d, &o)
}

// TestLearning: four peers over a real S3 gateway send a 300th of the bytes of
// data-parallel training with as many tokens, and come as far. With noise from one of
// them, of whatever norm, robust rules come near it, and the mean does not.
func TestLearning(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("it trains a model several times, by code that other tests run under the race detector")
	}
	m, err := train.Find("qwen3-tiny")
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Load("")
	if err != nil {
		t.Fatal(err)
	}
	together, err := trained(t.Context(), m, d, train.Options{Steps: learnSteps, Batch: learnBatch * learners})
	if err != nil {
		t.Fatal(err)
	}
	g := storetest.StartGateway(t, os.Getenv)
	for _, c := range []struct {
		bucket, rule string
		norm         float64
		from, to     float64 // bounds of the held-out loss over that of data parallelism
	}{
		{"honest", "", 0, -1, 0.03},
		{"trimmed-least", "trimmed", 1e-3, -1, 0.06},
		{"trimmed-small", "trimmed", 3, -1, 0.06},
		{"trimmed", "trimmed", 1e6, -1, 0.06},
		{"centered-least", "centered-clip", 1e-3, -1, 0.06},
		{"centered", "centered-clip", 1e6, -1, 0.06},
		{"mean", "mean", 100, 0.2, math.Inf(1)},
	} {
		heldOut, ratio := learn(t, g.Bucket(t, c.bucket), m, d, c.rule, c.norm)
		over := heldOut/together.HeldOut - 1
		t.Logf("rule %q, noise of norm %v: held out %.4f beside %.4f, %+.1f %%, 1/%.0f of the bytes", c.rule, c.norm, heldOut, together.HeldOut, 100*over, ratio)
		if over > c.to || over < c.from {
			t.Errorf("rule %q, noise of norm %v: %.1f %% over, expected %v to %v", c.rule, c.norm, 100*over, 100*c.from, 100*c.to)
		}
		if ratio < 300 {
			t.Errorf("1/%.0f of the bytes, expected at most 1/300", ratio)
		}
	}
}
