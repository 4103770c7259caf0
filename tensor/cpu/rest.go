package cpu

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
)

// maxFailed bounds how often rest runs a program: with more failures it fails as a whole.
const maxFailed = 32

// rest runs p, which failed with err, once more without what failed and all that depends
// on it, until nothing else fails. An index out of range is a failure of one instruction;
// so is an input that does not exist, because an earlier program failed. It returns a
// failure with Rest, or an error without it if p cannot be run for another reason, or not
// as often: all runs after the first together have at most Options.MaxWork.
//
// Its programs are compiled for this call alone: the device's cache keeps those that
// clients send.
func (s *space) rest(p *tensor.Program, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool, err error) error {
	failed, missing := make([]bool, len(p.Instrs)), make([]bool, len(p.Externals))
	for k, id := range inputs {
		if s.values[id] == nil {
			missing[k] = true
		}
	}
	for k, id := range inputs {
		if missing[k] && s.values[id] == nil {
			s.put(id, tensor.F32, tensor.Shape{0}, nil) // what Without has in its place
			defer s.Free(id)
		}
	}
	scalars = append(slices.Clip(scalars), 0)
	var told *device.Failure
	left := s.dev.work
	for n := 0; err != nil; n++ {
		var at *tensor.RunError
		index := errors.Is(err, tensor.ErrIndex) && errors.As(err, &at)
		if n == maxFailed || !index && (told != nil || !slices.Contains(missing, true)) {
			return err
		}
		if index {
			failed[at.Instr] = true
		}
		told = told.Join(&device.Failure{Base: base, Err: err, Rest: true})
		p.Dependents(failed, missing)
		if !keeps(p, failed) {
			return told
		}
		c, err2 := s.dev.ready(p.Without(failed, missing))
		if err2 != nil {
			return err
		}
		if left -= c.plan.Work(); s.dev.work > 0 && left < 0 {
			return err
		}
		err = s.run(c, base, inputs, scalars, stop)
	}
	return told
}

// keeps reports whether p keeps a result that has not failed.
func keeps(p *tensor.Program, failed []bool) bool {
	for i, in := range p.Instrs {
		if in.Keep && !failed[i] {
			return true
		}
	}
	return false
}
