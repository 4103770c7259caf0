package collective

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
)

var seedFlag = flag.Uint64("conformance.seed", 0, "seed of what is sampled and delayed; 0: another one each run")

func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-conformance.seed %d", s)
	return s
}

// guarded is how many bytes behind a destination must stay as they were.
const guarded = 64

// caseRun is one rank's run of one case: where its buffers come from, and what they hold.
type caseRun struct {
	g      *Group
	arenas *arenas
	shared bool // buffers in registered memory
	// elements from the arena's start, so that not everything begins at a cache line
	offset int
}

// arenas are a rank's buffers, which all cases use again.
type arenas struct{ plain, shared [3][]byte }

func newArenas(g *Group, n int) (*arenas, error) {
	a := &arenas{}
	for i := range a.plain {
		a.plain[i] = bytesOf(make([]float64, n/8+16))
		b, err := Alloc[float64](g, n/8+16)
		if err != nil {
			return nil, err
		}
		a.shared[i] = bytesOf(b)
	}
	return a, nil
}

// buffer is count elements in arena i, and the guard behind them.
func buffer[T Element](c *caseRun, i, count int) (buf []T, guard []byte) {
	arena := c.arenas.plain[i]
	if c.shared {
		arena = c.arenas.shared[i]
	}
	size := dtypeOf[T]().Size()
	all := arena[c.offset*size : (c.offset+count)*size+guarded]
	guard = all[count*size:]
	for i := range guard {
		guard[i] = 0xa5
	}
	return elements[T](all)[:count:count], guard
}

// compare checks a result and that nothing was written behind it.
func compare[T Element](got, want []T, guard []byte) error {
	if !bytes.Equal(bytesOf(got), bytesOf(want)) {
		for i := range got {
			if got[i] != want[i] {
				return fmt.Errorf("element %d of %d is %v, expected %v", i, len(got), got[i], want[i])
			}
		}
		return fmt.Errorf("bits differ") // of equal values: -0, or NaN
	}
	for i, b := range guard {
		if b != 0xa5 {
			return fmt.Errorf("the byte %d behind the result was written", i)
		}
	}
	return nil
}

// conformanceCase is a call with arguments; run makes it on one rank and checks what that
// rank got.
type conformanceCase struct {
	name string
	run  func(ctx context.Context, c *caseRun) error
}

// truth is what is expected of calls with the same data, computed when first asked for.
type truth[T Element] struct {
	once   sync.Once
	inputs [][]T
	folded []T
}

func (tr *truth[T]) get(l layout, op Op, count int, fold bool) *truth[T] {
	tr.once.Do(func() {
		for r := range l.hostOf {
			tr.inputs = append(tr.inputs, input[T](op, count, r))
		}
		if fold {
			tr.folded = reference(l, op, tr.inputs)
		}
	})
	return tr
}

// cuts divides count into n parts, some of them empty.
func cuts(count, n int) []int {
	rng := rand.New(rand.NewPCG(uint64(count), uint64(n)))
	out := make([]int, n)
	left := count
	for i := range n - 1 {
		if rng.IntN(4) > 0 {
			out[i] = rng.IntN(left + 1)
		}
		left -= out[i]
	}
	out[n-1] = left
	return out
}

var conformanceCounts = []int{0, 1, 3, 1000, 65537}

// conformanceCases is the table for one world: every primitive, dtype, op and count, in
// place and not.
func conformanceCases(l layout) []conformanceCase {
	var out []conformanceCase
	out = append(out, casesOf[float64](l)...)
	out = append(out, casesOf[float32](l)...)
	out = append(out, casesOf[Float16](l)...)
	out = append(out, casesOf[BFloat16](l)...)
	out = append(out, casesOf[int64](l)...)
	out = append(out, casesOf[int32](l)...)
	out = append(out, casesOf[uint8](l)...)
	return append(out, conformanceCase{"barrier", func(ctx context.Context, c *caseRun) error { return c.g.Barrier(ctx) }})
}

func casesOf[T Element](l layout) []conformanceCase {
	n := len(l.hostOf)
	var out []conformanceCase
	add := func(what string, op string, count int, inPlace bool, f func(ctx context.Context, c *caseRun) error) {
		name := fmt.Sprintf("%s %v %s x %d", what, dtypeOf[T](), op, count)
		if inPlace {
			name += " in place"
		}
		out = append(out, conformanceCase{name, f})
	}
	for _, count := range conformanceCounts {
		counts := cuts(count, n)
		for _, op := range opsOf[T]() {
			tr := &truth[T]{}
			for _, inPlace := range []bool{false, true} {
				add("all-reduce", op.String(), count, inPlace, func(ctx context.Context, c *caseRun) error {
					return checkAllReduce(ctx, c, tr.get(l, op, count, true), op, inPlace)
				})
				add("reduce-scatter", op.String(), count, inPlace, func(ctx context.Context, c *caseRun) error {
					return checkReduceScatter(ctx, c, tr.get(l, op, count, true), op, counts, inPlace)
				})
				for _, root := range roots(n) {
					add(fmt.Sprintf("reduce to %d", root), op.String(), count, inPlace, func(ctx context.Context, c *caseRun) error {
						return checkReduce(ctx, c, tr.get(l, op, count, true), op, root, inPlace)
					})
				}
			}
		}
		tr := &truth[T]{}
		for _, root := range roots(n) {
			add(fmt.Sprintf("broadcast from %d", root), "", count, true, func(ctx context.Context, c *caseRun) error {
				return checkBroadcast(ctx, c, tr.get(l, Sum, count, false), root)
			})
		}
		for _, even := range []bool{true, false} {
			counts, word := counts, "uneven "
			if even {
				word = ""
				counts = make([]int, n)
				for i := range counts {
					counts[i] = count / n
				}
			}
			for _, inPlace := range []bool{false, true} {
				add(word+"all-gather", "", count, inPlace, func(ctx context.Context, c *caseRun) error {
					return checkAllGather(ctx, c, tr.get(l, Sum, count, false), counts, even, inPlace)
				})
				for _, root := range roots(n) {
					add(fmt.Sprintf("%sgather to %d", word, root), "", count, inPlace, func(ctx context.Context, c *caseRun) error {
						return checkGather(ctx, c, tr.get(l, Sum, count, false), counts, even, root, inPlace)
					})
					add(fmt.Sprintf("%sscatter from %d", word, root), "", count, inPlace, func(ctx context.Context, c *caseRun) error {
						return checkScatter(ctx, c, tr.get(l, Sum, count, false), counts, even, root, inPlace)
					})
				}
			}
			add(word+"all-to-all", "", count, false, func(ctx context.Context, c *caseRun) error {
				return checkAllToAll(ctx, c, tr.get(l, Sum, count, false), even)
			})
		}
		add("ring of sends", "", count, false, func(ctx context.Context, c *caseRun) error {
			return checkRing(ctx, c, tr.get(l, Sum, count, false))
		})
	}
	return out
}

// roots is the first, a middle and the last rank.
func roots(n int) []int {
	switch n {
	case 1:
		return []int{0}
	case 2:
		return []int{0, 1}
	}
	return []int{0, n / 2, n - 1}
}

// world is groups of one size on one transport.
type world struct {
	name   string
	groups []*Group
	cases  []conformanceCase
	arenas []*arenas
}

func newWorld(t *testing.T, transport string, hostOf []int, cases []conformanceCase) *world {
	t.Helper()
	groups, err := openWorld(transport, hostOf, nil)
	if err != nil {
		t.Fatalf("%s of %v: %v", transport, hostOf, err)
	}
	w := &world{name: fmt.Sprintf("%s, %d ranks %v", transport, len(hostOf), hostOf), groups: groups, cases: cases}
	t.Cleanup(func() { closeAll(t, groups) })
	for _, g := range groups {
		a, err := newArenas(g, 8*(conformanceCounts[len(conformanceCounts)-1]+len(hostOf)+16))
		if err != nil {
			t.Fatal(err)
		}
		w.arenas = append(w.arenas, a)
	}
	return w
}

// openWorld makes groups that fold as hostOf says: composed in memory, all on one host,
// all over TCP, or as they are.
func openWorld(transport string, hostOf []int, o *Options) ([]*Group, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if transport == "memory" {
		return memWorld(hostOf), nil
	}
	names := make([]string, len(hostOf))
	switch transport {
	case "local":
		c.Layout = hostOf
		return localOn(names, false, &c)
	case "tcp":
		c.Layout = hostOf
		for i := range names {
			names[i] = fmt.Sprintf("host-%d", i)
		}
		return localOn(names, true, &c)
	}
	for i, h := range hostOf {
		names[i] = fmt.Sprintf("host-%d", h)
	}
	return localOn(names, false, &c)
}

func closeAll(t *testing.T, groups []*Group) {
	t.Helper()
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() {
			if err := g.Close(); err != nil {
				t.Errorf("rank %d: close: %v", g.Rank(), err)
			}
		})
	}
	wg.Wait()
}

// each runs f on every rank at the same time and returns the errors by rank.
func each(groups []*Group, f func(g *Group) error) []error {
	errs := make([]error, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() { errs[i] = f(g) })
	}
	wg.Wait()
	return errs
}

// all is each whose errors are the test's.
func all(t *testing.T, groups []*Group, f func(g *Group) error) {
	t.Helper()
	for r, err := range each(groups, f) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// run makes the cases that pick chooses on every rank and returns how many.
func (w *world) run(t *testing.T, s uint64, pick func(i int) bool) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var ran atomic.Int64
	each(w.groups, func(g *Group) error {
		for i, c := range w.cases {
			if !pick(i) {
				continue
			}
			// Registered buffers differ from rank to rank, and so does alignment.
			rng := rand.New(rand.NewPCG(s+uint64(i), uint64(g.Rank())))
			run := &caseRun{g: g, arenas: w.arenas[g.Rank()], shared: rng.IntN(2) == 0, offset: rng.IntN(4)}
			if err := c.run(ctx, run); err != nil {
				t.Errorf("%s: rank %d: %s: %v", w.name, g.Rank(), c.name, err)
				if g.Err() != nil {
					return err
				}
			}
			if g.Rank() == 0 {
				ran.Add(1)
			}
		}
		return nil
	})
	return int(ran.Load())
}

// layouts are the worlds of the table, as hosts by rank.
var layouts = [][]int{{0}, {0, 1}, {0, 0}, {0, 0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 0, 2, 1, 0, 0}}

func TestConformance(t *testing.T) {
	s := seed(t)
	n := 0
	for _, hostOf := range layouts {
		cases := conformanceCases(newLayout(hostOf))
		for _, transport := range []string{"memory", "local", "tcp", "hosts"} {
			w := newWorld(t, transport, hostOf, cases)
			share := 1.0
			switch {
			case testsize.Raced && testing.Short():
				share = 0.005
			case testsize.Sampled():
				share = 0.02
			case transport == "memory":
				share = 0.1 // slow, and not what is tested
			}
			n += w.run(t, s, func(i int) bool {
				return rand.New(rand.NewPCG(s, uint64(i))).Float64() < share
			})
		}
	}
	if n == 0 {
		t.Error("no case was among those taken")
	}
	t.Logf("%d cases", n)
}
