package outer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/gather/artifact"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/train"
)

// peer makes a peer of so many that asks once for each update, over s.
func peer(t *testing.T, s store.Store, uid uint64, peers int, change func(*Options)) *Outer {
	t.Helper()
	o := Options{Store: s, Spool: t.TempDir(), UID: uid, Peers: peers, Fetch: store.FetchOptions{Attempts: 1}}
	if change != nil {
		change(&o)
	}
	p, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// initial is the model that all peers begin with.
func initial() []train.Weight {
	rng := rand.New(rand.NewPCG(1, 1))
	values := make([]float32, 64*96)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	return []train.Weight{{Name: "matrix", Shape: []int{64, 96}, Values: values}, {Name: "vector", Shape: []int{7}, Values: make([]float32, 7)}}
}

// begin has a peer begin, and wants so many rounds to be over.
func begin(t *testing.T, p *Outer, want int) []train.Weight {
	t.Helper()
	w := initial()
	if rounds, err := p.Begin(t.Context(), w); err != nil || rounds != want {
		t.Fatalf("peer %d begins after %d rounds, expected %d: %v", p.o.UID, rounds, want, err)
	}
	return w
}

// inner stands for a peer's own steps.
func inner(w []train.Weight, uid, round uint64) {
	rng := rand.New(rand.NewPCG(uid, round))
	for i := range w {
		for j := range w[i].Values {
			w[i].Values[j] -= float32(0.01 + 0.01*rng.NormFloat64())
		}
	}
}

// together has peers take a round: all put, then each gathers and follows.
func together(t *testing.T, peers []*Outer, weights [][]train.Weight) {
	t.Helper()
	for i, p := range peers {
		inner(weights[i], p.o.UID, p.window)
		if err := p.put(t.Context(), weights[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range peers {
		if err := p.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range peers {
		if _, err := p.follow(t.Context(), weights[i]); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, peers...)
}

func equal(t *testing.T, peers ...*Outer) {
	t.Helper()
	first := peers[0].Stats()
	for _, p := range peers[1:] {
		if s := p.Stats(); s.Weights != first.Weights || s.Rounds != first.Rounds {
			t.Fatalf("peer %d has weights %s after %d rounds, peer %d has %s after %d", s.Peer, s.Weights, s.Rounds, first.Peer, first.Weights, first.Rounds)
		}
	}
}

// TestComeAndGo: a peer that disappears is waited for in one round and not asked in the
// next; when it comes again it has the others' weights and takes part.
func TestComeAndGo(t *testing.T) {
	mem := &store.Mem{}
	one, two := peer(t, mem, 1, 2, nil), peer(t, mem, 2, 2, nil)
	w1, w2 := begin(t, one, 0), begin(t, two, 0)
	together(t, []*Outer{one, two}, [][]train.Weight{w1, w2})
	together(t, []*Outer{one}, [][]train.Weight{w1})
	if s := one.Stats(); s.Missing[2] != 1 || !strings.HasPrefix(s.Reasons[2], "NOT_FOUND") {
		t.Errorf("%+v: expected peer 2 to be missed once, as NOT_FOUND", s)
	}
	together(t, []*Outer{one}, [][]train.Weight{w1})
	if s := one.Stats(); s.Missing[2] != 1 || mem.Gets()[artifact.UpdateName(3, 2)] != 0 {
		t.Errorf("%+v: peer 2 was asked though it did not announce itself", s)
	}
	two = peer(t, mem, 2, 2, nil)
	w2 = begin(t, two, 3)
	equal(t, one, two)
	together(t, []*Outer{one, two}, [][]train.Weight{w1, w2})
	if s := one.Stats(); s.Missing[2] != 1 || s.Rounds != 4 {
		t.Errorf("%+v: expected 4 rounds, the last with peer 2", s)
	}
}

// interrupting is a store that ends a context when an object is asked for.
type interrupting struct {
	store.Store
	key string
	end context.CancelFunc
}

func (s *interrupting) Open(ctx context.Context, key string, get store.Get) (*store.Object, error) {
	if key != s.key {
		return s.Store.Open(ctx, key, get)
	}
	s.end()
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestInterrupted: a peer that is interrupted while it waits for another publishes no
// round without the other, which takes part when it comes.
func TestInterrupted(t *testing.T) {
	files, err := store.NewFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	one, two := peer(t, &interrupting{files, artifact.UpdateName(1, 2), cancel}, 1, 2, nil), peer(t, files, 2, 2, nil)
	w1, w2 := begin(t, one, 0), begin(t, two, 0)
	inner(w1, 1, 1)
	if rounds, err := one.Exchange(ctx, w1); !errors.Is(err, context.Canceled) {
		t.Fatalf("%d rounds, %v: expected to be cancelled", rounds, err)
	}
	inner(w2, 2, 1)
	if _, err := two.Exchange(t.Context(), w2); err != nil {
		t.Fatal(err)
	}
	if s := two.Stats(); s.Sent == 0 || len(two.last) != 2 {
		t.Errorf("%+v, round of %v: expected both peers", s, two.last)
	}
}

// TestLate: a peer that comes to a round which is over takes its result, and puts
// nothing.
func TestLate(t *testing.T) {
	mem := &store.Mem{}
	one, two := peer(t, mem, 1, 2, nil), peer(t, mem, 2, 2, nil)
	w1, w2 := begin(t, one, 0), begin(t, two, 0)
	together(t, []*Outer{one}, [][]train.Weight{w1})
	together(t, []*Outer{one}, [][]train.Weight{w1})
	inner(w2, 2, 1)
	if rounds, err := two.Exchange(t.Context(), w2); err != nil || rounds != 2 {
		t.Fatalf("%d rounds, expected 2: %v", rounds, err)
	}
	equal(t, one, two)
	if s := two.Stats(); s.Sent != 0 {
		t.Errorf("%d bytes were sent into a round that was over", s.Sent)
	}
}

// hooked is a store that hides a key, and calls before once before an aggregate is put.
type hooked struct {
	store.Store
	hidden string
	before func()
}

func (h *hooked) Open(ctx context.Context, key string, get store.Get) (*store.Object, error) {
	if key == h.hidden {
		return nil, outcome.Errorf(outcome.NotFound, "hidden")
	}
	return h.Store.Open(ctx, key, get)
}

func (h *hooked) Put(ctx context.Context, key string, r io.Reader, size int64, o *store.PutOptions) error {
	if f := h.before; f != nil && strings.HasPrefix(key, "aggregate-") {
		h.before = nil
		f()
	}
	return h.Store.Put(ctx, key, r, size, o)
}

// TestOneResult: of two peers that saw different updates the first to publish decides,
// and both have the same weights.
func TestOneResult(t *testing.T) {
	mem := &store.Mem{}
	one := peer(t, &hooked{Store: mem, hidden: artifact.UpdateName(1, 2)}, 1, 2, nil)
	w1 := begin(t, one, 0)
	slow := &hooked{Store: mem, before: func() { together(t, []*Outer{one}, [][]train.Weight{w1}) }}
	two := peer(t, slow, 2, 2, nil)
	w2 := begin(t, two, 0)
	together(t, []*Outer{two}, [][]train.Weight{w2})
	equal(t, one, two)
	a, err := artifact.Load(t.Context(), mem, 1)
	if err != nil || len(a.Result.UIDs) != 1 || a.Result.UIDs[0] != 1 {
		t.Errorf("the aggregate is of %v, expected peer 1 alone: %v", a.Result.UIDs, err)
	}
}

// stopping is a store that ends a peer's context when it has its own update and asks for
// another peer's.
type stopping struct {
	store.Store
	own, other string
	had        chan struct{}
	stop       func()
}

func (s *stopping) Open(ctx context.Context, key string, get store.Get) (*store.Object, error) {
	switch key {
	case s.other:
		select {
		case <-s.had:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.stop()
		return nil, outcome.Errorf(outcome.NotFound, "%s", key)
	case s.own:
		o, err := s.Store.Open(ctx, key, get)
		if err == nil {
			o.Body = &closing{o.Body, s.had}
		}
		return o, err
	}
	return s.Store.Open(ctx, key, get)
}

type closing struct {
	io.ReadCloser
	closed chan struct{}
}

func (c *closing) Close() error {
	close(c.closed)
	return c.ReadCloser.Close()
}

// TestStopped: a peer that is stopped while it waits for another publishes no result
// without it; when it is started again both take the round together.
func TestStopped(t *testing.T) {
	mem := &store.Mem{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	one := peer(t, &stopping{mem, artifact.UpdateName(1, 1), artifact.UpdateName(1, 2), make(chan struct{}), stop}, 1, 2, nil)
	w1 := begin(t, one, 0)
	inner(w1, 1, 1)
	if _, err := one.Exchange(ctx, w1); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped: %v, expected context.Canceled", err)
	}
	if s := one.Stats(); len(s.Missing) != 0 || s.Rounds != 0 {
		t.Errorf("%+v: expected no round, and no peer that is missing", s)
	}
	if _, err := artifact.Load(t.Context(), mem, 1); outcome.Of(err) != outcome.NotFound {
		t.Fatalf("an aggregate of window 1: %v, expected NOT_FOUND", err)
	}
	one, two := peer(t, mem, 1, 2, nil), peer(t, mem, 2, 2, nil)
	w1, w2 := begin(t, one, 0), begin(t, two, 0)
	together(t, []*Outer{one, two}, [][]train.Weight{w1, w2})
	if a, err := artifact.Load(t.Context(), mem, 1); err != nil || len(a.Result.UIDs) != 2 {
		t.Errorf("the aggregate: %+v, %v; expected both peers", a, err)
	}
}

// TestLiars: of four peers one puts what is no update and one an update of enormous
// norm; a rule that votes keeps the step near that of the honest peers.
func TestLiars(t *testing.T) {
	mem := &store.Mem{}
	robust := func(o *Options) { o.Aggregator = "median" }
	var peers []*Outer
	var weights [][]train.Weight
	for uid := uint64(1); uid <= 4; uid++ {
		p := peer(t, mem, uid, 5, robust)
		peers, weights = append(peers, p), append(weights, begin(t, p, 0))
	}
	if err := mem.Put(t.Context(), artifact.UpdateName(1, 5), strings.NewReader(strings.Repeat("x", 5000)), 5000, nil); err != nil {
		t.Fatal(err)
	}
	for i := range weights[3] { // the liar's
		for j := range weights[3][i].Values {
			weights[3][i].Values[j] += 1e6
		}
	}
	together(t, peers, weights)
	s := peers[0].Stats()
	if !strings.HasPrefix(s.Reasons[5], "BAD_FORMAT") || s.Missing[4] != 0 {
		t.Errorf("%+v: expected peer 5 to be skipped as BAD_FORMAT and peer 4 to be taken", s)
	}
	for i, w := range initial() {
		for j, x := range w.Values {
			if d := weights[0][i].Values[j] - x; d > 0.5 || d < -0.5 {
				t.Fatalf("%s: element %d moved by %v", w.Name, j, d)
			}
		}
	}
}

// TestOtherRun: an aggregate of another run, or of a peer that there is none of, is
// refused.
func TestOtherRun(t *testing.T) {
	mem := &store.Mem{}
	one := peer(t, mem, 2, 2, nil)
	w := begin(t, one, 0)
	together(t, []*Outer{one}, [][]train.Weight{w})
	for name, p := range map[string]*Outer{
		"another rule":   peer(t, mem, 1, 2, func(o *Options) { o.Aggregator = "mean" }),
		"too many peers": peer(t, mem, 1, 1, nil),
	} {
		if _, err := p.Begin(t.Context(), initial()); !errors.Is(err, ErrRound) {
			t.Errorf("%s: %v, expected ErrRound", name, err)
		}
	}
	for name, o := range map[string]Options{
		"uid":   {Store: mem, Spool: "s", UID: 3, Peers: 2},
		"peers": {Store: mem, Spool: "s", UID: 1},
		"store": {Spool: "s", UID: 1, Peers: 1},
		"rule":  {Store: mem, Spool: "s", UID: 1, Peers: 1, Aggregator: "none such"},
	} {
		if _, err := New(&o); !errors.Is(err, ErrOption) {
			t.Errorf("%s: %v, expected ErrOption", name, err)
		}
	}
	if err := mem.Put(t.Context(), artifact.Name(2), bytes.NewReader([]byte("{}")), 2, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Exchange(t.Context(), w); !errors.Is(err, artifact.ErrVerify) {
		t.Errorf("an aggregate that is none: %v, expected ErrVerify", err)
	}
}

// TestTrain trains a tiny model by two peers over a folder: losses fall, the peers have
// the same weights in the end, and each sends much less than the model.
func TestTrain(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("the quick brown fox jumps over the lazy dog; ", 300)), 0o600); err != nil {
		t.Fatal(err)
	}
	folder, err := store.NewFile(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := train.Find("qwen3-tiny")
	if err != nil {
		t.Fatal(err)
	}
	peers, sums, errs := make([]*Outer, 2), make([]*train.Summary, 2), make([]error, 2)
	var wg sync.WaitGroup
	for i := range peers {
		peers[i] = peer(t, folder, uint64(i)+1, len(peers), func(o *Options) {
			o.Fetch = store.FetchOptions{Base: 5 * time.Millisecond, Cap: 20 * time.Millisecond}
			c := codec.DefaultConfig() // the smallest
			o.Config = &c
		})
		wg.Go(func() {
			s, err := cpu.NewSession(nil, nil)
			if err != nil {
				errs[i] = err
				return
			}
			defer s.Close()
			d, err := m.Load(text)
			if err != nil {
				errs[i] = err
				return
			}
			sums[i], errs[i] = m.Train(t.Context(), s, d, &train.Options{Steps: 44, Batch: 4, LossEvery: 1, Seed: 7, Sample: -1, Outer: peers[i], Inner: 10})
		})
	}
	wg.Wait()
	for i, sum := range sums {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		s := peers[i].Stats()
		if s.Rounds != 5 || len(s.Missing) != 0 {
			t.Errorf("%+v: expected 5 rounds of both peers", s)
		}
		if dense := int64(sum.Parameters) * 4 * int64(s.Rounds); s.Sent == 0 || s.Sent*20 > dense {
			t.Errorf("peer %d sent %d bytes, expected at most a 20th of %d", s.Peer, s.Sent, dense)
		}
		if first, last := sum.Losses[0].Loss, sum.HeldOut; last > first-0.3 {
			t.Errorf("peer %d: held-out loss %v, expected well below the first, %v", s.Peer, last, first)
		}
		t.Logf("peer %d: %d bytes, held out %.3f, losses %s", s.Peer, s.Sent, sum.HeldOut, fmt.Sprint(sum.Losses[0].Loss, sum.Loss))
	}
	equal(t, peers...)
	if a, b := peers[0].Stats().Sent, peers[1].Stats().Sent; a != b {
		t.Errorf("%d and %d bytes were sent, expected 5 updates of each", a, b)
	}
	if sums[0].HeldOut != sums[1].HeldOut {
		t.Errorf("held-out losses %v and %v of the same weights", sums[0].HeldOut, sums[1].HeldOut)
	}
	if sums[0].Losses[0] == sums[1].Losses[0] {
		t.Errorf("both peers begin with the loss %v: they have the same examples", sums[0].Losses[0])
	}
}
