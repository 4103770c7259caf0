package enginetest

import (
	"fmt"
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
)

// randomPrograms runs generated programs, each in several ways: with every result kept,
// so that each instruction can be checked on its own operands; again, with the plan that
// exists now; with other scalars; with only the last results kept, so that the engine may
// fuse, reuse memory and leave out; and with its inputs donated.
func (s *suite) randomPrograms(t *testing.T) {
	var n tally
	t.Logf("%d programs from seed %d", s.o.Programs, s.o.Seed)
	for k := range s.o.Programs {
		seed := s.o.Seed + uint64(k)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { s.randomProgram(t, seed, &n) })
	}
	n.check(t)
}

// tally counts elements that were compared, and those that were excluded because right
// engines may disagree about them.
type tally struct{ compared, skipped int }

func (n *tally) check(t *testing.T) {
	t.Helper()
	t.Logf("%d elements compared, %d skipped as ill-conditioned", n.compared, n.skipped)
	if n.compared > 10000 && n.skipped > n.compared/4 {
		t.Errorf("%d elements were skipped as ill-conditioned and only %d compared", n.skipped, n.compared)
	}
}

func (s *suite) randomProgram(t *testing.T, seed uint64, n *tally) {
	p := recorded(t, func(s *tensor.Session) []*tensor.Tensor { return Generate(s, seed, 40) })
	d := s.driver(t)
	hits := s.hits(d.e)

	all := p.flags(every, false)
	first := d.results(all)
	if !d.checkEach(all, first) {
		t.Fatalf("the program of seed %d:\n%v", seed, all.p)
	}
	other := all.otherScalars()
	d.checkEach(other, d.results(other))
	d.same("run again after other scalars", d.results(all), first)

	few := p.flags(nil, false)
	kept := d.results(few)
	d.checkWhole(few, kept, seed, n)
	d.same("run again", d.results(few), kept)
	donated := d.results(p.flags(nil, true))
	d.same("run on donated inputs", donated, kept)
	if s.o.PlanHits != nil && s.hits(d.e) < hits+3 {
		t.Errorf("3 programs were run again and the engine counts %d hits", s.hits(d.e)-hits)
	}
	if t.Failed() {
		t.Logf("the program of seed %d:\n%v", seed, few.p)
	}
}

func (s *suite) hits(e tensor.Engine) uint64 {
	if s.o.PlanHits == nil {
		return 0
	}
	return s.o.PlanHits(e)
}

// results runs p on fresh uploads and returns the results that it keeps, in the order of
// the instructions; nil stands for the others. It checks that inputs are as they were, or
// gone if they were donated.
func (d *driver) results(p *program) []*array {
	d.t.Helper()
	ids, inputs := d.run(p)
	kept := p.kept()
	var want []uint64
	for _, i := range kept {
		want = append(want, ids[i])
	}
	out := make([]*array, len(p.p.Instrs))
	for k, a := range d.fetch(want...) {
		out[kept[k]] = a
	}
	for k, e := range p.p.Externals {
		if e.Donated {
			d.gone("a donated input", inputs[k])
		} else {
			d.holds("an input", inputs[k], p.inputs[k])
		}
	}
	d.must(&tensor.Batch{Base: d.next, Frees: append(want, inputs...)})
	return out
}

// same fails unless both runs gave the same bits.
func (d *driver) same(what string, got, want []*array) {
	d.t.Helper()
	for i := range want {
		if want[i] == nil {
			continue
		}
		if !equal(d.t, got[i], want[i], nil, "%s, result %d", what, i) {
			return
		}
	}
}

// checkEach compares every instruction's result with the reference on the engine's own
// operands.
func (d *driver) checkEach(p *program, results []*array) bool {
	d.t.Helper()
	for i := range p.p.Instrs {
		c := callOf(p.p, i, results, p.inputs, p.scalars)
		want, tol, err := bound(c, uint64(i))
		if err != nil {
			d.t.Errorf("instruction %d: %v", i, err)
			return false
		}
		if !equal(d.t, results[i], want, tol, "%%%d = %v of %s %v:", i, c.op, c.inputs(), c.ints) {
			return false
		}
	}
	return true
}

// disturbed is the number of noisy runs that measure the distance of right results.
const disturbed = 8

// noiseOf returns the noise of the k-th of them: by one unit in the first, by more in the
// later ones, so that a result near a threshold changes in at least one. The last but one
// is an earlier one with signs reversed: where a sum is nothing but noise, a result that
// depends on its sign changes in one of these two.
func noiseOf(seed uint64, k int) *noise {
	n := &noise{key: data.Hash(seed, uint64(k)), factor: float64(1 + k)}
	if k == disturbed-2 {
		n.key, n.turned = data.Hash(seed, uint64(k-2)), true
	}
	return n
}

// checkWhole compares the kept results with the reference's, within the distance that
// noise in every operation of the program makes.
func (d *driver) checkWhole(p *program, results []*array, seed uint64, n *tally) {
	d.t.Helper()
	want, err := interpret(p.p, p.inputs, p.scalars, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	noisy := noisyRuns(seed, func(n *noise) []*array {
		out, err := interpret(p.p, p.inputs, p.scalars, n)
		if err != nil {
			d.t.Fatal(err)
		}
		return out
	})
	for _, i := range p.kept() {
		if !n.equal(d.t, results[i], want[i], noisy, i, "with few results kept, %%%d = %v", i, p.p.Instrs[i].Op) {
			return
		}
	}
}

// noisyRuns returns the results of the noisy runs.
func noisyRuns(seed uint64, run func(n *noise) []*array) (noisy [disturbed][]*array) {
	for k := range noisy {
		noisy[k] = run(noiseOf(seed, k))
	}
	return noisy
}

// equal is like the function, with a tolerance from results i of noisy runs: twice the
// largest distance from want. Elements on which these differ in the first two digits, or
// at all for integers, are excluded.
func (n *tally) equal(t *testing.T, got, want *array, noisy [disturbed][]*array, i int, format string, args ...any) bool {
	t.Helper()
	w, g := want.clone(), got.clone()
	if got.dt != want.dt || !got.sh.Equal(want.sh) {
		return equal(t, got, want, nil, format, args...)
	}
	tol := make([]float64, len(want.f))
	for k := range want.len() {
		ok := true
		if !want.dt.IsFloat() {
			for _, run := range noisy {
				ok = ok && run[i].i[k] == want.i[k]
			}
			if !ok {
				g.i[k] = w.i[k]
			}
		} else {
			x := want.f[k]
			tol[k] = 2*roundings*ulp(want.dt)*math.Abs(x) + 0x1p-100
			if want.dt.IsStorage() {
				// a cast float: the noise shows on which of them right engines differ,
				// and by how much
				tol[k] = 0
			}
			for _, run := range noisy {
				if y := run[i].f[k]; y != x && !(y != y && x != x) {
					tol[k] = max(tol[k], 2*math.Abs(y-x))
				}
			}
			if ok = x != x || math.IsInf(x, 0) || tol[k] < 1e-2*max(math.Abs(x), 1e-3); !ok {
				g.f[k] = w.f[k]
			}
		}
		if ok {
			n.compared++
		} else {
			n.skipped++
		}
	}
	return equal(t, g, w, tol, format, args...)
}

// otherScalars returns p with other numbers where they are only added, multiplied,
// compared with or filled in, among floats, so that any number is valid.
func (p *program) otherScalars() *program {
	q := &program{p: p.p, inputs: p.inputs, scalars: append([]float64(nil), p.scalars...)}
	free := make([]bool, len(p.scalars))
	for i := range free {
		free[i] = true
	}
	for i, in := range p.p.Instrs {
		for k, r := range p.p.ArgsOf(i) {
			j, ok := r.Scalar()
			if !ok {
				continue
			}
			switch in.Op {
			case tensor.OpAdd, tensor.OpSub, tensor.OpMul, tensor.OpMax, tensor.OpMin, tensor.OpWhere, tensor.OpFull, tensor.OpPad:
				free[j] = free[j] && in.DType.IsFloat()
			case tensor.OpRand, tensor.OpRandN:
				free[j] = free[j] && k == 0 // the seed
			default:
				free[j] = false
			}
		}
	}
	for j := range free {
		if free[j] {
			q.scalars[j] = math.Abs(q.scalars[j]) + 1
		}
	}
	return q
}

// randomSessions runs generated code through sessions, with reads and flushes in between,
// so that names are assigned, freed and kept across programs: on the engine twice, and on
// the reference.
func (s *suite) randomSessions(t *testing.T) {
	var n tally
	for k := range max(s.o.Programs/4, 1) {
		seed := s.o.Seed + uint64(k)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			got := history(t, s.start(t), seed)
			again := history(t, s.start(t), seed)
			want := history(t, newReference(nil), seed)
			noisy := noisyRuns(seed, func(n *noise) []*array { return history(t, newReference(n), seed) })
			for i := range want {
				equal(t, again[i], got[i], nil, "read %d of a second session", i)
				if !n.equal(t, got[i], want[i], noisy, i, "read %d", i) {
					return
				}
			}
		})
	}
	n.check(t)
}

// history returns the values that one generated session reads.
func history(t *testing.T, e tensor.Engine, seed uint64) []*array {
	t.Helper()
	s := tensor.NewSession(e, &tensor.SessionOptions{Seed: seed})
	defer s.Close()
	g := newGenerator(s, seed)
	var reads []*array
	for range 8 {
		for range 5 + g.n(15) {
			g.step()
		}
		if g.chance(3) {
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for range 1 + g.n(3) {
			reads = append(reads, mustRead(t, g.pool[g.n(len(g.pool))]))
		}
	}
	for _, x := range g.pool {
		reads = append(reads, mustRead(t, x))
	}
	return reads
}
