package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// Limits of a Tiles step. An engine has a fixed number of operands for its walk and keeps
// every value of a tile in its nearest cache.
const (
	MaxTileInputs = 7
	maxTileOuts   = 5
	maxTileOps    = 24
	// maxNeighbours bounds the readers of an operand that add tries, so that compiling
	// takes linear time.
	maxNeighbours = 8
)

// tiles joins elementwise steps over the same elements, so that values between them stay
// in the nearest cache. The joined step runs at the place of one of its members: of the
// last one, if no step outside the group reads a result before that, or of an earlier
// one, if the operands of all members exist there. No result changes.
func (rw *rewriter) tiles(g *graph, e *edit) {
	t := &tiler{rw: rw, g: g, of: map[int]*group{}}
	for k := range rw.plan.Steps {
		if t.eligible(k) {
			t.add(k)
		}
	}
	done := map[*group]bool{}
	for k := range rw.plan.Steps {
		if g := t.of[k]; g != nil && !done[g] {
			done[g] = true
			if len(g.steps) > 1 {
				e.replace(g.at, t.merge(g), g.steps...)
			}
		}
	}
}

// group is a list of steps, in order, that become one.
type group struct {
	steps []int
	at    int          // the member in whose place the group runs
	shape tensor.Shape // over whose elements it runs
	in    []Operand    // tensors that it reads, with strides for shape
}

type tiler struct {
	rw *rewriter
	g  *graph
	of map[int]*group // the group of each step
}

func (t *tiler) eligible(k int) bool {
	s := &t.rw.plan.Steps[k]
	if s.Fused != Single || s.Op.Info().Class != tensor.ClassElementwise || s.Op == tensor.OpDropout || s.Out.Shape.Elems() == 0 {
		return false
	}
	// A cast to the same type is a copy for a reader that needs a dense operand.
	return s.Op != tensor.OpCast || s.In[0].DType != s.Out.DType
}

// tensors returns the tensor operands of elementwise step s, broadcast to its output.
func (t *tiler) tensors(s *Step) []Operand {
	var in []Operand
	for _, o := range s.In {
		if o.Scalar < 0 {
			in = appendNew(in, spreadOver(o, s.Out.Shape))
		}
	}
	return in
}

// position returns the step in whose place step k runs.
func (t *tiler) position(k int) int {
	if g := t.of[k]; g != nil {
		return g.at
	}
	return k
}

// add makes a group of step k and joins it with the groups that compute its operands. If
// it can join none of them, add joins it with a group that reads the same operand.
func (t *tiler) add(k int) {
	s := &t.rw.plan.Steps[k]
	t.of[k] = &group{steps: []int{k}, at: k, shape: s.Out.Shape, in: t.tensors(s)}
	for _, o := range s.In {
		if o.Scalar < 0 && t.rw.whole(o) && t.g.def[o.Buf] >= 0 {
			if p := t.of[t.g.def[o.Buf]]; p != nil && p != t.of[k] {
				t.join(p, t.of[k])
			}
		}
	}
	if len(t.of[k].steps) > 1 {
		return
	}
	for _, o := range s.In {
		if o.Scalar >= 0 || !t.rw.whole(o) || o.Shape.Elems() != s.Out.Shape.Elems() {
			continue
		}
		tries := maxNeighbours
		for _, u := range slices.Backward(t.before(o.Buf, k)) {
			if tries--; tries < 0 {
				break
			}
			if p := t.of[u.step]; p != nil && p != t.of[k] && t.join(p, t.of[k]) {
				return
			}
		}
	}
}

// before returns the readers of buf before step k.
func (t *tiler) before(buf, k int) []use {
	r := t.g.readers[buf]
	n, _ := slices.BinarySearchFunc(r, k, func(u use, k int) int { return u.step - k })
	return r[:n]
}

// join makes one group of p and q, which runs at the place of p or of q. It returns
// false, and changes nothing, if at neither place every value would be written before it
// is read, or if a limit would be exceeded.
func (t *tiler) join(p, q *group) bool {
	if p.shape.Elems() != q.shape.Elems() || len(p.steps)+len(q.steps) > maxTileOps {
		return false
	}
	n := &group{steps: slices.Sorted(slices.Values(slices.Concat(p.steps, q.steps))), shape: p.shape}
	mine := func(k int) bool { return slices.Contains(n.steps, k) }
	in := slices.Clone(p.in)
	for _, o := range q.in {
		v, ok := reshaped(o, p.shape)
		if !ok {
			return false
		}
		in = appendNew(in, v)
	}
	for _, o := range in {
		if d := t.g.def[o.Buf]; d < 0 || !mine(d) {
			n.in = append(n.in, o)
		} else if !t.rw.whole(o) {
			return false // read in another order
		}
	}
	outs := 0
	for _, k := range n.steps {
		if t.isOut(k, mine) {
			outs++
		}
	}
	if len(n.in) > MaxTileInputs || outs > maxTileOuts {
		return false
	}
	switch {
	case t.movesDown(p, q.at, mine) && t.movesUp(q, q.at, mine):
		n.at = q.at
	case t.movesUp(q, p.at, mine) && t.movesDown(p, p.at, mine):
		n.at = p.at
	default:
		return false
	}
	for _, k := range n.steps {
		t.of[k] = n
	}
	return true
}

// movesDown reports whether g can run as late as at. It can if no step up to there,
// except those of mine, reads a result of g.
func (t *tiler) movesDown(g *group, at int, mine func(int) bool) bool {
	for _, k := range g.steps {
		for _, u := range t.g.readers[t.rw.plan.Steps[k].Out.Buf] {
			if !mine(u.step) && t.position(u.step) <= at {
				return false
			}
		}
	}
	return true
}

// movesUp reports whether g can run as early as at. It can if its operands exist there,
// or steps of mine compute them, and no OpBarrier lies between at and a step of g.
func (t *tiler) movesUp(g *group, at int, mine func(int) bool) bool {
	era := func(k int) int { return t.rw.era[t.rw.plan.Steps[k].Instr] }
	for _, k := range g.steps {
		if k > at && era(k) != era(at) {
			return false
		}
	}
	return !slices.ContainsFunc(g.in, func(o Operand) bool {
		d := t.g.def[o.Buf]
		return d >= 0 && !mine(d) && t.position(d) >= at
	})
}

// isOut reports whether a step outside the group reads the result of step k, or the
// program keeps it.
func (t *tiler) isOut(k int, mine func(int) bool) bool {
	b := t.rw.plan.Steps[k].Out.Buf
	return t.rw.plan.Buffers[b].Place == Output || slices.ContainsFunc(t.g.readers[b], func(u use) bool { return !mine(u.step) })
}

// merge returns the step that replaces a group.
func (t *tiler) merge(g *group) Step {
	mine := func(k int) bool { return slices.Contains(g.steps, k) }
	last := &t.rw.plan.Steps[g.steps[len(g.steps)-1]]
	f := Step{Instr: last.Instr, Op: last.Op, Fused: Tiles, In: slices.Clone(g.in)}
	var outs []Operand
	made := map[int]int{} // instructions of the body, by the buffer of their result
	for i, k := range g.steps {
		s := &t.rw.plan.Steps[k]
		in := Inst{Instr: s.Instr, Op: s.Op, DType: s.Out.DType, Ints: s.Ints, Out: -1}
		for _, o := range s.In {
			in.In = append(in.In, f.argument(o, s.Out.Shape, g.shape, made))
		}
		if t.isOut(k, mine) {
			in.Out = len(outs)
			o := s.Out
			o.Shape, o.Strides = g.shape, g.shape.Strides()
			outs = append(outs, o)
		}
		made[s.Out.Buf] = i
		f.Body = append(f.Body, in)
	}
	f.Out, f.Also = outs[0], outs[1:]
	return f
}

// argument returns what stands for o, an operand of a step over shape, in Inst.In: -1-i
// for the result of f.Body[i], which made maps from its buffer, otherwise the index of o
// in f.In. It appends o, seen with shape to, if f.In does not have it yet.
func (f *Step) argument(o Operand, shape, to tensor.Shape, made map[int]int) int {
	if o.Scalar < 0 {
		if i, ok := made[o.Buf]; ok {
			return -1 - i
		}
		o, _ = reshaped(spreadOver(o, shape), to)
	}
	if i := slices.IndexFunc(f.In, func(x Operand) bool { return same(x, o) }); i >= 0 {
		return i
	}
	f.In = append(f.In, o)
	return len(f.In) - 1
}

// spreadOver returns o broadcast to shape.
func spreadOver(o Operand, shape tensor.Shape) Operand {
	st := o.Broadcast(shape)
	o.Shape, o.Strides, o.Dense = shape, st, dense(shape, st)
	return o
}

// reshaped returns o viewed with another shape of the same number of elements. It returns
// false if no strides express that.
func reshaped(o Operand, shape tensor.Shape) (Operand, bool) {
	if o.Shape.Equal(shape) {
		return o, true
	}
	st, ok := reshape(o.Shape, o.Strides, shape)
	o.Shape, o.Strides, o.Dense = shape, st, ok && dense(shape, st)
	return o, ok
}

func appendNew(all []Operand, o Operand) []Operand {
	if slices.ContainsFunc(all, func(x Operand) bool { return same(x, o) }) {
		return all
	}
	return append(all, o)
}
