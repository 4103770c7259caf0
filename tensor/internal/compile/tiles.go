package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// Limits of a Tiles step: an engine has a walk of bounded width and keeps every value of a tile in its nearest cache.
const (
	MaxTileInputs = 7
	maxTileOuts   = 5
	maxTileOps    = 24
	maxNeighbours = 8 // other readers of an operand that are tried, so that compiling takes no longer than linear time
)

// tiles joins elementwise steps over the same elements: what one makes and another reads never leaves the nearest
// cache. A group runs where one of its members stood: at the last one, if nobody else reads a result before, or at an
// earlier one, if all that the others read exists there. No result changes.
func (c *compiler) tiles() {
	t := &tiler{c: c, g: c.graph(), of: map[int]*group{}}
	for k := range c.plan.Steps {
		if t.eligible(k) {
			t.add(k)
		}
	}
	e := newEdit()
	done := map[*group]bool{}
	for k := range c.plan.Steps {
		if g := t.of[k]; g != nil && !done[g] {
			done[g] = true
			if len(g.steps) > 1 {
				e.replace(g.at, t.merge(g), g.steps...)
			}
		}
	}
	c.apply(e)
}

// group is steps that become one, in their order.
type group struct {
	steps []int
	at    int // the step in whose place it runs
	shape tensor.Shape
	in    []Operand // tensors, as they are walked for shape
}

type tiler struct {
	c  *compiler
	g  *graph
	of map[int]*group // by step
}

func (t *tiler) eligible(k int) bool {
	s := &t.c.plan.Steps[k]
	if s.Fused != Single || s.Op.Info().Class != tensor.ClassElementwise || s.Op == tensor.OpDropout || s.Out.Shape.Elems() == 0 {
		return false
	}
	switch s.Op {
	case tensor.OpCast:
		return s.In[0].DType != s.Out.DType // else it is a copy, made for somebody who wants it dense
	case tensor.OpSGD, tensor.OpSGDM:
		return false // several passes: see mayOverwrite
	}
	return true
}

// tensors are the operands of elementwise step s as it walks over them.
func (t *tiler) tensors(s *Step) []Operand {
	var in []Operand
	for _, o := range s.In {
		if o.Scalar < 0 {
			in = appendNew(in, spreadOver(o, s.Out.Shape))
		}
	}
	return in
}

// position is where step k runs.
func (t *tiler) position(k int) int {
	if g := t.of[k]; g != nil {
		return g.at
	}
	return k
}

// add puts step k into a group of its own, joins that with the groups of what it reads, and else with one that reads
// the same.
func (t *tiler) add(k int) {
	s := &t.c.plan.Steps[k]
	t.of[k] = &group{steps: []int{k}, at: k, shape: s.Out.Shape, in: t.tensors(s)}
	for _, o := range s.In {
		if o.Scalar < 0 && t.c.whole(o) && t.g.def[o.Buf] >= 0 {
			if p := t.of[t.g.def[o.Buf]]; p != nil && p != t.of[k] {
				t.join(p, t.of[k])
			}
		}
	}
	if len(t.of[k].steps) > 1 {
		return
	}
	for _, o := range s.In {
		if o.Scalar >= 0 || !t.c.whole(o) || o.Shape.Elems() != s.Out.Shape.Elems() {
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

// before are the readers of buf before step k.
func (t *tiler) before(buf, k int) []use {
	r := t.g.readers[buf]
	n, _ := slices.BinarySearchFunc(r, k, func(u use, k int) int { return u.step - k })
	return r[:n]
}

// join makes one group of p and q if that keeps the order of things: q runs where p does or p where q.
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
		} else if !t.c.whole(o) {
			return false // another order than it is made in
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
	case t.sinks(p, q.at, mine) && t.rises(q, q.at, mine):
		n.at = q.at
	case t.rises(q, p.at, mine) && t.sinks(p, p.at, mine):
		n.at = p.at
	default:
		return false
	}
	for _, k := range n.steps {
		t.of[k] = n
	}
	return true
}

// sinks reports whether g may run as late as at: nobody outside reads a result before.
func (t *tiler) sinks(g *group, at int, mine func(int) bool) bool {
	for _, k := range g.steps {
		for _, u := range t.g.readers[t.c.plan.Steps[k].Out.Buf] {
			if !mine(u.step) && t.position(u.step) <= at {
				return false
			}
		}
	}
	return true
}

// rises reports whether g may run as early as at: what it reads from outside is there, and no barrier lies between.
func (t *tiler) rises(g *group, at int, mine func(int) bool) bool {
	era := func(k int) int { return t.c.era[t.c.plan.Steps[k].Instr] }
	for _, k := range g.steps {
		if k > at && era(k) != era(at) {
			return false
		}
	}
	for _, o := range g.in {
		if d := t.g.def[o.Buf]; d >= 0 && !mine(d) && t.position(d) >= at {
			return false
		}
	}
	return true
}

// isOut reports whether the result of step k is wanted outside of the group.
func (t *tiler) isOut(k int, mine func(int) bool) bool {
	b := t.c.plan.Steps[k].Out.Buf
	return t.c.plan.Buffers[b].Place == Output || slices.ContainsFunc(t.g.readers[b], func(u use) bool { return !mine(u.step) })
}

// merge is the step that a group becomes.
func (t *tiler) merge(g *group) Step {
	mine := func(k int) bool { return slices.Contains(g.steps, k) }
	last := &t.c.plan.Steps[g.steps[len(g.steps)-1]]
	f := Step{Instr: last.Instr, Op: last.Op, Fused: Tiles, In: slices.Clone(g.in)}
	var outs []Operand
	made := map[int]int{} // instructions of the body, by the buffer they make
	for i, k := range g.steps {
		s := &t.c.plan.Steps[k]
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

// argument is the index of o, an operand of a step over shape, among what the Tiles step has; scalars are added.
func (f *Step) argument(o Operand, shape, to tensor.Shape, made map[int]int) int {
	if o.Scalar < 0 {
		if i, ok := made[o.Buf]; ok {
			return -1 - i
		}
		o, _ = reshaped(spreadOver(o, shape), to)
	}
	for i, x := range f.In {
		if same(x, o) {
			return i
		}
	}
	f.In = append(f.In, o)
	return len(f.In) - 1
}

// spreadOver is o seen with a shape that it broadcasts to.
func spreadOver(o Operand, shape tensor.Shape) Operand {
	st := make([]int, len(shape))
	skip := len(shape) - len(o.Shape)
	for i, n := range o.Shape {
		if n != 1 {
			st[skip+i] = o.Strides[i]
		}
	}
	o.Shape, o.Strides, o.Dense = shape, st, dense(shape, st)
	return o
}

// reshaped is o seen with another shape of as many elements, if strides can say so.
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
