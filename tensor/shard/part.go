package shard

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// part rewrites part n after its inputs have been received, and sends the results that
// other stages need.
func (j *joiner) part(n int) error {
	q := j.parts[n]
	j.receive(q)
	sub := j.program(n)
	stage := j.stages[q.stage]
	layouts, values := make([]Layout, len(sub.ins)), make([]Var, len(sub.ins))
	for i, r := range sub.ins {
		h := j.has[at{q.stage, r}]
		layouts[i], values[i] = h.Layout, h.value
	}
	o := j.o
	o.Outputs = nil
	for k, i := range sub.origin {
		if l, ok := j.o.Outputs[i]; ok && sub.p.Instrs[k].Keep && j.where[i] == q.stage {
			if o.Outputs == nil {
				o.Outputs = map[int]Layout{}
			}
			o.Outputs[k] = l
		}
	}
	plan, err := Rewrite(sub.p, stage.Mesh, layouts, &o)
	if err != nil {
		return fmt.Errorf("stage %d: %w", q.stage, err)
	}
	number := j.embed(plan, q.stage, values, sub.origin)
	for k, l := range plan.results {
		j.out.results[sub.origin[k]] = l
	}
	for _, out := range plan.Outputs {
		i := sub.origin[out.Instr]
		h := held{number(out.Var), out.Placed}
		h.Stage = q.stage
		r := tensor.Ref(i)
		j.has[at{q.stage, r}] = h
		mine := j.where[i] == q.stage
		if mine && j.p.Instrs[i].Keep {
			j.out.Outputs = append(j.out.Outputs, Output{i, h.value, h.Placed})
		} else if mine && j.dests[r] != nil {
			j.free[h.value] = true
		}
	}
	for _, i := range q.instrs {
		if j.where[i] == q.stage {
			if err := j.send(tensor.Ref(i), q.stage); err != nil {
				return err
			}
		}
	}
	return nil
}

// sub is a part as a program of its own.
type sub struct {
	p      *tensor.Program
	ins    []tensor.Ref // its inputs as refs of the whole program
	origin []int        // its instructions as indices in the whole program
}

// program makes the program of part n. Shapes, scalars and signals keep their numbers.
func (j *joiner) program(n int) *sub {
	q, p := j.parts[n], j.p
	s := &sub{p: &tensor.Program{Shapes: p.Shapes, NumScalars: p.NumScalars, Signals: p.Signals}}
	names := map[tensor.Ref]tensor.Ref{}
	for _, i := range q.instrs {
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
				s.p.Externals = append(s.p.Externals, j.external(r, n))
			}
			s.p.Args = append(s.p.Args, name)
		}
		s.p.Ints = append(s.p.Ints, ints...)
		in.Keep = j.outlives(i, n)
		names[tensor.Ref(i)] = tensor.Ref(len(s.origin))
		s.origin = append(s.origin, i)
		s.p.Instrs = append(s.p.Instrs, in)
	}
	return s
}

// external returns r as an input of part n. It is donated to the last part that reads it,
// unless it belongs to the caller or was sent.
func (j *joiner) external(r tensor.Ref, n int) tensor.External {
	stage := j.parts[n].stage
	e := tensor.External{}
	mine := j.home(r) == stage
	if i, ok := r.External(); ok {
		e = j.p.Externals[i]
		e.Donated = e.Donated || !mine
	} else {
		i, _ := r.Instr()
		in := j.p.Instrs[i]
		e.DType, e.Shape = in.DType, in.Shape
		e.Donated = !(in.Keep && mine)
		mine = mine && !j.leaf(i) // a leaf is never sent
	}
	if mine && j.dests[r] != nil || j.last[at{stage, r}] > n {
		e.Donated = false
	}
	return e
}

// outlives reports whether the result of instruction i, which part n makes, is needed
// after the part.
func (j *joiner) outlives(i, n int) bool {
	stage, r := j.parts[n].stage, tensor.Ref(i)
	mine := j.where[i] == stage
	return mine && (j.p.Instrs[i].Keep || j.dests[r] != nil) || j.last[at{stage, r}] > n
}
