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

const (
	learners   = 4
	learnSteps = 100
	learnInner = 25
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
			o = &noisy{peers[i], norm, rand.New(rand.NewPCG(7, uint64(norm)))}
		}
		wg.Go(func() {
			s, err := cpu.NewSession(nil, nil)
			if err != nil {
				errs[i] = err
				return
			}
			defer s.Close()
			sums[i], errs[i] = m.Train(t.Context(), s, d, &train.Options{Steps: learnSteps, Seed: 7, Sample: -1, Outer: o, Inner: learnInner})
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
	return sum.HeldOut, float64(sum.Parameters) * 4 * float64(sum.Steps) / float64(st.Sent)
}

// TestLearning: four peers over a real S3 gateway send a 300th of the bytes of
// data-parallel training. With noise from one of them, of whatever norm, robust rules
// come near the held-out loss of honest peers, and the mean does not.
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
	g := storetest.StartGateway(t, os.Getenv)
	honest, ratio := learn(t, g.Bucket(t, "honest"), m, d, "", 0)
	t.Logf("honest peers: held out %.4f, 1/%.0f of the bytes", honest, ratio)
	if ratio < 300 {
		t.Errorf("1/%.0f of the bytes, expected at most 1/300", ratio)
	}
	for _, c := range []struct {
		bucket, rule string
		norm         float64
		from, to     float64 // bounds of the held-out loss over that of honest peers
	}{
		{"trimmed", "trimmed", 1e6, -1, 0.06},
		{"trimmed-small", "trimmed", 3, -1, 0.06},
		{"centered", "centered-clip", 1e6, -1, 0.06},
		{"mean", "mean", 100, 0.2, math.Inf(1)},
	} {
		heldOut, _ := learn(t, g.Bucket(t, c.bucket), m, d, c.rule, c.norm)
		over := heldOut/honest - 1
		t.Logf("%s, noise of norm %v: held out %.4f, %+.1f %%", c.rule, c.norm, heldOut, 100*over)
		if over > c.to || over < c.from {
			t.Errorf("%s, noise of norm %v: %.1f %% over, expected %v to %v", c.rule, c.norm, 100*over, 100*c.from, 100*c.to)
		}
	}
}
