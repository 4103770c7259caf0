package overlap

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/store"
)

const window = 3

// peers makes a store of n peers, of which some copy a part of the rows of another.
func peers(t testing.TB, m *codec.Manifest, n int, copies map[uint64]float64) *store.Mem {
	t.Helper()
	s := &store.Mem{}
	e := codec.NewEncoder(m, nil)
	for uid := uint64(1); uid <= uint64(n); uid++ {
		pay, err := e.Encode(codec.Header{Window: window, UID: uid}, func(p int, dst []float32) error {
			codectest.Update(1, uid, window, p, dst)
			if part, ok := copies[uid]; ok {
				q := &m.Params[p]
				from, row := make([]float32, len(dst)), make([]float32, q.TotalK)
				codectest.Update(1, 1, window, p, from)
				for r := range int(part * float64(q.Rows)) {
					q.Gather(row, from, r)
					q.Scatter(dst, row, r)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b := pay.Bytes()
		if err := s.Put(t.Context(), fmt.Sprint(uid), bytes.NewReader(b), int64(len(b)), nil); err != nil {
			t.Fatal(err)
		}
		s.Chtime(fmt.Sprint(uid), time.Unix(1000+int64(uid), 0))
	}
	return s
}

func manifest(t testing.TB) *codec.Manifest {
	m, err := codec.NewManifest(codec.DefaultConfig(), []codec.Tensor{
		{Name: "a", Shape: []int64{640, 64}, DType: "F32"}, {Name: "dense", Shape: []int64{64}, DType: "F32"}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func collect(t testing.TB, m *codec.Manifest, group *collective.Group, s store.Store, spool string, n int) (*gather.Gatherer, *gather.Result) {
	g, err := gather.New(group, &gather.Options{Manifest: m, Spool: spool, Source: func(_, uid uint64) (store.Store, string) { return s, fmt.Sprint(uid) }})
	if err != nil {
		t.Fatal(err)
	}
	plan := &gather.Plan{Window: window, Timeout: time.Minute, Manifest: m.Digest()}
	for uid := range n {
		plan.Intended = append(plan.Intended, uint64(uid+1))
	}
	r, err := g.Gather(context.Background(), plan)
	if err != nil {
		t.Error(err)
		return g, nil
	}
	return g, r
}

// sets reads the indices of each peer's rows.
func sets(t testing.TB, r *gather.Result, m *codec.Manifest) [][][]uint32 {
	t.Helper()
	out := make([][][]uint32, len(r.UIDs))
	var rows codec.Rows
	var row codec.Row
	for u, uid := range r.UIDs {
		pay := r.Payloads[uid]
		if err := pay.Report.ReadRows(&rows, m, pay.File, 0, 0, m.Params[0].Rows); err != nil {
			t.Fatal(err)
		}
		if err := rows.Each(&row, func(int) { out[u] = append(out[u], slices.Clone(row.Index)) }); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// allPairs compares the indices of every pair of peers one by one.
func allPairs(all [][][]uint32) [][]int64 {
	out := make([][]int64, len(all))
	for i := range all {
		out[i] = make([]int64, len(all))
		for j := range all {
			for r := range all[i] {
				for _, a := range all[i][r] {
					for _, b := range all[j][r] {
						if a == b {
							out[i][j]++
						}
					}
				}
			}
		}
	}
	return out
}

// TestT18Overlap: the counts are those of comparing all indices of all pairs, on any
// number of ranks.
func TestT18Overlap(t *testing.T) {
	m := manifest(t)
	for _, n := range []int{2, 3, 20, 64, 100} {
		s := peers(t, m, n, map[uint64]float64{2: 0.4, 3: 0.5, 20: 0.6, 64: 1})
		g, r := collect(t, m, nil, s, t.TempDir(), n)
		defer r.Close()
		rep, err := Check(t.Context(), g.Ranks, r, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := allPairs(sets(t, r, m))
		for i := range want {
			if !slices.Equal(rep.Common[i], want[i]) {
				t.Fatalf("%d peers: row %d is %v, expected %v", n, i, rep.Common[i], want[i])
			}
		}
		if rep.Pairs != n*(n-1)/2 || rep.Total != int64(m.Params[0].Rows*m.Params[0].K) {
			t.Errorf("%d peers: %d pairs, %d positions", n, rep.Pairs, rep.Total)
		}
		levels := map[uint64]Level{2: High, 3: Max, 20: Mega, 64: Mega}
		for uid, want := range levels {
			if uid <= uint64(n) && rep.Levels[uid] != want {
				t.Errorf("%d peers: peer %d has level %v, expected %v", n, uid, rep.Levels[uid], want)
			}
		}
		if rep.Levels[1] != None {
			t.Errorf("%d peers: the original has level %v", n, rep.Levels[1])
		}
		for _, ranks := range []int{2, 3, 8} {
			if n == 20 {
				onRanks(t, m, s, n, ranks, rep)
			}
		}
	}
}

func onRanks(t *testing.T, m *codec.Manifest, s store.Store, n, ranks int, want *Report) {
	gs, err := collective.Local(ranks, &collective.Options{Linger: -1})
	if err != nil {
		t.Fatal(err)
	}
	wantJSON, _ := want.JSON()
	spool := t.TempDir()
	var wg sync.WaitGroup
	for rank, group := range gs {
		wg.Go(func() {
			g, r := collect(t, m, group, s, spool, n)
			if r == nil {
				return
			}
			rep, err := Check(t.Context(), g.Ranks, r, m, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if b, _ := rep.JSON(); string(b) != string(wantJSON) {
				t.Errorf("rank %d of %d: %s, expected %s", rank, ranks, b, wantJSON)
			}
		})
	}
	wg.Wait()
	for _, g := range gs {
		g.Close()
	}
}

// TestT18Blame: the later upload offends; one without a time is the latest; of equal
// times the larger peer offends, and it is said that this is a guess.
func TestT18Blame(t *testing.T) {
	for _, c := range []struct {
		a, b      int64
		offender  uint64
		ambiguous bool
	}{{10, 20, 2, false}, {20, 10, 1, false}, {10, 10, 2, true}, {0, 10, 1, false}, {10, 0, 2, false}, {0, 0, 2, true}} {
		x, y := gather.Record{UID: 1, Modified: c.a}, gather.Record{UID: 2, Modified: c.b}
		for _, p := range []Pair{blame(&x, &y), blame(&y, &x)} {
			if p.Offender != c.offender || p.Ambiguous != c.ambiguous || p.A != 1 || p.B != 2 {
				t.Errorf("%+v: %+v", c, p)
			}
		}
	}
}

// TestFew: with fewer than two peers there is nothing to compare.
func TestFew(t *testing.T) {
	m := manifest(t)
	s := peers(t, m, 1, nil)
	g, r := collect(t, m, nil, s, t.TempDir(), 1)
	defer r.Close()
	rep, err := Check(t.Context(), g.Ranks, r, m, nil)
	if err != nil || rep.Pairs != 0 || rep.Min != 0 || rep.Max != 0 || len(rep.Over) != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// TestAllEqual: the least overlap of copies is 1.
func TestAllEqual(t *testing.T) {
	m := manifest(t)
	s := peers(t, m, 3, map[uint64]float64{2: 1, 3: 1})
	g, r := collect(t, m, nil, s, t.TempDir(), 3)
	defer r.Close()
	rep, err := Check(t.Context(), g.Ranks, r, m, nil)
	if err != nil || rep.Min != 1 || rep.Mean != 1 || len(rep.Over) != 3 || r.Peers[0].Indices != r.Peers[1].Indices {
		t.Errorf("%+v, %v", rep, err)
	}
}
