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
	sub := cutOut(j.p, q.instrs, func(r tensor.Ref) bool { return j.owns(r, n) }, func(i int) bool { return j.outlives(i, n) })
	ins := make([]held, len(sub.ins))
	for i, r := range sub.ins {
		ins[i] = j.has[at{q.stage, r}]
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
	err := j.rewrite(sub, q.stage, ins, &o, func(i int, h held) {
		r := tensor.Ref(i)
		j.has[at{q.stage, r}] = h
		mine := j.where[i] == q.stage
		if mine && j.p.Instrs[i].Keep {
			j.out.Outputs = append(j.out.Outputs, Output{i, h.value, h.Placed})
		} else if mine && j.dests[r] != nil {
			j.free[h.value] = true
		}
	})
	if err != nil {
		return fmt.Errorf("stage %d: %w", q.stage, err)
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

// owns reports whether part n may free its input r: it is the last part that reads it,
// and r neither belongs to the caller nor was sent.
func (j *joiner) owns(r tensor.Ref, n int) bool {
	stage := j.parts[n].stage
	mine := j.home(r) == stage
	var donated bool
	if i, ok := r.External(); ok {
		donated = j.p.Externals[i].Donated || !mine
	} else {
		i, _ := r.Instr()
		donated = !(j.p.Instrs[i].Keep && mine)
		mine = mine && !j.leaf(i) // a leaf is never sent
	}
	return donated && !(mine && j.dests[r] != nil) && j.last[at{stage, r}] <= n
}

// outlives reports whether the result of instruction i, which part n makes, is needed
// after the part.
func (j *joiner) outlives(i, n int) bool {
	stage, r := j.parts[n].stage, tensor.Ref(i)
	mine := j.where[i] == stage
	return mine && (j.p.Instrs[i].Keep || j.dests[r] != nil) || j.last[at{stage, r}] > n
}
