package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// CollectiveOptions choose what the scenario collective times. The zero value is
// everything that it has bars for.
type CollectiveOptions struct {
	Ranks []int // nil: 2 and 4
	// Bytes of a rank's buffer; nil: 4 B, 1 KiB, 64 KiB, 1 MiB, 16 MiB and 64 MiB.
	Sizes  []int
	Ops    []string // of CollectiveOps; nil: all
	DTypes []string // f32, f16, bf16; nil: all of two ranks, f32 of more
	// Those whose names begin so: ringside, C, "Open MPI", Gloo; nil: all that are
	// installed.
	Sides []string
	// 2: between two network namespaces, with Ranks divided among them; needs root. 0:
	// one host.
	Hosts int
}

// CollectiveOps lists the collectives that are timed.
func CollectiveOps() []string {
	return []string{"allreduce", "reducescatter", "allgather", "broadcast", "barrier"}
}

// collectiveSizes are those that the limits are for, in bytes.
func collectiveSizes() []int { return []int{4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20} }

// leastBytes is what a buffer has at least: a float for each of the ranks that it is
// divided among.
func leastBytes(op string, ranks int) int {
	if op == "allgather" || op == "reducescatter" {
		return 4 * ranks
	}
	return 0
}

func collectiveTypes() []string { return []string{"f32", "f16", "bf16"} }

const (
	collectiveRounds = 5
	budgetMS         = 20 // of one case in one round
	smallCall        = 1 << 10
	largeCall        = 64 << 10
)

// collectiveCase is one call that is timed. It is what all sides are told, in the form
// "allreduce:f32:1024:registered".
type collectiveCase struct {
	ranks int
	op    string
	dtype string
	// Of the whole buffer; all-gather and reduce-scatter divide it among the ranks.
	bytes   int
	private bool // memory that the library didn't allocate
}

func (c collectiveCase) String() string {
	memory := "registered"
	if c.private {
		memory = "private"
	}
	return fmt.Sprintf("%s:%s:%d:%s", c.op, c.dtype, c.bytes, memory)
}

// name is for people.
func (c collectiveCase) name(side string) string {
	words := []string{side, fmt.Sprint(c.ranks, " ranks"), c.op}
	if c.op != "barrier" {
		words = append(words, c.dtype, sizeName(c.bytes))
	}
	if c.private {
		words = append(words, "private")
	}
	return strings.Join(words, ", ")
}

// sizeName is as in 4 B, 64 KiB.
func sizeName(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprint(n>>20, " MiB")
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprint(n>>10, " KiB")
	}
	return fmt.Sprint(n, " B")
}

// cases lists what is timed with so many ranks.
func (o *CollectiveOptions) cases(ranks int) (all []collectiveCase) {
	sizes, ops, dtypes := o.Sizes, o.Ops, o.DTypes
	if sizes == nil {
		sizes = collectiveSizes()
	}
	if ops == nil {
		ops = CollectiveOps()
	}
	if dtypes == nil {
		// No limit is for the others, and no peer has them.
		if dtypes = collectiveTypes(); ranks != 2 {
			dtypes = dtypes[:1]
		}
	}
	for _, op := range ops {
		if op == "barrier" {
			all = append(all, collectiveCase{ranks, op, "f32", 0, false})
			continue
		}
		for _, dtype := range dtypes {
			if dtype != "f32" && op != "allreduce" {
				continue // moving has no type, and the folds are the same
			}
			for _, n := range sizes {
				n = max(n, leastBytes(op, ranks))
				all = append(all, collectiveCase{ranks, op, dtype, n, false})
				if op == "allreduce" && dtype == "f32" && ranks == 2 {
					all = append(all, collectiveCase{ranks, op, dtype, n, true})
				}
			}
		}
	}
	return all
}

// outcome is what a side says of a case: what a call took in the slowest rank, in µs, and
// how many elements were wrong.
type outcome struct {
	micros, wrong float64
	calls         int
}

// collectiveSide is one implementation.
type collectiveSide struct {
	name string
	can  func(c collectiveCase) bool
	run  func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error)
}

// wants says whether the side of that name, or one whose name begins so, is to be
// measured.
func (o *CollectiveOptions) wants(name string) bool {
	return o.Sides == nil || slices.ContainsFunc(o.Sides, func(s string) bool { return strings.HasPrefix(name, s) })
}

// cell is where a side's numbers of a case are kept.
type cell struct {
	collectiveCase
	side string
}

// collectiveBook holds what was measured.
type collectiveBook struct {
	cells map[cell]*series
	wrong map[cell]float64
	order []cell
}

func newCollectiveBook() *collectiveBook {
	return &collectiveBook{cells: map[cell]*series{}, wrong: map[cell]float64{}}
}

func (b *collectiveBook) add(c collectiveCase, side string, got outcome) {
	at := cell{c, side}
	s := b.cells[at]
	if s == nil {
		s = &series{name: c.name(side), unit: "µs"}
		b.cells[at], b.order = s, append(b.order, at)
	}
	s.n = got.calls
	s.add(got.micros)
	b.wrong[at] += got.wrong
}

// page is one round: what each side said of each case.
type page map[cell]outcome

// measureRound has every side measure once, at a placement of the cores if there is one
// to choose.
func measureRound(ctx context.Context, o *Options, ranks int, cases []collectiveCase, sides []collectiveSide, p *placement) (page, error) {
	round := page{}
	for _, s := range sides {
		began := time.Now()
		var mine []collectiveCase
		for _, c := range cases {
			if s.can(c) {
				mine = append(mine, c)
			}
		}
		if len(mine) == 0 {
			continue
		}
		got, err := p.run(ctx, s, ranks, mine)
		if err == nil && len(got) != len(mine) {
			err = fmt.Errorf("%d cases measured, expected %d", len(got), len(mine))
		}
		if err != nil {
			return nil, fmt.Errorf("bench: %s, %d ranks: %w", s.name, ranks, err)
		}
		for i, c := range mine {
			round[cell{c, s.name}] = got[i]
		}
		o.progress("side", s.name, "ranks", ranks, "cases", len(mine), "seconds", time.Since(began).Seconds())
	}
	return round, nil
}

// bind adds a round, in the order of sides and cases.
func (b *collectiveBook) bind(round page, cases []collectiveCase, sides []collectiveSide) {
	for _, s := range sides {
		for _, c := range cases {
			if got, ok := round[cell{c, s.name}]; ok {
				b.add(c, s.name, got)
			}
		}
	}
}

// runCollective times collectives beside a floor in C, Open MPI and Gloo.
func runCollective(ctx context.Context, o *Options) (*Report, error) {
	dir, err := os.MkdirTemp("", "ringside-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if o.Collective.Hosts > 1 {
		return runCollectiveHosts(ctx, o, dir)
	}
	sides, err := collectiveSides(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	b := newCollectiveBook()
	ranks := o.Collective.Ranks
	if ranks == nil {
		ranks = []int{2, 4}
	}
	line, err := buildFloor(ctx, dir)
	if err != nil && !errors.Is(err, errNoFloor) {
		return nil, err
	}
	near := &series{name: "cache line in C, cores near", unit: "ns"}
	far := &series{name: "cache line in C, cores far", unit: "ns"}
	mixed := &series{name: "rounds in which sides that are compared were near in part and in part far", unit: ""}
	rounds := o.rounds(collectiveRounds)
	for _, n := range ranks {
		cases := o.Collective.cases(n)
		for done, again := 0, rounds/2; done < rounds; {
			p := &placement{again: min(3, rounds-1)}
			before, err := lineTime(ctx, o, line)
			if err != nil {
				return nil, err
			}
			round, err := measureRound(ctx, o, n, cases, sides, p)
			if err != nil {
				return nil, err
			}
			after, err := lineTime(ctx, o, line)
			if err != nil {
				return nil, err
			}
			moved := (quantile(before, 0.5) < nearNS) != (quantile(after, 0.5) < nearNS)
			if (moved || p.mixed()) && again > 0 {
				// The cores are not where they were: what was measured before is not to
				// be compared with the rest.
				again--
				continue
			}
			if p.mixed() {
				mixed.add(1)
			}
			done++
			o.progress("round", done, "of", rounds, "ranks", n)
			b.bind(round, cases, sides)
			if len(before) > 0 && quantile(before, 0.5) < nearNS {
				near.add(before...)
			} else if len(before) > 0 {
				far.add(before...)
			}
		}
	}
	r := b.report("collective")
	for _, s := range []*series{near, far} {
		if len(s.rounds) > 0 {
			r.measured(s)
		}
	}
	if len(mixed.rounds) > 0 {
		mixed.rounds = [][]float64{{float64(len(mixed.rounds))}}
		r.measured(mixed)
	}
	for _, n := range ranks {
		b.bars(r, n)
	}
	return r, nil
}

// report lists the measurements and how they are shown.
func (b *collectiveBook) report(name string) *Report {
	r := &Report{Bench: name}
	r.table = func(w io.Writer) error {
		if err := b.table(w); err != nil {
			return err
		}
		for _, m := range r.Measurements[len(b.order):] {
			fmt.Fprintf(w, "\n%s: %s %s\n", m.Case, figure(m.Median), m.Unit)
		}
		return nil
	}
	rank := func(c cell) []int {
		private := 0
		if c.private {
			private = 1
		}
		return []int{c.ranks, slices.Index(CollectiveOps(), c.op), private, slices.Index(collectiveTypes(), c.dtype), c.bytes}
	}
	// Sides as they came.
	slices.SortStableFunc(b.order, func(x, y cell) int { return slices.Compare(rank(x), rank(y)) })
	for _, at := range b.order {
		r.measured(b.cells[at])
	}
	return r
}
