package apply_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/agg"
	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

const window = 7

// childVariable names the folder in which a child applies, how, and when it kills itself.
const childVariable = "RINGSIDE_TEST_APPLY"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childVariable); spec != "" {
		if err := child(strings.Fields(spec)); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// put puts payloads of updates into a store.
func put(t testing.TB, s store.Store, m *codec.Manifest, uid uint64, update func(p int, dst []float32)) {
	t.Helper()
	pay, err := codec.NewEncoder(m, nil).Encode(codec.Header{Window: window, UID: uid}, func(p int, dst []float32) error { update(p, dst); return nil })
	if err != nil {
		t.Fatal(err)
	}
	b := pay.Bytes()
	if err := s.Put(t.Context(), fmt.Sprint(uid), bytes.NewReader(b), int64(len(b)), nil); err != nil {
		t.Fatal(err)
	}
}

// collect gathers peers 1 to n, which have weights or nil.
func collect(m *codec.Manifest, group *collective.Group, s store.Store, spool, rule string, n int, weights map[uint64]float64) (*gather.Gatherer, *gather.Result, error) {
	g, err := gather.New(group, &gather.Options{Manifest: m, Spool: spool, Fetch: store.FetchOptions{Attempts: 1},
		Source: func(_, uid uint64) (store.Store, string) { return s, fmt.Sprint(uid) }})
	if err != nil {
		return nil, nil, err
	}
	plan := &gather.Plan{Window: window, Timeout: time.Minute, Manifest: m.Digest(), Weights: weights, Policy: gather.Policy{Aggregator: rule}}
	for uid := range n {
		plan.Intended = append(plan.Intended, uint64(uid+1))
	}
	r, err := g.Gather(context.Background(), plan)
	return g, r, err
}

// updated is what one rank makes of zeros with a learning rate of 1.
func updated(t testing.TB, m *codec.Manifest, s store.Store, rule string, n int, o apply.Options) apply.Mem {
	t.Helper()
	g, r, err := collect(m, nil, s, t.TempDir(), rule, n, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := apply.NewMem(m)
	if o.Optimizer.Momentum != 0 && o.Momentum == nil {
		o.Momentum = apply.NewMem(m)
	}
	if _, err := apply.Update(t.Context(), g.Ranks, r, m, w, &o); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestT3ClosedForm compares the update with Σ f·v / count in float64.
func TestT3ClosedForm(t *testing.T) {
	const peers = 20
	for _, c := range []codec.Config{codec.KnownConfig(), codec.DefaultConfig(), {Chunk: 64, TopK: 100, Index: codec.U16, Value: codec.F32}} {
		m := codectest.Tiny(c)
		s := &store.Mem{}
		for uid := uint64(1); uid <= peers; uid++ {
			put(t, s, m, uid, func(p int, dst []float32) {
				codectest.Update(1, uid, window, p, dst)
				for i := range dst {
					dst[i] *= float32(uid) / 10 // different norms
				}
			})
		}
		got := updated(t, m, s, "", peers, apply.Options{})
		want := closedForm(t, m, s, peers)
		worst := 0.0
		for p := range got {
			for i, v := range got[p] {
				worst = max(worst, math.Abs(float64(v)+want[p][i]))
			}
		}
		t.Logf("%v/%v: at most %.2g from float64", c.Index, c.Value, worst)
		if worst > 1e-6 {
			t.Errorf("expected at most 1e-6")
		}
	}
}

// closedForm is the update by the definition, dense and in float64.
func closedForm(t *testing.T, m *codec.Manifest, s *store.Mem, peers int) [][]float64 {
	var out [][]float64
	for p := range m.Params {
		q := &m.Params[p]
		n := int(q.Elements())
		values, norms := make([][]float64, peers), make([]float64, peers)
		sent := make([][]bool, peers)
		for u := range peers {
			values[u], sent[u] = dense(t, m, s, uint64(u+1), p)
			for _, v := range values[u] {
				norms[u] += v * v
			}
			norms[u] = math.Sqrt(norms[u])
		}
		clip := slices.Sorted(slices.Values(norms))[(peers-1)/2]
		x := make([]float64, n)
		for i := range x {
			k := 0
			for u := range peers {
				if sent[u][i] {
					x[i] += min(1, clip/(norms[u]+1e-8)) * values[u][i]
					k++
				}
			}
			if k > 0 {
				x[i] /= float64(k)
			}
		}
		out = append(out, x)
	}
	return out
}

// dense is what one payload says of a parameter, by element.
func dense(t *testing.T, m *codec.Manifest, s *store.Mem, uid uint64, p int) ([]float64, []bool) {
	o, err := s.Open(t.Context(), fmt.Sprint(uid), store.Get{})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, o.Size)
	if _, err := o.Body.Read(b); err != nil {
		t.Fatal(err)
	}
	rep, err := codec.Validate(bytes.NewReader(b), &codec.Expect{Manifest: m, Window: window, UID: uid})
	if err != nil {
		t.Fatal(err)
	}
	q := &m.Params[p]
	var rows codec.Rows
	var row codec.Row
	if err := rep.ReadRows(&rows, m, bytes.NewReader(b), p, 0, q.Rows); err != nil {
		t.Fatal(err)
	}
	x, said := make([]float64, q.Elements()), make([]bool, q.Elements())
	if err := rows.Each(&row, func(i int) {
		line, col := q.Origin(i)
		for j, at := range row.Index {
			e := (line+int(at)/q.W)*q.Width() + col + int(at)%q.W
			said[e] = true
			if len(rows.Table) > 0 {
				x[e] = float64(rows.Table[row.Codes[j]])
			} else {
				x[e] = float64(row.Values[j])
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return x, said
}

// TestT10SmallBudget: a budget below one payload is enough, to the same bits.
func TestT10SmallBudget(t *testing.T) {
	m, err := codec.NewManifest(codec.KnownConfig(), []codec.Tensor{{Name: "w", Shape: []int64{2048, 4096}, DType: "F32"}})
	if err != nil {
		t.Fatal(err)
	}
	g, r, err := collect(m, nil, &codectest.Peers{M: m, Window: window}, t.TempDir(), "", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const budget = 256 << 10
	if n := r.Peers[0].Size; n <= budget {
		t.Fatalf("a payload has %d bytes, expected more than the budget of %d", n, budget)
	}
	var digests [2]codec.Digest
	for i, b := range []int64{budget, apply.DefaultBudget} {
		stats, err := apply.Update(t.Context(), g.Ranks, r, m, nowhere{}, &apply.Options{Budget: b, Replicated: true})
		if err != nil {
			t.Fatal(err)
		}
		digests[i] = stats.Digest
	}
	if digests[0] != digests[1] {
		t.Errorf("the update has digest %v under the small budget, expected %v", digests[0], digests[1])
	}
}

// TestT19Norms: the norms of the reports are those of the values, zeros included.
func TestT19Norms(t *testing.T) {
	for _, c := range []codec.Config{codec.KnownConfig(), codec.DefaultConfig()} {
		m := codectest.Tiny(c)
		s := &store.Mem{}
		for uid := uint64(1); uid <= 4; uid++ {
			put(t, s, m, uid, func(p int, dst []float32) {
				if uid != 4 {
					codectest.Update(uint64(p), uid, window, p, dst)
				}
			})
		}
		_, r, err := collect(m, nil, s, t.TempDir(), "", 4, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for u := range r.Peers {
			for p := range m.Params {
				x, _ := dense(t, m, s, uint64(u+1), p)
				want := 0.0
				for _, v := range x {
					want += v * v
				}
				if want = math.Sqrt(want); math.Abs(r.Peers[u].Norms[p]-want) > 1e-12*want {
					t.Errorf("peer %d parameter %d: norm %v, expected %v", u+1, p, r.Peers[u].Norms[p], want)
				}
			}
		}
	}
}

// TestZeroNorms: where more than half of the norms are 0 the update is 0, and reported.
func TestZeroNorms(t *testing.T) {
	m := codectest.Tiny(codec.DefaultConfig())
	s := &store.Mem{}
	for uid := uint64(1); uid <= 3; uid++ {
		put(t, s, m, uid, func(p int, dst []float32) {
			if uid == 3 {
				dst[0] = 5
			}
		})
	}
	g, r, err := collect(m, nil, s, t.TempDir(), "", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := apply.NewMem(m)
	stats, err := apply.Update(t.Context(), g.Ranks, r, m, w, &apply.Options{})
	if err != nil || len(stats.ClipZero) != 3 || w[0][0] != 0 {
		t.Errorf("%v, reported %v, weight %v", err, stats.ClipZero, w[0][0])
	}
}

// TestOptimizers compares each with its definition, over two updates.
func TestOptimizers(t *testing.T) {
	m := codectest.Tiny(codec.Config{Chunk: 64, TopK: 4096, Index: codec.Dense, Value: codec.F32})
	s := &store.Mem{}
	put(t, s, m, 1, func(p int, dst []float32) {
		for i := range dst {
			dst[i] = float32(i%3 - 1)
		}
	})
	for name, c := range map[string]struct {
		o    apply.Optimizer
		want [3]float32 // after two updates by -1, 0, 1
	}{
		"sgd":      {apply.Optimizer{LR: 0.5}, [3]float32{1, 0, -1}},
		"momentum": {apply.Optimizer{LR: 0.5, Momentum: 0.5}, [3]float32{1.25, 0, -1.25}},
		"nesterov": {apply.Optimizer{LR: 0.5, Momentum: 0.5, Nesterov: true}, [3]float32{1.625, 0, -1.625}},
		"sign":     {apply.Optimizer{LR: 0.25, Sign: true}, [3]float32{0.5, 0, -0.5}},
	} {
		g, r, err := collect(m, nil, s, t.TempDir(), "", 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := apply.NewMem(m)
		o := apply.Options{Optimizer: c.o}
		if c.o.Momentum != 0 {
			o.Momentum = apply.NewMem(m)
		}
		for range 2 {
			if _, err := apply.Update(t.Context(), g.Ranks, r, m, w, &o); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range c.want {
			if math.Abs(float64(w[0][i]-want)) > 1e-6 {
				t.Errorf("%s: weights %v, expected %v", name, w[0][:3], c.want)
				break
			}
		}
		r.Close()
	}
}

// TestT26Aggregators: with 4 liars of 20 a mean is led astray and the robust rules are
// not.
func TestT26Aggregators(t *testing.T) {
	const peers, liars = 20, 4
	m := codectest.Tiny(codec.Config{Chunk: 64, TopK: 4096, Bins: 256, Range: 6, Index: codec.Dense, Value: codec.U8LUT})
	honest := func(uid uint64) func(int, []float32) {
		return func(p int, dst []float32) {
			truth := make([]float32, len(dst))
			codectest.Update(99, 0, 0, p, truth)
			codectest.Update(1, uid, window, p, dst)
			for i := range dst {
				dst[i] = truth[i] + dst[i]/2
			}
		}
	}
	clean := &store.Mem{}
	for uid := uint64(1); uid <= peers-liars; uid++ {
		put(t, clean, m, uid, honest(uid))
	}
	want := updated(t, m, clean, "mean", peers-liars, apply.Options{})
	for attack, lie := range map[string]func(uid uint64, i int, x []float32) float32{
		"times -100": func(_ uint64, i int, x []float32) float32 { return -100 * x[i] },
		"sign flip":  func(_ uint64, i int, x []float32) float32 { return -x[i] },
		"collusion":  func(_ uint64, i int, x []float32) float32 { return float32(i%7) - 3 },
		// a norm beyond float32
		"huge": func(uint64, int, []float32) float32 { return 2.9e38 },
	} {
		s := &store.Mem{}
		for uid := uint64(1); uid <= peers; uid++ {
			put(t, s, m, uid, func(p int, dst []float32) {
				honest(uid)(p, dst)
				if x := slices.Clone(dst); uid > peers-liars {
					for i := range dst {
						dst[i] = lie(uid, i, x)
					}
				}
			})
		}
		for _, rule := range agg.Names() {
			got := updated(t, m, s, rule, peers, apply.Options{})
			cos := cosine(got, want)
			t.Logf("%-10s %-16s cosine %.3f", attack, rule, cos)
			switch {
			case rule == "mean" && attack == "times -100" && cos > 0:
				t.Errorf("%s: the mean has cosine %.3f: the attack does nothing", attack, cos)
			case rule != "mean" && !strings.HasPrefix(rule, "clip-mean") && rule != "krum" && !(cos >= 0.9),
				rule == "krum" && !(cos >= 0.8):
				t.Errorf("%s: %s has cosine %.3f, expected at least 0.9", attack, rule, cos)
			}
		}
	}
}

// TestMeanOverPeers: a position that one of two peers sent is that peer's value by the
// mean over those that sent it, and half of it by the mean over all.
func TestMeanOverPeers(t *testing.T) {
	m := codectest.Tiny(codec.KnownConfig())
	s := &store.Mem{}
	for uid := uint64(1); uid <= 2; uid++ {
		put(t, s, m, uid, func(p int, dst []float32) {
			for i := range dst { // top-k has no reason to choose the other peer's
				if i%64 == int(uid) {
					dst[i] = float32(1 + i%5)
				}
			}
		})
	}
	senders, all := updated(t, m, s, agg.Default, 2, apply.Options{}), updated(t, m, s, "clip-mean-peers", 2, apply.Options{})
	for i := range 128 * 256 { // the first parameter is a matrix of whole chunks
		if w := i % 64; (w == 1 || w == 2) != (senders[0][i] != 0) || all[0][i] != senders[0][i]/2 {
			t.Fatalf("element %d: %v by those that sent it, %v by all, expected half of it", i, senders[0][i], all[0][i])
		}
	}
}

// TestWeights: of two peers that sent a position, one with a weight of a quarter, the
// update is the mean with a quarter of its value, by the means over senders and over all;
// a peer of weight 0 is none of them; and rules that vote or look at distances take no
// weights.
func TestWeights(t *testing.T) {
	m := codectest.Tiny(codec.Config{Chunk: 64, TopK: 4096, Index: codec.Dense, Value: codec.F32})
	s := &store.Mem{}
	for uid := uint64(1); uid <= 3; uid++ {
		put(t, s, m, uid, func(p int, dst []float32) {
			for i := range dst {
				dst[i] = float32(uid) * float32(1+i%5)
			}
		})
	}
	weighted := func(rule string) (apply.Mem, *gather.Result, error) {
		g, r, err := collect(m, nil, s, t.TempDir(), rule, 3, map[uint64]float64{1: 0.25, 3: 0, 9: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		w := apply.NewMem(m)
		_, err = apply.Update(t.Context(), g.Ranks, r, m, w, &apply.Options{})
		return w, r, err
	}
	for _, name := range agg.Names() {
		rule, err := agg.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		w, r, err := weighted(name)
		if !rule.Mean() {
			if !errors.Is(err, agg.ErrRule) {
				t.Errorf("%s: %v, expected ErrRule", name, err)
			}
			continue
		}
		if err != nil || len(r.UIDs) != 3 || len(r.Weights) != 2 {
			t.Fatalf("%s: %v: peers %v with weights %v, expected 1 to 3 with those of 1 and 3", name, err, r.UIDs, r.Weights)
		}
		for p := range w {
			for i, got := range w[p] {
				want := -float64(1+i%5) * (0.25 + 2) / 2 // no norm is clipped that counts
				if math.Abs(float64(got)-want) > 1e-6 {
					t.Fatalf("%s: element %d of %d: %v, expected %v", name, i, p, got, want)
				}
			}
		}
	}
}

// TestKrumExact: krum and multi-krum are the mean of the peers that the definition
// chooses from the distances of all pairs, to the bit, for updates that are sent whole
// and for sparse ones, among which some lie.
func TestKrumExact(t *testing.T) {
	const peers = 12
	for _, c := range []codec.Config{codec.DefaultConfig(), codec.KnownConfig(), {Chunk: 64, TopK: 4096, Index: codec.Dense, Value: codec.F32}} {
		m := codectest.Tiny(c)
		for _, liars := range []int{0, 3} {
			update := func(uid uint64) func(int, []float32) {
				return func(p int, dst []float32) {
					truth := make([]float32, len(dst))
					codectest.Update(99, 0, 0, p, truth)
					codectest.Update(uint64(liars), uid, window, p, dst)
					for i := range dst {
						dst[i] = 3*truth[i] + dst[i]*float32(uid)/4
						if uid <= uint64(liars) {
							dst[i] = float32(uid) - dst[i]
						}
					}
				}
			}
			s := &store.Mem{}
			for uid := uint64(1); uid <= peers; uid++ {
				put(t, s, m, uid, update(uid))
			}
			order := byKrum(t, m, s, peers, peers/4)
			for rule, n := range map[string]int{"krum": 1, "multi-krum": peers - peers/4} {
				chosen := &store.Mem{}
				for i, uid := range order[:n] {
					put(t, chosen, m, uint64(i+1), update(uid))
				}
				got, want := updated(t, m, s, rule, peers, apply.Options{}), updated(t, m, chosen, "mean", n, apply.Options{})
				for p := range want {
					if !slices.Equal(got[p], want[p]) {
						t.Errorf("%v/%v, %d liars: %s is not the mean of %v", c.Index, c.Value, liars, rule, order[:n])
						break
					}
				}
			}
		}
	}
}

// byKrum orders peers by the sum of the squared distances to the nearest n-f-2 others.
func byKrum(t *testing.T, m *codec.Manifest, s *store.Mem, n, f int) []uint64 {
	d := make([][]float64, n)
	for u := range d {
		d[u] = make([]float64, n)
	}
	for p := range m.Params {
		x := make([][]float64, n)
		for u := range x {
			x[u], _ = dense(t, m, s, uint64(u+1), p)
		}
		for u := range x {
			for v := range x {
				for i := range x[u] {
					d[u][v] += (x[u][i] - x[v][i]) * (x[u][i] - x[v][i])
				}
			}
		}
	}
	scores, order := map[uint64]float64{}, make([]uint64, n)
	for u := range d {
		order[u] = uint64(u + 1)
		slices.Sort(d[u]) // the first is its own
		for _, x := range d[u][1 : n-f-1] {
			scores[order[u]] += x
		}
	}
	slices.SortFunc(order, func(a, b uint64) int { return cmp.Compare(scores[a], scores[b]) })
	return order
}

func cosine(a, b apply.Mem) float64 {
	var ab, aa, bb float64
	for p := range a {
		for i := range a[p] {
			ab += float64(a[p][i]) * float64(b[p][i])
			aa += float64(a[p][i]) * float64(a[p][i])
			bb += float64(b[p][i]) * float64(b[p][i])
		}
	}
	return ab / math.Sqrt(aa*bb)
}

// TestAggregatorsOnRanks: every rule has the same bits on one rank and on three.
func TestAggregatorsOnRanks(t *testing.T) {
	m := codectest.Tiny(codec.DefaultConfig())
	s := &store.Mem{}
	for uid := uint64(1); uid <= 7; uid++ {
		put(t, s, m, uid, func(p int, dst []float32) { codectest.Update(1, uid, window, p, dst) })
	}
	for _, rule := range agg.Names() {
		want := updated(t, m, s, rule, 7, apply.Options{})
		gs, err := collective.Local(3, &collective.Options{Linger: -1})
		if err != nil {
			t.Fatal(err)
		}
		shared, spool := apply.NewMem(m), t.TempDir()
		var wg sync.WaitGroup
		for _, group := range gs {
			wg.Go(func() {
				g, r, err := collect(m, group, s, spool, rule, 7, nil)
				if err == nil {
					_, err = apply.Update(t.Context(), g.Ranks, r, m, shared, &apply.Options{})
				}
				if err != nil {
					t.Error(rule, err)
				}
			})
		}
		wg.Wait()
		for _, g := range gs {
			g.Close()
		}
		for p := range want {
			if !slices.Equal(want[p], shared[p]) {
				t.Errorf("%s: three ranks have other bits for parameter %d", rule, p)
			}
		}
	}
}

// setting is a folder with a store, a model and a manifest, for children too.
type setting struct {
	dir   string
	m     *codec.Manifest
	store *store.File
	begin func() // is called before the model is touched; may be nil
}

const peersOnDisk = 5

func fileConfig() *codec.Manifest {
	m, err := codec.NewManifest(codec.DefaultConfig(), []codec.Tensor{
		{Name: "a", Shape: []int64{256, 512}, DType: "F32"}, {Name: "b", Shape: []int64{512}, DType: "BF16"},
		{Name: "c", Shape: []int64{512, 320}, DType: "F16"}, {Name: "d", Shape: []int64{130, 96}, DType: "BF16"},
	})
	if err != nil {
		panic(err) // constant arguments
	}
	return m
}

func newSetting(t testing.TB) *setting {
	s := &setting{dir: t.TempDir(), m: fileConfig()}
	var err error
	if s.store, err = store.NewFile(filepath.Join(s.dir, "store")); err != nil {
		t.Fatal(err)
	}
	for uid := uint64(1); uid <= peersOnDisk; uid++ {
		put(t, s.store, s.m, uid, func(p int, dst []float32) { codectest.Update(1, uid, window, p, dst) })
	}
	s.reset(t)
	return s
}

func (s *setting) model() string { return filepath.Join(s.dir, "model.safetensors") }

// reset makes the model anew, with a tensor that the manifest does not know.
func (s *setting) reset(t testing.TB) {
	for _, name := range []string{"", ".new", ".journal", ".momentum", ".momentum.new"} {
		os.Remove(s.model() + name)
	}
	all := []safetensors.Tensor{{Name: "other", DType: safetensors.U8, Shape: []int64{3}, Data: []byte{1, 2, 3}}}
	for _, p := range s.m.Params {
		d := safetensors.DType(p.DType)
		b := make([]byte, p.Elements()*d.Size())
		for i := range b {
			b[i] = byte(i%16) | 0x30*byte(i%2)
		}
		all = append(all, safetensors.Tensor{Name: p.Name, DType: d, Shape: p.Shape, Data: b})
	}
	if err := safetensors.WriteFile(s.model(), all, nil); err != nil {
		t.Fatal(err)
	}
}

// hash is of model and momentum.
func (s *setting) hash(t testing.TB) string {
	h := sha256.New()
	for _, name := range []string{"", ".momentum"} {
		b, err := os.ReadFile(s.model() + name)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(b)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// file applies once.
func (s *setting) file(group *collective.Group, o apply.Options) error {
	spool, err := os.MkdirTemp(s.dir, "spool")
	if err != nil {
		return err
	}
	g, r, err := collect(s.m, group, s.store, spool, "", peersOnDisk, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	o.Optimizer = apply.Optimizer{LR: 0.7, Momentum: 0.9, Nesterov: true}
	o.Budget = 1 << 20
	if s.begin != nil {
		s.begin()
	}
	_, err = apply.File(context.Background(), g.Ranks, r, s.m, s.model(), &o)
	return err
}

// child applies in a process of its own: a folder, then the parameter after which it
// kills itself or -1; or a folder, "grow", peers, budget and the keys of an S3 server.
func child(f []string) error {
	if f[1] == "grow" {
		peers, err := strconv.Atoi(f[2])
		if err != nil {
			return err
		}
		budget, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			return err
		}
		f = append(f, "", "", "")
		return grow(f[0], peers, budget, f[4], f[5], f[6])
	}
	s := &setting{dir: f[0], m: fileConfig(), begin: func() { fmt.Println("begin") }}
	var err error
	if s.store, err = store.NewFile(filepath.Join(s.dir, "store")); err != nil {
		return err
	}
	last, err := strconv.Atoi(f[1])
	if err != nil {
		return err
	}
	return s.file(nil, apply.Options{AfterParam: func(_ context.Context, p int) error {
		if p == last {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}})
}

func (s *setting) spawn(t testing.TB, last int) (*exec.Cmd, *bufio.Reader) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", childVariable, s.dir, last))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(out)
}

// TestT7Once: a window is applied once, by one rank or several.
func TestT7Once(t *testing.T) {
	s := newSetting(t)
	const mode = 0o640
	if err := os.Chmod(s.model(), mode); err != nil {
		t.Fatal(err)
	}
	if err := s.file(nil, apply.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".momentum"} {
		info, err := os.Stat(s.model() + name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode {
			t.Errorf("model%s has mode %v, expected %#o", name, info.Mode(), mode)
		}
	}
	want := s.hash(t)
	if err := s.file(nil, apply.Options{}); !errors.Is(err, apply.ErrAlreadyApplied) || s.hash(t) != want {
		t.Errorf("applied again: %v, expected ErrAlreadyApplied and the same file", err)
	}
	if f, err := safetensors.Open(s.model()); err != nil {
		t.Error(err)
	} else {
		var b [3]byte
		if err := f.Read("other", b[:]); err != nil || b != [3]byte{1, 2, 3} {
			t.Errorf("the tensor that no peer has: %v, %v", b, err)
		}
		f.Close()
	}
	s.reset(t)
	gs, err := collective.Local(3, &collective.Options{Linger: -1})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, g := range gs {
		wg.Go(func() {
			if err := s.file(g, apply.Options{}); err != nil {
				t.Error(err)
			}
			if err := s.file(g, apply.Options{}); !errors.Is(err, apply.ErrAlreadyApplied) && !errors.Is(err, gather.ErrAborted) {
				t.Errorf("again: %v", err)
			}
			g.Close()
		})
	}
	wg.Wait()
	if got := s.hash(t); got != want {
		t.Errorf("three ranks that share the file have %s, expected %s", got, want)
	}
}

// TestRefusedLeavesNothing: an update that cannot be applied leaves the model as it was
// and no journal, so that the next one can be.
func TestRefusedLeavesNothing(t *testing.T) {
	s := newSetting(t)
	g, r, err := collect(s.m, nil, s.store, t.TempDir(), "", peersOnDisk, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	was, err := os.ReadFile(s.model())
	if err != nil {
		t.Fatal(err)
	}
	strange, strangers := *r, *fileConfig()
	strange.Aggregator = "strange"
	strangers.Params = slices.Clone(strangers.Params)
	strangers.Params[1].Name = "stranger"
	another := *r
	another.Manifest = strangers.Digest()
	for name, c := range map[string]struct {
		r *gather.Result
		m *codec.Manifest
		o apply.Options
	}{
		"a rule that is not known":  {&strange, s.m, apply.Options{}},
		"a small budget":            {r, s.m, apply.Options{Budget: 1}},
		"another model":             {&another, &strangers, apply.Options{}},
		"a learning rate of NaN":    {r, s.m, apply.Options{Optimizer: apply.Optimizer{LR: math.NaN()}}},
		"a momentum beyond float32": {r, s.m, apply.Options{Optimizer: apply.Optimizer{Momentum: 1e39}}},
		"an infinite learning rate": {r, s.m, apply.Options{Optimizer: apply.Optimizer{LR: math.Inf(1)}}},
	} {
		if _, err := apply.File(t.Context(), g.Ranks, c.r, c.m, s.model(), &c.o); err == nil {
			t.Errorf("%s: no error", name)
		}
		if b, err := os.ReadFile(s.model()); err != nil || !bytes.Equal(b, was) {
			t.Fatalf("%s: the model has changed: %v", name, err)
		}
		if left, err := filepath.Glob(s.model() + ".*"); err != nil || len(left) != 0 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
	}
	if _, err := apply.File(t.Context(), g.Ranks, r, s.m, s.model(), &apply.Options{}); err != nil {
		t.Error(err)
	}
}

// TestT7Killed: whatever the moment at which a process that applies is killed, the model
// is the old one or the new one, and the next process makes it the new one.
func TestT7Killed(t *testing.T) {
	s := newSetting(t)
	old, err := os.ReadFile(s.model())
	if err != nil {
		t.Fatal(err)
	}
	c, out := s.spawn(t, -1)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	want := s.hash(t)
	for last := range s.m.Params {
		s.reset(t)
		c, _ := s.spawn(t, last)
		if err := c.Wait(); err == nil {
			t.Fatal("the child did not kill itself")
		}
		if now, err := os.ReadFile(s.model()); err != nil || !bytes.Equal(now, old) {
			t.Errorf("killed after parameter %d: the old model was touched: %v", last, err)
		}
		if err := s.file(nil, apply.Options{}); err != nil || s.hash(t) != want {
			t.Errorf("killed after parameter %d: %v, other weights than without it", last, err)
		}
	}
	n, seed := 50, uint64(time.Now().UnixNano())
	if testing.Short() || raced {
		n = 4
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	killed, tries := 0, 0
	for ; killed < n && tries < 10*n; tries++ {
		s.reset(t)
		c, out := s.spawn(t, -1)
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(rng.Int64N(int64(took))))
		c.Process.Kill()
		if c.Wait() != nil {
			killed++
		}
		if err := s.file(nil, apply.Options{}); err != nil && !errors.Is(err, apply.ErrAlreadyApplied) || s.hash(t) != want {
			t.Fatalf("killed at random: %v, hash %s, expected %s", err, s.hash(t), want)
		}
	}
	t.Logf("%d of %d children were killed while they applied", killed, tries)
	if killed < n {
		t.Errorf("expected %d", n)
	}
}

// TestJournalRefused: another result is not applied on top of half of one.
func TestJournalRefused(t *testing.T) {
	s := newSetting(t)
	c, _ := s.spawn(t, 1)
	if c.Wait() == nil {
		t.Fatal("the child did not kill itself")
	}
	put(t, s.store, s.m, 2, func(p int, dst []float32) { codectest.Update(2, 2, window, p, dst) })
	if err := s.file(nil, apply.Options{}); !errors.Is(err, apply.ErrJournal) {
		t.Errorf("%v, expected ErrJournal", err)
	}
}
