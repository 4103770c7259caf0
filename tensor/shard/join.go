package shard

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// at names a tensor on a stage.
type at struct {
	stage int
	ref   tensor.Ref
}

// held is a tensor as a stage holds it.
type held struct {
	value Var
	Placed
}

// sending is a transfer to another stage that has started and has not been waited for.
type sending struct {
	to    int
	reads int // the part that reads it first
	calls []*Collective
}

// joiner joins the plans of the parts.
type joiner struct {
	*stager
	out    *Plan
	id     int
	has    map[at]held
	reads  map[at]int         // the first part of the stage that reads it
	last   map[at]int         // the last part of the stage that reads it
	made   map[tensor.Ref]int // the part that makes it; -1 for an input
	owed   [][]sending        // by stage
	posts  map[[2]int][]*Collective
	posted map[*Collective]bool
	free   []bool // by var: freed after its last use, on every worker that has it
}

// join rewrites the parts one after another and joins their steps.
func (s *stager) join() (*Plan, error) {
	j := &joiner{stager: s, has: map[at]held{}, reads: map[at]int{}, last: map[at]int{}, made: map[tensor.Ref]int{},
		owed: make([][]sending, len(s.stages)), posts: map[[2]int][]*Collective{}, posted: map[*Collective]bool{}}
	workers := 0
	for _, st := range s.stages {
		workers = max(workers, slices.Max(st.Ranks)+1)
	}
	j.out = &Plan{Stages: s.stages, Ranks: make([]RankPlan, workers), program: s.p, results: make([]Layout, len(s.p.Instrs)), where: s.where,
		Stats: Stats{Instrs: len(s.p.Instrs), Collectives: map[protocol.Kind]int{}, Moves: map[protocol.Kind]int{}}}
	for n, q := range s.parts {
		for _, i := range q.instrs {
			j.made[tensor.Ref(i)] = n
			for _, r := range s.p.ArgsOf(i) {
				k := at{q.stage, r}
				if _, ok := j.reads[k]; !ok {
					j.reads[k] = n
				}
				j.last[k] = n
			}
		}
	}
	if err := j.inputsFirst(); err != nil {
		return nil, err
	}
	for n := range s.parts {
		if err := j.part(n); err != nil {
			return nil, err
		}
	}
	for _, owed := range j.owed {
		for _, w := range owed {
			j.waitSent(w)
		}
	}
	j.frees()
	j.out.count()
	return j.out, nil
}

// inputsFirst gives the inputs their vars and sends those that other stages need.
func (j *joiner) inputsFirst() error {
	j.free = make([]bool, len(j.inputs))
	for i, in := range j.inputs {
		r := tensor.ExternalRef(i)
		d, sh := j.p.TypeOf(r)
		m := j.stages[in.Stage].Mesh
		if err := m.check(in.Layout, d, sh); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		h := held{Var(i), Placed{d, sh, m.normal(in.Layout), in.Stage}}
		j.has[at{in.Stage, r}], j.made[r] = h, -1
		j.out.Inputs = append(j.out.Inputs, h.Placed)
		_, read := j.last[at{in.Stage, r}]
		j.free[i] = j.p.Externals[i].Donated && (!read || j.dests[r] != nil)
	}
	for i, in := range j.inputs {
		if err := j.send(tensor.ExternalRef(i), in.Stage); err != nil {
			return err
		}
	}
	return nil
}

func (j *joiner) step(worker int, s Step) {
	steps := &j.out.Ranks[worker].Steps
	*steps = append(*steps, s)
}

func (j *joiner) waitSent(s sending) {
	for _, c := range s.calls {
		j.step(c.Group[0], Step{Kind: Wait, Collective: c})
	}
}

// newVar returns a new var.
func (j *joiner) newVar() Var {
	j.free = append(j.free, false)
	return Var(len(j.free) - 1)
}

// send starts the transfers of r from the stage that has it to all stages that need it,
// and notes the receives.
func (j *joiner) send(r tensor.Ref, from int) error {
	for _, to := range j.dests[r] {
		h := j.has[at{from, r}]
		a, b := j.stages[from], j.stages[to]
		want := h.Layout
		if !slices.EqualFunc(a.Mesh, b.Mesh, func(x, y Dim) bool { return x.Size == y.Size }) {
			want = Layout{}
		}
		for k, p := range want {
			if p.kind == partial {
				want[k] = Replicate
			}
		}
		if want != h.Layout {
			q, err := Redistribute(a.Mesh, h.DType, h.Shape, h.Layout, want)
			if err != nil {
				return err
			}
			number := j.embed(q, from, []Var{h.value}, nil)
			h = held{number(q.Outputs[0].Var), Placed{h.DType, h.Shape, want, from}}
			j.free[h.value] = true
		}
		got := held{j.newVar(), Placed{h.DType, h.Shape, want, to}}
		j.has[at{to, r}] = got
		s := sending{to: to, reads: j.reads[at{to, r}]}
		most := map[int]int64{}
		for k, dst := range b.Ranks {
			i := k % len(a.Ranks)
			sh := a.Mesh.shape(want, h.Shape, i)
			c := &Collective{
				ID: j.id, Kind: protocol.Send, DType: h.DType, Scale: 1, Dim: -1,
				Group: []int{a.Ranks[i], dst}, Moves: []Move{{In: h.value, InShape: sh}},
			}
			d := *c
			d.Kind, d.Moves = protocol.Recv, []Move{{Out: got.value, OutShape: sh}}
			j.id++
			j.step(c.Group[0], Step{Kind: Start, Collective: c})
			s.calls = append(s.calls, c)
			pair := [2]int(c.Group)
			j.posts[pair] = append(j.posts[pair], &d)
			most[i] += int64(sh.Elems() * h.DType.Size())
		}
		j.owed[from] = append(j.owed[from], s)
		j.out.Stats.Collectives[protocol.Send]++
		j.out.Stats.Moves[protocol.Send]++
		j.out.sends = append(j.out.sends, sent{r, from, to, most[0]})
	}
	return nil
}

// receive waits for the tensors of other stages that part q needs. It first starts the
// receives of earlier transfers between the same two workers.
func (j *joiner) receive(q *part) {
	b := j.stages[q.stage]
	for _, r := range q.needs {
		from := j.home(r)
		got, a := j.has[at{q.stage, r}], j.stages[from]
		j.arrived(q.stage, from, j.made[r])
		for k, dst := range b.Ranks {
			pair := [2]int{a.Ranks[k%len(a.Ranks)], dst}
			n := slices.IndexFunc(j.posts[pair], func(c *Collective) bool { return c.Moves[0].Out == got.value })
			for _, c := range j.posts[pair][:n+1] {
				if !j.posted[c] {
					j.posted[c] = true
					j.step(dst, Step{Kind: Start, Collective: c})
				}
			}
			j.step(dst, Step{Kind: Wait, Collective: j.posts[pair][n]})
			j.posts[pair] = slices.Delete(j.posts[pair], n, n+1)
		}
	}
}

// arrived waits for the sends of a stage to stage to, if a result that it received from
// there was computed after the sent tensor was read.
func (j *joiner) arrived(stage, to, made int) {
	j.owed[stage] = slices.DeleteFunc(j.owed[stage], func(s sending) bool {
		if s.to != to || s.reads > made {
			return false
		}
		j.waitSent(s)
		return true
	})
}

// renumber returns the map from the vars of a plan that is embedded in another to those
// of the whole: ins are its inputs, and each of the others is a new one.
func renumber(ins []Var, newVar func() Var) func(Var) Var {
	named := map[Var]Var{}
	return func(v Var) Var {
		if int(v) < len(ins) {
			return ins[v]
		}
		w, ok := named[v]
		if !ok {
			w = newVar()
			named[v] = w
		}
		return w
	}
}

// embed adds the steps of q, the plan of a part on a stage whose inputs are the vars ins.
// origin maps the instructions of the part to those of the whole program. embed returns
// the map from the part's vars to those of the whole plan.
func (j *joiner) embed(q *Plan, stage int, ins []Var, origin []int) func(Var) Var {
	ranks := j.stages[stage].Ranks
	number := renumber(ins, j.newVar)
	calls := 0
	for k, rank := range q.Ranks {
		for _, s := range rank.Steps {
			t := Step{Kind: s.Kind, Frees: numbered(s.Frees, number)}
			if s.Run != nil {
				t.Run = s.Run.renumber(number, origin)
			}
			if s.Collective != nil {
				calls = max(calls, s.Collective.ID+1)
				t.Collective = s.Collective.renumber(j.id, ranks, number)
			}
			j.step(ranks[k], t)
		}
	}
	j.id += calls
	for kind, n := range q.Stats.Collectives {
		j.out.Stats.Collectives[kind] += n
		j.out.Stats.Moves[kind] += q.Stats.Moves[kind]
	}
	j.out.Stats.Slices += q.Stats.Slices
	j.out.Stats.Bucketed += q.Stats.Bucketed
	for _, n := range q.notes {
		if n.stage = stage; n.reader >= 0 && origin != nil {
			n.reader = origin[n.reader]
		}
		j.out.notes = append(j.out.notes, n)
	}
	return number
}

func numbered(vs []Var, number func(Var) Var) []Var {
	var out []Var
	for _, v := range vs {
		out = append(out, number(v))
	}
	return out
}

// renumber returns r with the vars and the instructions of the whole plan.
func (r *Run) renumber(number func(Var) Var, origin []int) *Run {
	out := *r
	out.Inputs, out.Kept, out.Origin = numbered(r.Inputs, number), nil, nil
	for _, k := range r.Kept {
		out.Kept = append(out.Kept, Kept{k.Instr, number(k.Var)})
	}
	for _, o := range r.Origin {
		if o >= 0 && origin != nil {
			o = origin[o]
		}
		out.Origin = append(out.Origin, o)
	}
	return &out
}

// renumber returns c with the id, the ranks and the vars of the whole plan.
func (c *Collective) renumber(id int, ranks []int, number func(Var) Var) *Collective {
	out := *c
	out.ID += id
	out.Group, out.Moves = nil, nil
	for _, r := range c.Group {
		out.Group = append(out.Group, ranks[r])
	}
	for _, m := range c.Moves {
		m.In, m.Out = number(m.In), number(m.Out)
		out.Moves = append(out.Moves, m)
	}
	return &out
}

// vars returns the vars that s reads or makes.
func (s *Step) vars() (vs []Var) {
	if s.Run != nil {
		vs = slices.Clone(s.Run.Inputs)
		for _, k := range s.Run.Kept {
			vs = append(vs, k.Var)
		}
	}
	if c := s.Collective; c != nil {
		for _, m := range c.Moves {
			if c.Kind != protocol.Recv {
				vs = append(vs, m.In)
			}
			if c.Kind != protocol.Send {
				vs = append(vs, m.Out)
			}
		}
	}
	return vs
}

// frees frees the vars that the plans of the parts do not free: sent tensors, and inputs
// without readers.
func (j *joiner) frees() {
	for w := range j.out.Ranks {
		steps := j.out.Ranks[w].Steps
		last := map[Var]int{}
		for v := range j.inputs {
			if j.free[v] && slices.Contains(j.stages[j.inputs[v].Stage].Ranks, w) {
				last[Var(v)] = 0
			}
		}
		for n, s := range steps {
			for _, v := range s.vars() {
				if j.free[v] {
					last[v] = n
				}
			}
		}
		for _, v := range slices.Sorted(maps.Keys(last)) {
			if n := last[v]; n < len(steps) {
				steps[n].Frees = append(steps[n].Frees, v)
			}
		}
	}
}
