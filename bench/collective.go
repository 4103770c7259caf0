package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/net/nettest"
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
	run  func(ranks int, cases []collectiveCase) []outcome
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

// measured is what a side said of a case.
type measured struct {
	cell
	outcome
}

// measureCases has every side measure once, at a placement of the cores if there is one
// to choose.
func measureCases(r *run, ranks int, cases []collectiveCase, sides []collectiveSide, p *placement) (round []measured) {
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
		within(fmt.Sprintf("bench: %s, %d ranks", s.name, ranks), func() {
			got := p.run(s, ranks, mine)
			if len(got) != len(mine) {
				check(fmt.Errorf("%d cases measured, expected %d", len(got), len(mine)))
			}
			for i, c := range mine {
				round = append(round, measured{cell{c, s.name}, got[i]})
			}
		})
		r.progress("side", s.name, "ranks", ranks, "cases", len(mine), "seconds", time.Since(began).Seconds())
	}
	return round
}

// runCollective times collectives beside a floor in C, Open MPI and Gloo: on one host, or
// all-reduces and barriers of ranks that are divided among two.
func runCollective(r *run) {
	choice, near := r.Collective, true
	var hosts []*nettest.Host
	var line tool
	ranks := []int{2, 4}
	if choice.Hosts > 1 {
		r.Bench, near = "collective-hosts", false
		pair := must(nettest.Pair(r.ctx))
		for _, h := range pair {
			hosts = append(hosts, h)
			r.atEnd(func() error {
				h.Close()
				return nil
			})
		}
		if choice.Ops == nil {
			choice.Ops = []string{"allreduce", "barrier"}
		}
		if choice.DTypes == nil {
			choice.DTypes = []string{"f32"}
		}
		ranks = []int{4}
	} else {
		line = r.floor()
	}
	if choice.Ranks != nil {
		ranks = choice.Ranks
	}
	sides := collectiveSides(r, hosts)
	b := newCollectiveBook()
	mixed := &series{name: "rounds in which sides that are compared were near in part and in part far"}
	traffic := &series{name: "sent by a host over 2 S", unit: "ratio", n: 1}
	counted := hosts != nil && choice.wants(sideOurs) && slices.Contains(choice.Ops, "allreduce") &&
		(choice.Sizes == nil || slices.Contains(choice.Sizes, trafficBytes))
	rounds := r.rounds(collectiveRounds)
	for _, n := range ranks {
		cases, done := choice.cases(n), 0
		r.repeat(line, rounds, rounds/2, func() (keep func(), bad bool) {
			p := &placement{again: min(3, rounds-1), off: !near}
			round := measureCases(r, n, cases, sides, p)
			return func() {
				if p.mixed() {
					mixed.add(1)
				}
				for _, m := range round {
					b.add(m.collectiveCase, m.side, m.outcome)
				}
				if counted {
					traffic.add(hostTraffic(r, hosts, n))
				}
				done++
				r.progress("round", done, "of", rounds, "ranks", n)
			}, p.mixed()
		})
	}
	b.report(r.Report)
	if len(mixed.rounds) > 0 {
		r.single(mixed.name, "", float64(len(mixed.rounds)))
	}
	if counted {
		r.measured(traffic)
	}
	for _, n := range ranks {
		if hosts == nil {
			b.bars(r.Report, n)
		} else {
			b.hostBars(r.Report, n)
		}
	}
	if counted {
		r.atMost("tcp_traffic_over_minimum", traffic.median(), maxTraffic)
	}
}

// report adds the measurements to r, and how they are shown.
func (b *collectiveBook) report(r *Report) {
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
}
