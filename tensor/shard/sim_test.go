package shard

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// array is a tensor's content: f of floats, n of everything else.
type array struct {
	dt tensor.DType
	sh tensor.Shape
	f  []float64
	n  []int64
}

func newArray(d tensor.DType, s tensor.Shape) *array {
	a := &array{dt: d, sh: s}
	if d.IsFloat() {
		a.f = make([]float64, s.Elems())
	} else {
		a.n = make([]int64, s.Elems())
	}
	return a
}

func (a *array) len() int { return len(a.f) + len(a.n) }

// bytes rounds and encodes.
func (a *array) bytes() []byte {
	le, b := binary.LittleEndian, []byte{}
	for k := range a.len() {
		switch a.dt {
		case tensor.F32:
			b = le.AppendUint32(b, math.Float32bits(float32(a.f[k])))
		case tensor.F64:
			b = le.AppendUint64(b, math.Float64bits(a.f[k]))
		case tensor.I32:
			b = le.AppendUint32(b, uint32(a.n[k]))
		case tensor.I64:
			b = le.AppendUint64(b, uint64(a.n[k]))
		default:
			b = append(b, byte(a.n[k]))
		}
	}
	return b
}

func decode(d tensor.DType, s tensor.Shape, b []byte) *array {
	le, a := binary.LittleEndian, newArray(d, slices.Clone(s))
	for k := range a.len() {
		switch d {
		case tensor.F32:
			a.f[k] = float64(math.Float32frombits(le.Uint32(b[4*k:])))
		case tensor.F64:
			a.f[k] = math.Float64frombits(le.Uint64(b[8*k:]))
		case tensor.I32:
			a.n[k] = int64(int32(le.Uint32(b[4*k:])))
		case tensor.I64:
			a.n[k] = int64(le.Uint64(b[8*k:]))
		default:
			a.n[k] = int64(b[k])
		}
	}
	return a
}

// rounded is a as its dtype holds it.
func (a *array) rounded() *array { return decode(a.dt, a.sh, a.bytes()) }

// set copies element j of x to element k.
func (a *array) set(k int, x *array, j int) {
	if a.dt.IsFloat() {
		a.f[k] = x.f[j]
	} else {
		a.n[k] = x.n[j]
	}
}

// fold is the elementwise fold of terms, rounded once.
func fold(op plan.Op, scale float64, terms []*array) *array {
	out := newArray(terms[0].dt, terms[0].sh)
	for k := range out.f {
		x := terms[0].f[k]
		for _, t := range terms[1:] {
			switch y := t.f[k]; op {
			case plan.Sum:
				x += y
			case plan.Prod:
				x *= y
			case plan.Max:
				x = max(x, y)
			case plan.Min:
				x = min(x, y)
			}
		}
		out.f[k] = x * scale
	}
	for k := range out.n {
		x := terms[0].n[k]
		for _, t := range terms[1:] {
			switch y := t.n[k]; op {
			case plan.Sum:
				x += y
			case plan.Prod:
				x *= y
			case plan.Max:
				x = max(x, y)
			case plan.Min:
				x = min(x, y)
			}
		}
		out.n[k] = x
	}
	return out.rounded()
}

// each calls f for every position of a shape.
func each(s tensor.Shape, f func(k int, at []int)) {
	at := make([]int, len(s))
	for k := range s.Elems() {
		f(k, at)
		for d := len(s) - 1; d >= 0; d-- {
			if at[d]++; at[d] < s[d] {
				break
			}
			at[d] = 0
		}
	}
}

func flat(s tensor.Shape, at []int) int {
	k := 0
	for d, n := range s {
		k = k*n + at[d]
	}
	return k
}

// split gives every rank its part of x. Terms of a partial tensor are its elements on one rank or another, and what changes
// nothing on the rest.
func split(m Mesh, l Layout, x *array) []*array {
	out := make([]*array, m.Size())
	for r := range out {
		start, sh := m.Local(l, x.sh, r)
		a := newArray(x.dt, sh)
		each(sh, func(k int, at []int) {
			whole := slices.Clone(at)
			for d := range whole {
				whole[d] += start[d]
			}
			j := flat(x.sh, whole)
			a.set(k, x, j)
			for d := range m {
				f, ok := l[d].Partial()
				if !ok {
					continue
				}
				mine := (j*7+j/3)%m[d].Size == m.Coord(r, d)
				a.term(k, f, mine, m[d].Size)
			}
		})
		out[r] = a.rounded()
	}
	return out
}

// term makes element k a rank's term of itself.
func (a *array) term(k int, f Fold, mine bool, ranks int) {
	if a.dt.IsFloat() {
		switch x := a.f[k]; {
		case f == Mean && mine:
			a.f[k] = x * float64(ranks)
		case mine:
		case f == Prod:
			a.f[k] = 1
		case f == Max:
			a.f[k] = x - 1
		case f == Min:
			a.f[k] = x + 1
		default:
			a.f[k] = 0
		}
		return
	}
	switch {
	case mine, a.dt == tensor.U8 && f != Sum && f != Prod: // one more or less may wrap
	case f == Prod:
		a.n[k] = 1
	case f == Max && a.dt == tensor.Bool, f == Sum:
		a.n[k] = 0
	case f == Min && a.dt == tensor.Bool:
		a.n[k] = 1
	case f == Max:
		a.n[k]--
	case f == Min:
		a.n[k]++
	}
}

// assemble is the inverse of split, and the largest number among the ranks' parts.
func assemble(t *testing.T, m Mesh, p Placed, parts []*array) (*array, float64) {
	t.Helper()
	top := 0.0
	for r, a := range parts {
		if want := m.shape(p.Layout, p.Shape, r); !a.sh.Equal(want) || a.dt != p.DType {
			t.Fatalf("rank %d has %v%v of %v%v %v, expected %v", r, a.dt, a.sh, p.DType, p.Shape, p.Layout, want)
		}
		for _, x := range a.f {
			top = max(top, math.Abs(x))
		}
	}
	for k := len(m) - 1; k >= 0; k-- { // fold along one dim after the other
		f, ok := p.Layout[k].Partial()
		if !ok {
			continue
		}
		next := slices.Clone(parts)
		for r := range parts {
			var terms []*array
			for _, g := range m.Group(r, k) {
				terms = append(terms, parts[g])
			}
			scale := 1.0
			if f == Mean {
				scale = 1 / float64(m[k].Size)
			}
			next[r] = fold(f.op(), scale, terms)
		}
		parts = next
	}
	out, seen := newArray(p.DType, p.Shape), make([]bool, p.Shape.Elems())
	for r, a := range parts {
		start, sh := m.Local(p.Layout, p.Shape, r)
		each(sh, func(k int, at []int) {
			whole := slices.Clone(at)
			for d := range whole {
				whole[d] += start[d]
			}
			j := flat(p.Shape, whole)
			if seen[j] {
				was := newArray(p.DType, tensor.Shape{})
				was.set(0, out, j)
				now := newArray(p.DType, tensor.Shape{})
				now.set(0, a, k)
				if diff := differs(now, was, 0); diff != "" {
					t.Fatalf("replicas differ: rank %d at %v %s", r, whole, diff)
				}
			}
			seen[j] = true
			out.set(j, a, k)
		})
	}
	return out, top
}

// differs says where a and b differ by more than tol, "" if nowhere. Zeros of both signs are equal, and NaNs.
func differs(got, want *array, tol float64) string {
	if got.dt != want.dt || !got.sh.Equal(want.sh) {
		return fmt.Sprintf("is %v%v, expected %v%v", got.dt, got.sh, want.dt, want.sh)
	}
	for k, x := range want.f {
		if y := got.f[k]; y != x && !(x != x && y != y) && !(math.Abs(y-x) <= tol) {
			return fmt.Sprintf("at %d is %v, expected %v (within %g)", k, y, x, tol)
		}
	}
	for k, x := range want.n {
		if got.n[k] != x {
			return fmt.Sprintf("at %d is %d, expected %d", k, got.n[k], x)
		}
	}
	return ""
}

// heap is a buffer for uploads.
type heap []byte

func (h heap) Bytes() []byte { return h }
func (h heap) Release()      {}

// worker is one rank: an engine and the values that it has.
type worker struct {
	t    *testing.T
	e    tensor.Engine
	next uint64
	ids  map[Value]uint64
}

func (w *worker) submit(b *tensor.Batch) []tensor.Fetched {
	w.t.Helper()
	got, err := w.e.Submit(context.Background(), b)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *worker) put(v Value, a *array) {
	w.t.Helper()
	w.submit(&tensor.Batch{Uploads: []tensor.Upload{{ID: w.next, DType: a.dt, Shape: a.sh, Buf: heap(a.bytes())}}})
	w.ids[v] = w.next
	w.next++
}

func (w *worker) id(v Value) uint64 {
	w.t.Helper()
	id, ok := w.ids[v]
	if !ok {
		w.t.Fatalf("value %d is used and does not exist", v)
	}
	return id
}

func (w *worker) get(v Value) *array {
	w.t.Helper()
	f := w.submit(&tensor.Batch{Fetch: []uint64{w.id(v)}})[0]
	return decode(f.DType, f.Shape, f.Bytes)
}

func (w *worker) run(r *Run, scalars []float64) {
	w.t.Helper()
	encoded := r.Program.Append(nil)
	if _, err := tensor.ParseProgram(encoded); err != nil {
		w.t.Fatalf("%v\n%v", err, r.Program)
	}
	b := &tensor.Batch{Program: r.Program, Encoded: encoded, Base: w.next}
	for _, s := range r.Scalars {
		b.Scalars = append(b.Scalars, s.Of(scalars))
	}
	for _, v := range r.Inputs {
		b.Inputs = append(b.Inputs, w.id(v))
	}
	w.submit(b)
	for i, v := range r.Inputs {
		if r.Program.Externals[i].Donated {
			delete(w.ids, v)
		}
	}
	for _, k := range r.Kept {
		w.ids[k.Value] = w.next + uint64(k.Instr)
	}
	w.next += uint64(len(r.Program.Instrs))
}

// traffic is what a simulated run did.
type traffic struct {
	calls, moves map[plan.Kind]int
	sent         []int64 // by rank, as a ring would send it
}

// simulate runs p's ranks in turn, each as far as it gets, and gives the parts of every output. It fails if ranks wait for each other.
func simulate(t *testing.T, p *Plan, inputs [][]*array, scalars []float64) ([][]*array, traffic) {
	t.Helper()
	n := p.Mesh.Size()
	ws, at := make([]*worker, n), make([]int, n)
	for r := range ws {
		ws[r] = &worker{t, enginetest.Reference(), 1, map[Value]uint64{}}
		for v, parts := range inputs {
			ws[r].put(Value(v), parts[r])
		}
	}
	tr := traffic{map[plan.Kind]int{}, map[plan.Kind]int{}, make([]int64, n)}
	arrived, done := map[string]map[int]*Collective{}, map[string]bool{}
	key := func(c *Collective) string { return fmt.Sprint(c.ID, c.Group) }
	seen := map[int]bool{}
	for {
		moved, ended := false, true
		for r := range n {
			for at[r] < len(p.Ranks[r].Steps) {
				s := p.Ranks[r].Steps[at[r]]
				if s.Kind == RunProgram {
					ws[r].run(s.Run, scalars)
				} else if k := key(s.Collective); s.Kind == Start {
					if arrived[k] == nil {
						arrived[k] = map[int]*Collective{}
					}
					arrived[k][r] = s.Collective
					for _, m := range s.Collective.Moves {
						ws[r].id(m.In)
					}
					if len(arrived[k]) == len(s.Collective.Group) {
						tr.perform(t, arrived[k], ws)
						done[k] = true
						if !seen[s.Collective.ID] {
							seen[s.Collective.ID] = true
							tr.calls[s.Collective.Kind]++
							tr.moves[s.Collective.Kind] += len(s.Collective.Moves)
						}
					}
				} else if !done[k] {
					break
				}
				for _, v := range s.Frees {
					ws[r].submit(&tensor.Batch{Frees: []uint64{ws[r].id(v)}})
					delete(ws[r].ids, v)
				}
				at[r]++
				moved = true
			}
			ended = ended && at[r] == len(p.Ranks[r].Steps)
		}
		if ended {
			break
		}
		if !moved {
			t.Fatalf("ranks wait for each other at steps %v\n%v", at, p)
		}
	}
	var outs [][]*array
	wanted := map[Value]bool{}
	for _, o := range p.Outputs {
		var parts []*array
		for _, w := range ws {
			parts = append(parts, w.get(o.Value))
		}
		outs = append(outs, parts)
		wanted[o.Value] = true
	}
	for r, w := range ws {
		for v := range w.ids {
			if donated := p.program != nil && int(v) < len(inputs) && p.program.Externals[v].Donated; !wanted[v] && (int(v) >= len(inputs) || donated) {
				t.Errorf("rank %d still has value %d, which nobody needs", r, v)
			}
		}
	}
	return outs, tr
}

// perform does a collective that all members of a group have started.
func (tr *traffic) perform(t *testing.T, cs map[int]*Collective, ws []*worker) {
	t.Helper()
	var group []int
	for _, c := range cs {
		group = c.Group
	}
	for m := range cs[group[0]].Moves {
		ins := make([]*array, len(group))
		for i, r := range group {
			c, first := cs[r], cs[group[0]]
			if c.Kind != first.Kind || c.Op != first.Op || c.DType != first.DType || c.Scale != first.Scale || len(c.Moves) != len(first.Moves) {
				t.Fatalf("ranks disagree about collective %d", c.ID)
			}
			if ins[i] = ws[r].get(c.Moves[m].In); !ins[i].sh.Equal(c.Moves[m].InShape) {
				t.Fatalf("collective %d has %v, expected %v", c.ID, ins[i].sh, c.Moves[m].InShape)
			}
		}
		for i, r := range group {
			c := cs[r]
			mv := c.Moves[m]
			out := newArray(c.DType, mv.OutShape)
			size, p := int64(c.DType.Size()), int64(len(group))
			put := func(at int, from *array, off, n int) int {
				for k := range n {
					out.set(at+k, from, off+k)
				}
				return at + n
			}
			sum := func(l []int, n int) (s int) {
				for _, x := range l[:n] {
					s += x
				}
				return s
			}
			switch c.Kind {
			case plan.AllReduce:
				out = fold(c.Op, c.Scale, ins)
				tr.sent[r] += 2 * size * int64(out.len()) * (p - 1) / p
			case plan.ReduceScatter:
				whole := fold(c.Op, c.Scale, ins)
				if end := put(0, whole, sum(mv.Send, i), mv.Send[i]); end != out.len() || sum(mv.Send, len(group)) != whole.len() {
					t.Fatalf("reduce-scatter %d: blocks %v of %v to %v", c.ID, mv.Send, mv.InShape, mv.OutShape)
				}
				tr.sent[r] += size * int64(whole.len()) * (p - 1) / p
			case plan.AllGather:
				end := 0
				for j := range group {
					if mv.Recv[j] != ins[j].len() {
						t.Fatalf("all-gather %d: blocks %v, rank %d has %d", c.ID, mv.Recv, j, ins[j].len())
					}
					end = put(end, ins[j], 0, mv.Recv[j])
				}
				if end != out.len() {
					t.Fatalf("all-gather %d: blocks %v to %v", c.ID, mv.Recv, mv.OutShape)
				}
				tr.sent[r] += size * int64(out.len()) * (p - 1) / p
			case plan.AllToAll:
				end := 0
				for j, q := range group {
					send := cs[q].Moves[m].Send
					if send[i] != mv.Recv[j] || sum(send, len(group)) != ins[j].len() {
						t.Fatalf("all-to-all %d: rank %d sends %v of %d, rank %d wants %v", c.ID, q, send, ins[j].len(), r, mv.Recv)
					}
					end = put(end, ins[j], sum(send, i), send[i])
					if j != i {
						tr.sent[r] += size * int64(mv.Send[j])
					}
				}
				if end != out.len() {
					t.Fatalf("all-to-all %d: %v to %v", c.ID, mv.Recv, mv.OutShape)
				}
			}
			ws[r].put(mv.Out, out)
		}
	}
}
