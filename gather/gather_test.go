package gather_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/overlap"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/gather/store/storetest"
)

const window = 7

// fixture is a store of peers' payloads and a plan for them.
type fixture struct {
	m     *codec.Manifest
	from  store.Store
	mem   *store.Mem
	url   string // of mem, where a server has it
	plan  gather.Plan
	fetch store.FetchOptions
	o     apply.Options
	// nil: as the plan says
	deal func(p *gather.Plan, list []uint64, offset, rank, size int) []uint64
}

func key(uid uint64) string { return fmt.Sprint("peer-", uid) }

// newFixture has peers of the given numbers, all honest.
func newFixture(t testing.TB, c codec.Config, uids ...uint64) *fixture {
	t.Helper()
	noLeaks(t)
	mem := &store.Mem{}
	f := &fixture{m: codectest.Tiny(c), mem: mem, from: mem, fetch: store.FetchOptions{Attempts: 1}}
	for _, uid := range uids {
		f.put(t, uid, codectest.Payload(f.m, window, uid, nil).Bytes())
	}
	f.plan = gather.Plan{Window: window, Intended: uids, Timeout: 20 * time.Second, Manifest: f.m.Digest(), Policy: gather.Policy{ReserveRounds: 1}}
	return f
}

func (f *fixture) put(t testing.TB, uid uint64, b []byte) {
	t.Helper()
	if err := f.mem.Put(t.Context(), key(uid), bytes.NewReader(b), int64(len(b)), nil); err != nil {
		t.Fatal(err)
	}
}

// ended is what one rank has at the end.
type ended struct {
	result  *gather.Result
	json    string
	overlap string
	weights string // SHA-256
	err     error
}

// alone makes ranks of a slice of groups; nil for a rank without one.
func groups(t testing.TB, ranks int) []*collective.Group {
	t.Helper()
	if ranks == 1 {
		return []*collective.Group{nil}
	}
	gs, err := collective.Local(ranks, &collective.Options{Timeout: 60 * time.Second, Linger: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, g := range gs {
			g.Close()
		}
	})
	return gs
}

// run gathers, checks the overlap and applies, on so many ranks. Odd numbers of ranks
// share a model, even ones are replicas.
func (f *fixture) run(t testing.TB, ranks int) []ended {
	t.Helper()
	out := make([]ended, ranks)
	shared := apply.NewMem(f.m)
	spool := t.TempDir()
	var wg sync.WaitGroup
	for rank, group := range groups(t, ranks) {
		wg.Go(func() {
			o := f.o
			w := shared
			if o.Replicated = ranks%2 == 0; o.Replicated {
				w = apply.NewMem(f.m)
			}
			out[rank] = f.rank(t, group, w, spool, o)
		})
	}
	wg.Wait()
	for i := range out {
		if ranks%2 == 1 {
			out[i].weights = hash(shared)
		}
	}
	return out
}

func (f *fixture) rank(t testing.TB, group *collective.Group, w apply.Mem, spool string, o apply.Options) (out ended) {
	g, err := gather.New(group, &gather.Options{Manifest: f.m, Spool: spool, Fetch: f.fetch,
		Source: func(_, uid uint64) (store.Store, string) { return f.from, key(uid) }})
	if err != nil {
		return ended{err: err}
	}
	if f.deal != nil {
		g.DealBy(f.deal)
	}
	plan := f.plan
	ctx := context.Background()
	if out.result, out.err = g.Gather(ctx, &plan); out.err != nil {
		return out
	}
	defer out.result.Close()
	b, err := out.result.JSON()
	if err != nil {
		return ended{err: err}
	}
	out.json = string(b)
	rep, err := overlap.Check(ctx, g.Ranks, out.result, f.m, nil)
	if err != nil {
		return ended{err: err}
	}
	b, _ = rep.JSON()
	out.overlap = string(b)
	_, out.err = apply.Update(ctx, g.Ranks, out.result, f.m, w, &o)
	if o.Replicated { // weights that ranks share are read when all have ended
		out.weights = hash(w)
	}
	return out
}

func hash(w apply.Mem) string {
	h := sha256.New()
	for _, x := range w {
		for _, v := range x {
			b := math.Float32bits(v)
			h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func uids(from, to uint64) []uint64 {
	var out []uint64
	for ; from <= to; from++ {
		out = append(out, from)
	}
	return out
}

// TestT1Partition: every peer is dealt once, ranks differ by one at most, and the order
// of the plan does not matter.
func TestT1Partition(t *testing.T) {
	rng, rounds := rand.New(rand.NewPCG(1, 1)), 1000
	if testing.Short() {
		rounds = 50
	}
	for _, peers := range []int{0, 1, 7, 20, 64, 256} {
		for _, ranks := range []int{1, 2, 3, 8, 300} {
			var first [][]uint64
			for range rounds {
				p := gather.Plan{Timeout: 1, Intended: uids(1, uint64(peers))}
				rng.Shuffle(peers, func(i, j int) { p.Intended[i], p.Intended[j] = p.Intended[j], p.Intended[i] })
				if err := p.Normalize(); err != nil {
					t.Fatal(err)
				}
				var shares [][]uint64
				least, most, seen := peers, 0, map[uint64]bool{}
				for r := range ranks {
					s := p.Share(p.Primaries(), 0, r, ranks)
					least, most = min(least, len(s)), max(most, len(s))
					for _, uid := range s {
						if seen[uid] {
							t.Fatalf("peer %d was dealt twice", uid)
						}
						seen[uid] = true
					}
					shares = append(shares, s)
				}
				if len(seen) != peers || most-least > 1 {
					t.Fatalf("%d peers of %d on %d ranks, %d to %d each", len(seen), peers, ranks, least, most)
				}
				if first == nil {
					first = shares
				} else if !slices.EqualFunc(first, shares, slices.Equal) {
					t.Fatal("the order of the plan changed the shares")
				}
			}
		}
	}
}

// TestPlanRefused: a plan that cannot be is refused.
func TestPlanRefused(t *testing.T) {
	for name, p := range map[string]gather.Plan{
		"no time":             {},
		"a window that ends":  {Timeout: 1, TMin: 2, TMax: 1},
		"a policy below 0":    {Timeout: 1, Policy: gather.Policy{MinPeers: -1}},
		"a way to deal":       {Timeout: 1, Policy: gather.Policy{Deal: "x"}},
		"a weight above 1":    {Timeout: 1, Weights: map[uint64]float64{1: 1.5}},
		"a weight below 0":    {Timeout: 1, Weights: map[uint64]float64{1: -0.5}},
		"a weight, no number": {Timeout: 1, Weights: map[uint64]float64{1: math.NaN()}},
		"too many peers":      {Timeout: 1, Intended: make([]uint64, gather.MaxPeers+1)},
	} {
		if err := p.Normalize(); !errors.Is(err, gather.ErrPlan) {
			t.Errorf("%s: %v, expected ErrPlan", name, err)
		}
	}
}

// TestDeal: the other ways to deal give each peer to one rank too. Longest keeps the
// bytes of ranks within the largest payload; Rendezvous moves only peers of a rank that
// is gone.
func TestDeal(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, deal := range []gather.Deal{gather.Longest, gather.Rendezvous} {
		for _, ranks := range []int{1, 2, 3, 8, 300} {
			p := gather.Plan{Timeout: 1, Intended: uids(1, 64), Sizes: map[uint64]uint64{}, Policy: gather.Policy{Deal: deal}}
			var largest uint64
			for _, uid := range p.Intended[:60] { // the sizes of some are not known
				p.Sizes[uid] = rng.Uint64N(1 << 30)
				largest = max(largest, p.Sizes[uid])
			}
			at, load := map[uint64]int{}, make([]uint64, ranks)
			for rank := range ranks {
				for _, uid := range p.Share(p.Primaries(), 0, rank, ranks) {
					if _, twice := at[uid]; twice {
						t.Errorf("%s on %d ranks: peer %d is dealt twice", deal, ranks, uid)
					}
					at[uid] = rank
					load[rank] += p.Sizes[uid]
				}
			}
			if len(at) != 64 {
				t.Errorf("%s on %d ranks: %d of 64 peers are dealt", deal, ranks, len(at))
			}
			if deal == gather.Longest && slices.Max(load)-slices.Min(load) > largest {
				t.Errorf("%s on %d ranks: %d to %d bytes", deal, ranks, slices.Min(load), slices.Max(load))
			}
			if deal == gather.Rendezvous && ranks == 8 {
				for rank := range 7 {
					for _, uid := range p.Share(p.Primaries(), 0, rank, 7) {
						if at[uid] != rank && at[uid] != 7 {
							t.Errorf("peer %d moved from rank %d to %d, though only rank 7 is gone", uid, at[uid], rank)
						}
					}
				}
				if slices.Max(load) == 0 || len(p.Share(p.Primaries(), 0, 7, 8)) == 0 {
					t.Error("a rank of 8 has no peer of 64")
				}
			}
		}
	}
}

// TestT6Applied: a peer that two ranks have fetched is applied once, with the weights of
// one download; of different bytes it is those that were uploaded first.
func TestT6Applied(t *testing.T) {
	f := newFixture(t, codec.DefaultConfig(), uids(1, 5)...)
	for _, uid := range f.plan.Intended {
		f.mem.Chtime(key(uid), time.Unix(1000, 0))
	}
	want := f.run(t, 1)[0]
	both := func(p *gather.Plan, list []uint64, offset, rank, size int) []uint64 {
		mine := p.Share(list, offset, rank, size)
		if offset == 0 && !slices.Contains(mine, 3) {
			mine = append(mine, 3)
		}
		return mine
	}
	later := codectest.Payload(f.m, window, 3, nil)
	later.Header.Step = 999 // of other bytes
	changed, err := codec.Seal(later.Header, later.Sections(), nil)
	if err != nil {
		t.Fatal(err)
	}
	other := &store.Mem{Now: func() time.Time { return time.Unix(2000, 0) }}
	if err := other.Put(t.Context(), key(3), bytes.NewReader(changed.Bytes()), changed.Size(), nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		second                store.Store // of ranks 1 and 2
		duplicates, conflicts int
	}{"equal": {f.mem, 2, 0}, "different": {other, 1, 1}} {
		var wg sync.WaitGroup
		spool := t.TempDir()
		out := make([]ended, 3)
		for rank, group := range groups(t, 3) {
			wg.Go(func() {
				mine := *f
				mine.deal = both
				if rank != 2 { // rank 2 has it by the plan
					mine.from = &overlaid{f.mem, key(3), c.second}
				}
				out[rank] = mine.rank(t, group, apply.NewMem(f.m), filepath.Join(spool, fmt.Sprint(rank)), apply.Options{Replicated: true})
			})
		}
		wg.Wait()
		for rank, got := range out {
			if got.err != nil || got.weights != want.weights || !slices.Equal(got.result.UIDs, want.result.UIDs) {
				t.Errorf("%s, rank %d: %v, other weights or peers", name, rank, got.err)
			} else if r := got.result; r.Duplicates != c.duplicates || r.Conflicts != c.conflicts {
				t.Errorf("%s, rank %d: %d duplicates, %d conflicts, expected %d, %d", name, rank, r.Duplicates, r.Conflicts, c.duplicates, c.conflicts)
			}
			if left, err := os.ReadDir(filepath.Join(spool, fmt.Sprint(rank))); err != nil || len(left) != 0 {
				t.Errorf("%s, rank %d: %d files are left in the spool, %v", name, rank, len(left), err)
			}
		}
	}
}

// overlaid is a store that takes one key from another.
type overlaid struct {
	store.Store
	key   string
	other store.Store
}

func (o *overlaid) Open(ctx context.Context, key string, get store.Get) (*store.Object, error) {
	if key == o.key {
		return o.other.Open(ctx, key, get)
	}
	return o.Store.Open(ctx, key, get)
}

// faulty is the fixture of T2: 20 peers of which 6 fail in different ways, 10 reserves.
func faulty(t testing.TB) *fixture {
	f := newFixture(t, codec.DefaultConfig(), uids(1, 30)...)
	s := storetest.NewServer(t)
	now := time.Now()
	f.plan.Intended, f.plan.Reserves = []uint64{20, 3, 1, 2, 19, 18, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}, uids(21, 30)
	f.plan.TMin, f.plan.TMax = now.Add(-time.Hour).Unix(), now.Add(time.Hour).Unix()
	f.plan.Timeout = time.Second
	f.mem.Delete(t.Context(), key(2))
	f.mem.Chtime(key(5), now.Add(-2*time.Hour))
	f.mem.Chtime(key(7), now.Add(2*time.Hour))
	for _, uid := range uids(1, 30) {
		if uid != 2 && uid != 5 && uid != 7 {
			f.mem.Chtime(key(uid), now.Add(time.Duration(uid)*-time.Second))
		}
	}
	corrupt := codectest.Payload(f.m, window, 9, nil).Bytes()
	corrupt[len(corrupt)-1] ^= 1
	f.put(t, 9, corrupt)
	nan := codectest.Payload(f.m, window, 11, nil)
	h := nan.Header
	h.Params = slices.Clone(h.Params)
	h.Params[0].Lookup = []float32{0, float32(math.NaN()), 1, 2}
	sealed, err := codec.Seal(h, nan.Sections(), nil)
	if err != nil {
		t.Fatal(err)
	}
	f.put(t, 11, sealed.Bytes())
	s.Set(f.mem, func(k string, _ int) storetest.Fault {
		if k == key(13) {
			return storetest.Fault{Cut: 100, Stall: true}
		}
		return storetest.Fault{}
	})
	f.url = s.URL
	if f.from, err = store.NewHTTP(s.URL, nil); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestT2Equality: any number of ranks comes to the same result, overlap and weights.
func TestT2Equality(t *testing.T) {
	f := faulty(t)
	want := map[uint64]outcome.Outcome{2: outcome.NotFound, 5: outcome.TooEarly, 7: outcome.TooLate, 9: outcome.BadDigest, 11: outcome.BadQuant, 13: outcome.Timeout}
	ranks := []int{1, 2, 3, 4, 8, 32}
	if testing.Short() || raced {
		ranks = []int{1, 3, 8}
	}
	var first ended
	for _, n := range ranks {
		for rank, got := range f.run(t, n) {
			if got.err != nil {
				t.Fatalf("rank %d of %d: %v", rank, n, got.err)
			}
			if first.json == "" {
				first = got
				r := got.result
				if fmt.Sprint(r.Reasons) != fmt.Sprint(want) || len(r.UIDs) != 20 || r.SuccessRate != 1 || r.ReserveUsed != 6 {
					t.Errorf("reasons %v, uids %v, rate %v, %d reserves", r.Reasons, r.UIDs, r.SuccessRate, r.ReserveUsed)
				}
				t.Logf("result of %d bytes, weights %.16s", len(got.json), got.weights)
			}
			if got.json != first.json {
				t.Errorf("rank %d of %d has the result\n%s\nexpected\n%s", rank, n, got.json, first.json)
			}
			if got.overlap != first.overlap || got.weights != first.weights {
				t.Errorf("rank %d of %d: overlap %s, weights %s; expected %s, %s", rank, n, got.overlap, got.weights, first.overlap, first.weights)
			}
		}
	}
}

// TestT4OneGET: every peer that is attempted is asked for once, and never by HEAD.
func TestT4OneGET(t *testing.T) {
	f := newFixture(t, codec.DefaultConfig(), uids(1, 12)...)
	for ranks := 1; ranks <= 8; ranks++ {
		s := storetest.NewServer(t)
		s.Mem = f.mem
		f.from, _ = store.NewHTTP(s.URL, nil)
		f.mem.Delete(t.Context(), key(3))
		f.plan.Intended, f.plan.Reserves = uids(1, 8), uids(9, 12)
		for rank, got := range f.run(t, ranks) {
			if got.err != nil {
				t.Fatalf("rank %d of %d: %v", rank, ranks, got.err)
			}
		}
		for _, uid := range uids(1, 12) {
			want := 1
			if uid > 9 {
				want = 0 // one reserve is enough
			}
			if n := s.Count("GET", key(uid)); n != want {
				t.Errorf("%d ranks: peer %d was asked for %d times, expected %d", ranks, uid, n, want)
			}
		}
		if s.Count("HEAD", "") != 0 {
			t.Errorf("%d ranks: a HEAD was sent", ranks)
		}
	}
}

// TestT5Duplicates: a peer that is named twice is fetched and applied once.
func TestT5Duplicates(t *testing.T) {
	f := newFixture(t, codec.DefaultConfig(), 1, 2)
	once := f.run(t, 1)[0]
	for name, c := range map[string]struct {
		intended, reserves []uint64
		removed            int
	}{
		"twice":           {[]uint64{1, 1, 2}, nil, 1},
		"also a reserve":  {[]uint64{1, 2}, []uint64{1}, 1},
		"reserve, thrice": {[]uint64{2, 1, 2}, []uint64{2, 1}, 3},
	} {
		for _, ranks := range []int{1, 3} {
			s := storetest.NewServer(t)
			s.Mem = f.mem
			f.from, _ = store.NewHTTP(s.URL, nil)
			f.plan.Intended, f.plan.Reserves = c.intended, c.reserves
			for _, got := range f.run(t, ranks) {
				if got.err != nil {
					t.Fatal(name, got.err)
				}
				r := got.result
				if !slices.Equal(r.UIDs, []uint64{1, 2}) || r.Removed != c.removed || r.SuccessRate != 1 || got.weights != once.weights {
					t.Errorf("%s, %d ranks: uids %v, %d removed, rate %v", name, ranks, r.UIDs, r.Removed, r.SuccessRate)
				}
			}
			if n := s.Count("GET", ""); n != 2 {
				t.Errorf("%s, %d ranks: %d requests, expected 2", name, ranks, n)
			}
		}
	}
}

// TestT8Reserves: as many failed peers are replaced as there are rounds and reserves for.
func TestT8Reserves(t *testing.T) {
	f := newFixture(t, codec.DefaultConfig(), uids(1, 30)...)
	for _, uid := range []uint64{2, 5, 7, 11, 13, 22, 24} {
		f.mem.Delete(t.Context(), key(uid))
	}
	f.plan.Intended, f.plan.Reserves = uids(1, 20), uids(21, 30)
	for _, c := range []struct {
		rounds, uids, skipped, used int
		rate                        float64
	}{{0, 15, 5, 0, 0.75}, {1, 18, 7, 3, 0.9}, {3, 20, 7, 5, 1}} {
		f.plan.Policy.ReserveRounds = c.rounds
		for _, ranks := range []int{1, 4} {
			for _, got := range f.run(t, ranks) {
				if got.err != nil {
					t.Fatal(got.err)
				}
				r := got.result
				if len(r.UIDs) != c.uids || len(r.Skipped) != c.skipped || r.ReserveUsed != c.used || r.SuccessRate != c.rate {
					t.Errorf("%d rounds, %d ranks: %d uids, %d skipped, %d reserves, rate %v; expected %+v",
						c.rounds, ranks, len(r.UIDs), len(r.Skipped), r.ReserveUsed, r.SuccessRate, c)
				}
			}
		}
	}
}

// TestT3Reserves are the known implementation's own answers.
func TestT3Reserves(t *testing.T) {
	for _, c := range []struct {
		intended, reserves, gone, uids, skipped []uint64
		rate                                    float64
	}{
		{[]uint64{4, 2, 1, 3}, []uint64{5, 6, 7}, []uint64{2, 3}, []uint64{1, 4, 5, 6}, []uint64{2, 3}, 1},
		{[]uint64{1, 2}, []uint64{5, 6}, []uint64{1, 2, 6}, []uint64{5}, []uint64{1, 2, 6}, 0.5},
		{[]uint64{1, 2}, nil, []uint64{1, 2}, []uint64{}, []uint64{1, 2}, 0},
	} {
		f := newFixture(t, codec.KnownConfig(), uids(1, 7)...)
		for _, uid := range c.gone {
			f.mem.Delete(t.Context(), key(uid))
		}
		f.plan.Intended, f.plan.Reserves = c.intended, c.reserves
		got := f.run(t, 2)[1]
		if got.err != nil {
			t.Fatal(got.err)
		}
		if r := got.result; !slices.Equal(r.UIDs, c.uids) || !slices.Equal(r.Skipped, c.skipped) || r.SuccessRate != c.rate {
			t.Errorf("uids %v, skipped %v, rate %v; expected %+v", r.UIDs, r.Skipped, r.SuccessRate, c)
		}
	}
}

// TestT9Nothing: where no peer is left every rank skips and no weight changes.
func TestT9Nothing(t *testing.T) {
	f := newFixture(t, codec.DefaultConfig(), uids(1, 4)...)
	zeros := hash(apply.NewMem(f.m))
	for name, c := range map[string]struct {
		intended, reserves []uint64
		min                int
		skip               bool
		rate               float64
	}{
		"reserves alone":       {[]uint64{11, 12}, []uint64{1}, 0, false, 0.5},
		"nothing":              {[]uint64{11, 12, 13}, []uint64{14}, 0, true, 0},
		"no peers":             {nil, nil, 0, true, 0},
		"fewer than the least": {[]uint64{1, 2, 11}, nil, 3, true, 2. / 3},
	} {
		for _, ranks := range []int{1, 2, 8} {
			f.plan.Intended, f.plan.Reserves, f.plan.Policy.MinPeers = c.intended, c.reserves, c.min
			for _, got := range f.run(t, ranks) {
				if got.err != nil {
					t.Fatal(name, got.err)
				}
				if got.result.Skip != c.skip || got.result.SuccessRate != c.rate || (got.weights == zeros) != c.skip {
					t.Errorf("%s, %d ranks: skip %v, rate %v", name, ranks, got.result.Skip, got.result.SuccessRate)
				}
			}
		}
	}
}

// TestT10Shapes: more ranks than peers, one rank, and a budget of few rows.
func TestT10Shapes(t *testing.T) {
	f := newFixture(t, codec.KnownConfig(), 1, 2, 3)
	want := f.run(t, 1)[0]
	if want.err != nil {
		t.Fatal(want.err)
	}
	f.o.Budget = 300 << 10
	for _, ranks := range []int{1, 2, 3, 8} {
		for _, got := range f.run(t, ranks) {
			if ranks > 2 {
				f.o.Budget = 2 << 20 // rows of eight ranks are on their way at once
			}
			if got.err != nil || got.json != want.json || got.weights != want.weights {
				t.Errorf("%d ranks: %v, weights %s, expected %s", ranks, got.err, got.weights, want.weights)
			}
		}
		f.o.Budget = 2 << 20
	}
}

// TestT14Budget: a budget below one row is refused with the number that is needed.
func TestT14Budget(t *testing.T) {
	f := newFixture(t, codec.DefaultConfig(), 1, 2)
	f.o.Budget = 1000
	got := f.run(t, 1)[0]
	if !errors.Is(got.err, apply.ErrBudget) || !strings.Contains(got.err.Error(), "needs") || got.weights != hash(apply.NewMem(f.m)) {
		t.Errorf("%v, weights %s", got.err, got.weights)
	}
}

// TestT15Determinism: order, ranks, tiles and threads do not change a bit.
func TestT15Determinism(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	n := 100
	if testing.Short() || raced {
		n = 20
	}
	f := newFixture(t, codec.DefaultConfig(), uids(1, 9)...)
	first := ""
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for range n {
		rng.Shuffle(len(f.plan.Intended), func(i, j int) { p := f.plan.Intended; p[i], p[j] = p[j], p[i] })
		runtime.GOMAXPROCS(1 + rng.IntN(4))
		f.o.Budget = int64(2<<20 + rng.IntN(4<<20))
		ranks := 1 + rng.IntN(5)
		for _, got := range f.run(t, ranks) {
			if got.err != nil {
				t.Fatal(got.err)
			}
			if first == "" {
				first = got.weights
			}
			if got.weights != first {
				t.Fatalf("%d ranks, budget %d: weights %s, expected %s", ranks, f.o.Budget, got.weights, first)
			}
		}
	}
}

// TestT16Isolation: each wrong payload of the corpus lies among four honest ones, which
// come to the same result as by themselves.
func TestT16Isolation(t *testing.T) {
	c := codec.KnownConfig()
	c.Bins = 64
	f := newFixture(t, c, 1, 2, 4, 5)
	f.plan.Policy.NormLimit = codectest.NormLimit
	want := f.run(t, 1)[0]
	f.plan.Intended = uids(1, 5)
	for _, c := range codectest.Corpus(f.m, window, 3) {
		f.put(t, 3, c.Bytes)
		got := f.run(t, 1)[0]
		if got.err != nil || got.weights != want.weights || !slices.Equal(got.result.UIDs, want.result.UIDs) || got.result.Reasons[3] != c.Want {
			t.Errorf("%s: %v, uids %v, reason %v, expected %v", c.Name, got.err, got.result.UIDs, got.result.Reasons[3], c.Want)
		}
	}
}

// TestSpoolFull: a payload for which the spool has no room is skipped for that reason,
// and the others are gathered. The room is what a process may write to one file: it is
// a process of its own, as the limit would end the log that go test keeps, too.
func TestSpoolFull(t *testing.T) {
	const child = "SPOOL_FULL_CHILD"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestSpoolFull$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestSpoolFull")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	f := newFixture(t, codec.KnownConfig(), 1, 2, 4)
	want := f.run(t, 1)[0]
	e := codec.NewEncoder(f.m, nil)
	large, err := e.Encode(codec.Header{Window: window, UID: 3, Meta: map[string]string{"long": strings.Repeat("x", codec.MaxMeta-4)}},
		func(p int, dst []float32) error { codectest.Update(1, 3, window, p, dst); return nil })
	if err != nil {
		t.Fatal(err)
	}
	f.put(t, 3, large.Bytes())
	f.plan.Intended = uids(1, 4)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(large.Size()) - 1, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	got := f.run(t, 1)[0]
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if got.err != nil || got.weights != want.weights || got.result.Reasons[3] != outcome.Spool || !strings.Contains(got.result.Details[3], syscall.EFBIG.Error()) {
		t.Errorf("%v, weights %s, expected %s; peer 3: %v, %s, expected SPOOL and why", got.err, got.weights, want.weights, got.result.Reasons[3], got.result.Details[3])
	}
}

// TestT16Outcomes: outcomes that no payload's bytes have.
func TestT16Outcomes(t *testing.T) {
	f := newFixture(t, codec.DefaultConfig(), 1, 2)
	g, err := gather.New(nil, &gather.Options{Manifest: f.m, Spool: t.TempDir(), Fetch: f.fetch,
		Source: func(_, uid uint64) (store.Store, string) { return f.from, key(uid) }, Banned: func(uid uint64) bool { return uid == 2 }})
	if err != nil {
		t.Fatal(err)
	}
	gathered := func(ctx context.Context) *gather.Result {
		plan := f.plan
		r, err := g.Gather(ctx, &plan)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		return r
	}
	if r := gathered(t.Context()); r.Reasons[2] != outcome.Banned || len(r.UIDs) != 1 {
		t.Errorf("a banned peer: %v", r.Reasons)
	}
	if r := gathered(t.Context()); r.Reasons[1] != outcome.Duplicate { // the claim table
		t.Errorf("the same window again: %v", r.Reasons)
	}
	f.plan.Window++
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if r := gathered(done); r.Reasons[1] != outcome.Cancelled {
		t.Errorf("cancelled: %v", r.Reasons)
	}
	f.plan.Window++
	f.put(t, 1, make([]byte, f.m.MaxPayload()+1))
	if r := gathered(t.Context()); r.Reasons[1] != outcome.TooLarge {
		t.Errorf("larger than any payload: %v", r.Reasons)
	}
}

// TestT20Abort: a rank that cannot use the plan has all abort, and so has one with
// another manifest. No goroutine is left (see newFixture).
func TestT20Abort(t *testing.T) {
	f := newFixture(t, codec.DefaultConfig(), 1, 2, 3)
	f.plan.Manifest[0] ^= 1
	for rank, got := range f.run(t, 3) {
		if !errors.Is(got.err, gather.ErrAborted) {
			t.Errorf("rank %d: %v, expected ErrAborted", rank, got.err)
		}
	}
	f.plan.Manifest[0] ^= 1
	gs := groups(t, 3)
	other := codectest.Tiny(codec.KnownConfig())
	var wg sync.WaitGroup
	for rank, group := range gs {
		wg.Go(func() {
			m := f.m
			if rank == 2 {
				m = other
			}
			g, err := gather.New(group, &gather.Options{Manifest: m, Spool: t.TempDir(), Source: func(_, uid uint64) (store.Store, string) { return f.from, key(uid) }})
			if err != nil {
				t.Error(err)
				return
			}
			plan := f.plan
			if _, err := g.Gather(t.Context(), &plan); !errors.Is(err, gather.ErrAborted) {
				t.Errorf("rank %d: %v, expected ErrAborted", rank, err)
			}
		})
	}
	wg.Wait()
}

// TestT20Late: no rank has a result before the last one began.
func TestT20Late(t *testing.T) {
	f := newFixture(t, codec.DefaultConfig(), 1, 2, 3)
	gs := groups(t, 3)
	begun := make(chan struct{})
	done := make(chan ended, 3)
	for rank, group := range gs {
		go func() {
			if rank == 1 {
				<-begun
			}
			done <- f.rank(t, group, apply.NewMem(f.m), t.TempDir(), apply.Options{Replicated: true})
		}()
	}
	select {
	case got := <-done:
		t.Errorf("a rank was done before all began: %v", got.err)
	case <-time.After(500 * time.Millisecond):
	}
	close(begun)
	for range gs {
		if got := <-done; got.err != nil {
			t.Error(got.err)
		}
	}
}

// TestT20Deadline: where a rank does not come in time the others abort, before the plan,
// after it, and while the update is applied.
func TestT20Deadline(t *testing.T) {
	for _, comes := range []string{"never", "for the plan", "for the result"} {
		f := newFixture(t, codec.DefaultConfig(), 1, 2, 3)
		gs, err := collective.Local(3, &collective.Options{Timeout: 2 * time.Second, Linger: -1})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var wg sync.WaitGroup
		for rank, group := range gs {
			wg.Go(func() {
				switch {
				case rank == 2 && comes == "never":
					return
				case rank == 2 && comes == "for the plan":
					var b []byte
					if err := collective.BroadcastObject(t.Context(), group, &b, 0); err != nil {
						t.Error(err)
					}
					return
				case rank == 2:
					g, err := gather.New(group, &gather.Options{Manifest: f.m, Spool: t.TempDir(), Source: func(_, uid uint64) (store.Store, string) { return f.from, key(uid) }})
					if err == nil {
						_, err = g.Gather(t.Context(), &f.plan)
					}
					if err != nil {
						t.Error(err)
					}
					return
				}
				got := f.rank(t, group, apply.NewMem(f.m), t.TempDir(), apply.Options{Replicated: true})
				if !errors.Is(got.err, gather.ErrAborted) && comes != "for the result" || got.err == nil {
					t.Errorf("it comes %s: rank %d has %v, expected ErrAborted", comes, rank, got.err)
				}
				if got.weights != "" && got.weights != hash(apply.NewMem(f.m)) {
					t.Errorf("it comes %s: rank %d has updated its model", comes, rank)
				}
			})
		}
		wg.Wait()
		t.Logf("it comes %s: the others had aborted after %v, with a timeout of 2 s", comes, time.Since(begin))
		for _, g := range gs {
			g.Close()
		}
	}
}

// TestStoresWords: an ETag of 300 KB that is no text, and an error that quotes one, do
// not keep the records from the other ranks.
func TestStoresWords(t *testing.T) {
	f := newFixture(t, codec.DefaultConfig(), uids(1, 6)...)
	want := f.run(t, 1)[0]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k := strings.TrimPrefix(r.URL.Path, "/")
		o, err := f.mem.Open(r.Context(), k, store.Get{})
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		b, _ := io.ReadAll(o.Body)
		w.Header().Set("ETag", strings.Repeat("\xff\xfe", 150<<10))
		w.Write(b)
	}))
	t.Cleanup(s.Close)
	var err error
	if f.from, err = store.NewHTTP(s.URL, nil); err != nil {
		t.Fatal(err)
	}
	f.put(t, 7, []byte(strings.Repeat("\xff", 5000)))
	f.plan.Intended = uids(1, 7)
	for rank, got := range f.run(t, 3) {
		if got.err != nil || got.weights != want.weights || got.result.Reasons[7] != outcome.BadFormat {
			t.Errorf("rank %d: %v, expected the weights without the seventh peer", rank, got.err)
		} else if n := len(got.json); n > 20_000 || !utf8.ValidString(got.json) {
			t.Errorf("rank %d: the result has %d bytes", rank, n)
		}
	}
}

// FuzzPlan: what ParsePlan takes needs no mending.
func FuzzPlan(f *testing.F) {
	p := gather.Plan{Window: 1, Intended: []uint64{3, 1}, Reserves: []uint64{2}, Timeout: 1}
	b, err := p.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := gather.ParsePlan(b)
		if err != nil {
			return
		}
		again := *p
		if err := again.Normalize(); err != nil || again.Digest() != p.Digest() {
			t.Fatalf("%+v became %+v: %v", p, again, err)
		}
	})
}
