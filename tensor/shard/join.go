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

// sending is a transfer to another stage that has started and has not been waited for.
type sending struct {
	to    int
	reads int // the part that reads it first
	calls []*Collective
}

// joiner joins the plans of the parts.
type joiner struct {
	*stager
	composite
	has    map[at]held
	reads  map[at]int         // the first part of the stage that reads it
	last   map[at]int         // the last part of the stage that reads it
	made   map[tensor.Ref]int // the part that makes it; -1 for an input
	owed   [][]sending        // by stage
	posts  map[[2]int][]*Collective
	posted map[*Collective]bool
	free   map[Var]bool // freed after its last use, on every worker that has it
}

// join rewrites the parts one after another and joins their steps.
func (s *stager) join() (*Plan, error) {
	workers := 0
	for _, st := range s.stages {
		workers = max(workers, slices.Max(st.Ranks)+1)
	}
	j := &joiner{stager: s, composite: compose(s.p, s.stages, workers), has: map[at]held{}, reads: map[at]int{}, last: map[at]int{}, made: map[tensor.Ref]int{},
		owed: make([][]sending, len(s.stages)), posts: map[[2]int][]*Collective{}, posted: map[*Collective]bool{}, free: map[Var]bool{}}
	j.out.where = s.where
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
		j.free[Var(i)] = j.p.Externals[i].Donated && (!read || j.dests[r] != nil)
	}
	for i, in := range j.inputs {
		if err := j.send(tensor.ExternalRef(i), in.Stage); err != nil {
			return err
		}
	}
	return nil
}

func (j *joiner) waitSent(s sending) {
	for _, c := range s.calls {
		j.step(c.Group[0], Step{Kind: Wait, Collective: c})
	}
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
				ID: j.calls, Kind: protocol.Send, DType: h.DType, Scale: 1, Dim: -1,
				Group: []int{a.Ranks[i], dst}, Moves: []Move{{In: h.value, InShape: sh}},
			}
			d := *c
			d.Kind, d.Moves = protocol.Recv, []Move{{Out: got.value, OutShape: sh}}
			j.calls++
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
		for i, in := range j.inputs {
			if j.free[Var(i)] && slices.Contains(j.stages[in.Stage].Ranks, w) {
				last[Var(i)] = 0
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
