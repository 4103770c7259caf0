package train

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

// otherPeers plays the peers of a run: it says how many rounds are over after Begin and
// after each Exchange, and has all weights be zero after each Exchange.
type otherPeers struct {
	over  []int // what Begin and then Exchange return; -1 fails
	moved []int // elements that differ from the last call, by call
	last  []float32
}

var errOther = errors.New("no store")

func (f *otherPeers) Peer() (index, peers int) { return 1, 2 }

func (f *otherPeers) Begin(_ context.Context, weights []Weight) (int, error) {
	f.last = slices.Clone(weights[0].Values)
	return f.next()
}

func (f *otherPeers) Exchange(_ context.Context, weights []Weight) (int, error) {
	n := 0
	for i, x := range weights[0].Values {
		if x != f.last[i] {
			n++
		}
	}
	f.moved = append(f.moved, n)
	for _, w := range weights {
		clear(w.Values)
	}
	f.last = slices.Clone(weights[0].Values)
	return f.next()
}

func (f *otherPeers) next() (int, error) {
	n := f.over[0]
	if f.over = f.over[1:]; n < 0 {
		return 0, errOther
	}
	return n, nil
}

// TestOuter: a round has Inner steps, the last round what is left; a peer that is behind
// goes on where the others are, with the weights that it is given.
func TestOuter(t *testing.T) { devicetest.Each(t, testOuter) }

func testOuter(t *devicetest.T) {
	m := find(t, "fashion-mlp")
	for name, c := range map[string]struct {
		over   []int
		rounds int   // that the peer takes itself
		losses []int // steps whose loss is read
		want   error
	}{
		"in step":  {[]int{0, 1, 2, 3}, 3, []int{1, 2, 3, 4, 5, 6, 7, 8}, nil},
		"late":     {[]int{1, 2, 3}, 2, []int{4, 5, 6, 7, 8}, nil},
		"overrun":  {[]int{0, 2, 3}, 2, []int{1, 2, 3, 7, 8}, nil},
		"all over": {[]int{3}, 0, nil, nil},
		"no store": {[]int{0, -1}, 1, []int{1, 2, 3}, errOther},
	} {
		peers := &otherPeers{over: c.over}
		sum, err := m.Train(t.Context(), inProcess(t), someImages(), &Options{Steps: 8, Batch: 8, LossEvery: 1, Outer: peers, Inner: 3})
		if !errors.Is(err, c.want) || len(peers.moved) != c.rounds {
			t.Errorf("%s: %d rounds, expected %d: %v", name, len(peers.moved), c.rounds, err)
		}
		var at []int
		for _, p := range sum.Losses {
			at = append(at, p.Step)
		}
		if !slices.Equal(at, c.losses) {
			t.Errorf("%s: losses of steps %v, expected %v", name, at, c.losses)
		}
		if slices.Contains(peers.moved, 0) {
			t.Errorf("%s: %v weights moved by round, expected some in each", name, peers.moved)
		}
		// with all weights zero every class is as likely as another
		if c.want == nil && c.rounds > 0 && math.Abs(sum.HeldOut-math.Log(mnistClasses)) > 1e-4 {
			t.Errorf("%s: held-out loss %v, expected that of zeros", name, sum.HeldOut)
		}
	}
}
