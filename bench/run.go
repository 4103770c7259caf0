package bench

import (
	"context"
	"os"
	"time"
)

// nearNS separates the two placements that a hypervisor gives two cores, by the round
// trip of a cache line: near, with a shared cache, and far. See "near and far cores" in
// bench/results/README.md.
const nearNS = 200

// run is a scenario under way.
type run struct {
	*Options
	*Report
	ctx  context.Context
	ends []func() error // of what was started, in this order

	near, far series // of a cache line, by where the cores were
}

// atEnd has f called when the scenario ends, before those that were given earlier.
func (r *run) atEnd(f func() error) { r.ends = append(r.ends, f) }

// tempDir makes a folder that is there until the scenario ends.
func (r *run) tempDir() string {
	dir := must(os.MkdirTemp("", "ringside-bench-"))
	r.atEnd(func() error { return os.RemoveAll(dir) })
	return dir
}

// side is one way to do the same thing. run measures it once and returns a number, or one
// of every sample that it took; n is count by the scale.
type side struct {
	*series
	count int
	run   func(n int) []float64
}

// sampled makes a side.
func sampled(name, unit string, count int, run func(n int) []float64) side {
	return side{&series{name: name, unit: unit}, count, run}
}

// number makes a side that measures one number, an average of n.
func number(name, unit string, n int, measure func() float64) side {
	return side{&series{name: name, unit: unit, n: n}, 0, func(int) []float64 { return []float64{measure()} }}
}

// turns say how the sides of a measurement take turns.
type turns struct {
	rounds int
	warm   bool // one more round comes first, which is not counted
	blocks int  // turns of each side in a round; 0: 1
	line   tool // times a cache line before and after each round, if not nil
}

// measure measures every side in every round and reports them.
func (r *run) measure(t turns, sides ...side) {
	once := func() [][]float64 {
		got := make([][]float64, len(sides))
		for range max(t.blocks, 1) {
			for i, s := range sides {
				check(r.ctx.Err())
				within(s.name, func() { got[i] = append(got[i], s.run(r.work(s.count))...) })
			}
		}
		return got
	}
	if t.warm {
		once()
	}
	r.repeat(t.line, t.rounds, t.rounds, func() (keep func(), bad bool) {
		got := once()
		return func() {
			for i, s := range sides {
				s.add(got[i]...)
			}
		}, false
	})
	for _, s := range sides {
		r.measured(s.series)
	}
}

// repeat runs n rounds and keeps each. With a line, which is the floor, a cache line goes
// back and forth in C before and after each. A round that is bad, or in which the cores
// were moved, is run once more instead of being kept, up to so many times in all. The
// line's own times are reported when the scenario ends, apart for cores that are near and
// far.
func (r *run) repeat(line tool, n, again int, round func() (keep func(), bad bool)) {
	probe := func() []float64 {
		if line == nil {
			return nil
		}
		return line.run(r.ctx, "probe", r.work(20_000))
	}
	isNear := func(x []float64) bool { return quantile(x, 0.5) < nearNS }
	for done := 0; done < n; {
		before := probe()
		keep, bad := round()
		after := probe()
		if (bad || isNear(before) != isNear(after)) && again > 0 {
			again--
			continue
		}
		done++
		keep()
		for _, x := range [][]float64{before, after} {
			switch {
			case x == nil:
			case isNear(x):
				r.near.add(x...)
			default:
				r.far.add(x...)
			}
		}
	}
}

// samples calls once n times and returns what each call took, in the unit. After each
// call it calls what is in then, which does not count.
func (r *run) samples(n int, unit time.Duration, once func(), then ...func()) []float64 {
	out := make([]float64, n)
	for i := range out {
		check(r.ctx.Err())
		start := time.Now()
		once()
		out[i] = float64(time.Since(start)) / float64(unit)
		for _, f := range then {
			f()
		}
	}
	return out
}

// micros and millis are samples' units of time that sides have.
const (
	micros = time.Microsecond
	millis = time.Millisecond
)
