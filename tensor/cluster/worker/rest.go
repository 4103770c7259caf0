package worker

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// runAndComplete runs a batch's program and completes the batch. Where only instructions
// failed, the results that do not depend on them stay. Inputs that do not exist, because
// an earlier program failed, are left out with what depends on them. failed is this
// worker's failure before the program.
func (s *shared) runAndComplete(p *program, run *wire.Run, failed error) error {
	p, run, unknown := s.prepare(p, run)
	outs, err := s.program(s.ctx, p, run, failed)
	if !ends(err) {
		err = s.complete(s.ctx, run, true, err)
	}
	if ends(err) {
		return err
	}
	for i, e := range p.parsed.Externals {
		id := run.Inputs[i]
		if v := s.values[id]; v != nil && (e.Donated || v.standIn) {
			s.forget(id)
		}
	}
	some, ok := err.(*someFailed)
	switch {
	case ok:
		gone := some.dependents(p.parsed)
		for i := range outs {
			if gone[i] {
				s.forget(run.Base + uint64(i))
			}
		}
	case err != nil:
		for i := range outs {
			s.forget(run.Base + uint64(i))
		}
	}
	if unknown != nil && (err == nil || ok) { // it comes before all other failures
		all := []*agreedError{unknown}
		if ok {
			all = append(all, some.all...)
		}
		return &someFailed{all}
	}
	return err
}

// dependents returns which instructions of p failed, or depend on those. It drops the
// failures that are not the first of their kind: a worker that received meaningless bytes
// of another may have found a bad index in them.
func (e *someFailed) dependents(p *tensor.Program) []bool {
	gone := make([]bool, len(p.Instrs))
	none := make([]bool, len(p.Externals))
	e.all = slices.DeleteFunc(e.all, func(x *agreedError) bool {
		at := int(x.At) - 1
		if at < 0 || at >= len(gone) || gone[at] {
			return at >= 0 && at < len(gone)
		}
		gone[at] = true
		p.Dependents(gone, none)
		return false
	})
	return gone
}

// prepare returns p without the inputs that do not exist. It returns run without its
// fetches if a fetched value does not exist and p does not make it. unknown is the
// reason, nil if nothing is missing. All workers get the same results.
func (s *shared) prepare(p *program, run *wire.Run) (_ *program, _ *wire.Run, unknown *agreedError) {
	find := func(id uint64) {
		if unknown == nil {
			unknown = asAgreed(fmt.Errorf("%w: %d", tensor.ErrUnknown, id))
			own := *run
			own.Fetch = nil // the answer is the failure
			run = &own
		}
	}
	var missing []bool
	for i, id := range run.Inputs {
		if v := s.values[id]; v != nil && !v.standIn {
			continue
		}
		if find(id); missing == nil {
			missing = make([]bool, len(run.Inputs))
		}
		missing[i] = true
		s.values[id] = &placed{dtype: tensor.F32, shape: tensor.Shape{0}, standIn: true}
	}
	for _, id := range run.Fetch {
		if s.values[id] == nil && id-run.Base >= uint64(len(p.parsed.Instrs)) {
			find(id)
			break
		}
	}
	if missing != nil {
		failed := make([]bool, len(p.parsed.Instrs))
		p.parsed.Dependents(failed, missing)
		p = &program{parsed: p.parsed.Without(failed, missing)}
		run.Scalars = append(slices.Clip(run.Scalars), 0)
	}
	return p, run, unknown
}
