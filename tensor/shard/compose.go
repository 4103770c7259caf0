package shard

import (
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// held is a tensor as a stage holds it.
type held struct {
	value Var
	Placed
}

// sub is a part as a program of its own.
type sub struct {
	p      *tensor.Program
	ins    []tensor.Ref // its inputs as refs of the whole program
	origin []int        // its instructions as indices in the whole program
}

// cutOut makes the program of the instructions is of p. Shapes, scalars and signals keep
// their numbers. own says which of its inputs it may free, keeps whose results it keeps.
func cutOut(p *tensor.Program, is []int, own func(tensor.Ref) bool, keeps func(int) bool) *sub {
	s := &sub{p: &tensor.Program{Shapes: p.Shapes, NumScalars: p.NumScalars, Signals: p.Signals, Unfused: p.Unfused}}
	names := map[tensor.Ref]tensor.Ref{}
	for _, i := range is {
		in := p.Instrs[i]
		args, ints := p.ArgsOf(i), p.IntsOf(i)
		in.Arg, in.Int = uint32(len(s.p.Args)), uint32(len(s.p.Ints))
		for _, r := range args {
			if _, scalar := r.Scalar(); scalar {
				s.p.Args = append(s.p.Args, r)
				continue
			}
			name, ok := names[r]
			if !ok {
				name = tensor.ExternalRef(len(s.ins))
				names[r] = name
				s.ins = append(s.ins, r)
				e := tensor.External{}
				if j, ok := r.External(); ok {
					e = p.Externals[j]
				} else {
					j, _ := r.Instr()
					e.DType, e.Shape = p.Instrs[j].DType, p.Instrs[j].Shape
				}
				e.Donated = own(r)
				s.p.Externals = append(s.p.Externals, e)
			}
			s.p.Args = append(s.p.Args, name)
		}
		s.p.Ints = append(s.p.Ints, ints...)
		in.Keep = keeps(i)
		names[tensor.Ref(i)] = tensor.Ref(len(s.origin))
		s.origin = append(s.origin, i)
		s.p.Instrs = append(s.p.Instrs, in)
	}
	return s
}

// composite is a plan that is put together from the plans of parts of its program.
type composite struct {
	out    *Plan
	values int // vars so far
	calls  int // collectives so far
}

// compose returns a plan for p without steps.
func compose(p *tensor.Program, stages []Stage, ranks int) composite {
	return composite{values: len(p.Externals), out: &Plan{Stages: stages, Ranks: make([]RankPlan, ranks), program: p, results: make([]Layout, len(p.Instrs)),
		Stats: Stats{Instrs: len(p.Instrs), Collectives: map[protocol.Kind]int{}, Moves: map[protocol.Kind]int{}}}}
}

func (c *composite) newVar() Var {
	c.values++
	return Var(c.values - 1)
}

func (c *composite) step(rank int, s Step) {
	steps := &c.out.Ranks[rank].Steps
	*steps = append(*steps, s)
}

// rewrite adds the steps of a part of the program on a stage that holds its inputs so. It
// calls made with each result that is kept.
func (c *composite) rewrite(s *sub, stage int, ins []held, o *Options, made func(i int, h held)) error {
	layouts, values := make([]Layout, len(ins)), make([]Var, len(ins))
	for i, h := range ins {
		layouts[i], values[i] = h.Layout, h.value
	}
	q, err := Rewrite(s.p, c.out.Stages[stage].Mesh, layouts, o)
	if err != nil {
		return err
	}
	number := c.embed(q, stage, values, s.origin)
	for i, l := range q.results {
		c.out.results[s.origin[i]] = l
	}
	for _, out := range q.Outputs {
		h := held{number(out.Var), out.Placed}
		h.Stage = stage
		made(s.origin[out.Instr], h)
	}
	return nil
}

// embed adds the steps of q, the plan of a part on a stage whose inputs are the vars ins.
// origin maps the instructions of the part to those of the whole program. embed returns
// the map from the part's vars to those of the whole plan.
func (c *composite) embed(q *Plan, stage int, ins []Var, origin []int) func(Var) Var {
	ranks := c.out.Stages[stage].Ranks
	number := renumber(ins, c.newVar)
	id := c.calls
	for k, rank := range q.Ranks {
		for _, s := range rank.Steps {
			t := Step{Kind: s.Kind, Frees: numbered(s.Frees, number)}
			if s.Run != nil {
				t.Run = s.Run.renumber(number, origin)
			}
			if s.Collective != nil {
				t.Collective = s.Collective.renumber(id, ranks, number)
				c.calls = max(c.calls, t.Collective.ID+1)
			}
			c.step(ranks[k], t)
		}
	}
	for kind, n := range q.Stats.Collectives {
		c.out.Stats.Collectives[kind] += n
		c.out.Stats.Moves[kind] += q.Stats.Moves[kind]
	}
	c.out.Stats.Slices += q.Stats.Slices
	c.out.Stats.Bucketed += q.Stats.Bucketed
	for _, n := range q.notes {
		if n.stage = stage; n.reader >= 0 && origin != nil {
			n.reader = origin[n.reader]
		}
		c.out.notes = append(c.out.notes, n)
	}
	return number
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
