package tensor

import (
	"cmp"
	"errors"
	"slices"
)

// maxAhead is the number of programs that a session remembers until the engine has told
// how they ended. A client is at most as many programs ahead of its workers. It bounds
// the memory for them: of encodings as below, of ids as those that exist, and of places
// as the operations that can fail, of which a program seldom has many.
const maxAhead = 64

var _ = [1]struct{}{}[maxAhead*MaxProgramBytes>>24] // encodings have less than 16 MiB

// submitted is a program that the engine has taken. The engine has not told whether it
// failed.
type submitted struct {
	base, end     uint64 // ids of the results, from base to before end
	hash          Hash
	encoded       []byte
	inputs, frees []uint64
	sites         []siteMark
}

// failures are the values of a session that do not exist because a program failed. A
// value among them gets its error when it is looked at (value.failed).
type failures struct {
	lost  map[uint64]error // by id; nil for none
	ahead []submitted      // oldest first
	// cause is the last error. It is the reason why an id less than below is unknown.
	cause error
	below uint64
}

// failed returns the error that v stands for, or nil.
func (v *value) failed() error {
	if v.err == nil && v.flushed && len(v.s.failures.lost) > 0 {
		v.find()
	}
	return v.err
}

// find looks for v among the lost values. One that is found counts as live until it is
// released, as every other value.
func (v *value) find() { v.err = v.s.failures.lost[v.id] }

// forget drops the values of ids, which no handle has any more.
func (f *failures) forget(ids []uint64) {
	if len(f.lost) > 0 {
		for _, id := range ids {
			delete(f.lost, id)
		}
	}
}

// taken records that the engine has taken b. If told is set, the engine has also said
// that b and all programs before have run.
func (f *failures) taken(b *Batch, sites []siteMark, told bool) {
	n := len(f.ahead)
	switch {
	case told:
		f.ahead = f.ahead[:0]
		return
	case b.Program == nil && n > 0:
		// Younger values are uploads, which no failure prevents.
		last := &f.ahead[n-1]
		last.frees = slices.DeleteFunc(append(last.frees, b.Frees...), func(id uint64) bool { return id >= last.end })
		return
	case b.Program == nil:
		return
	case n == maxAhead:
		oldest := f.ahead[0]
		n = copy(f.ahead, f.ahead[1:])
		f.ahead[n] = oldest // its arrays are used again
	}
	f.ahead = slices.Grow(f.ahead[:n], 1)[:n+1]
	p := &f.ahead[n]
	if p.hash != b.Hash || len(p.encoded) == 0 { // else the program was here before
		p.hash, p.encoded = b.Hash, append(p.encoded[:0], b.Encoded...)
	}
	p.base, p.end = b.Base, b.Base+uint64(len(b.Program.Instrs))
	p.sites = append(p.sites[:0], sites...)
	p.inputs, p.frees = append(p.inputs[:0], b.Inputs...), append(p.frees[:0], b.Frees...)
}

// failed finds the values that do not exist because of err, the error of b or of programs
// before it. It returns the error of the oldest program's first instruction that failed,
// with the place which recorded that. next is the id after those of b.
func (f *failures) failed(b *Batch, sites []siteMark, err error, next uint64) error {
	now := submitted{base: b.Base, inputs: b.Inputs, frees: b.Frees, sites: sites}
	if b.Program != nil {
		now.encoded = b.Encoded
	}
	var first *Failure
	switch e := err.(type) {
	case *Failure:
		first = e
	case *RunError:
		first = &Failure{Base: b.Base, Err: e}
	default:
		f.cause, f.below = err, next
		return err
	}
	if f.lost == nil {
		f.lost = map[uint64]error{}
	}
	if errors.Is(first, ErrUnknown) && f.cause != nil && slices.ContainsFunc(b.ids(), func(id uint64) bool { return id < f.below }) {
		first.Err = f.cause
		for _, id := range b.Fetch {
			f.lost[id] = f.cause
		}
	}
	all := append([]*Failure{first}, first.More...)
	slices.SortStableFunc(all, func(x, y *Failure) int {
		return cmp.Or(cmp.Compare(x.Base, y.Base), cmp.Compare(x.instr(), y.instr()))
	})
	for i := range f.ahead {
		f.lose(&f.ahead[i], all)
	}
	f.lose(&now, all)
	f.ahead = f.ahead[:0]
	f.cause, f.below = all[0].Err, next
	return all[0].Err
}

// instr returns the index of the instruction that failed, -1 if it is not known.
func (f *Failure) instr() int {
	if at, ok := f.Err.(*RunError); ok {
		return at.Instr
	}
	return -1
}

// lose adds the results of p that do not exist because of failures, and drops the values
// that p frees. It adds to the failures of p the places that recorded the operations.
func (f *failures) lose(p *submitted, all []*Failure) {
	lost := make([]error, len(p.inputs))
	for k, id := range p.inputs {
		lost[k] = f.lost[id]
	}
	if prog, err := ParseProgram(p.encoded); err == nil {
		f.loseResults(p, prog, lost, all)
		for k, x := range prog.Externals {
			if x.Donated {
				delete(f.lost, p.inputs[k])
			}
		}
	}
	f.forget(p.frees)
}

// loseResults is lose for the results of prog, which is the program of p. lost has the
// errors of its inputs.
func (f *failures) loseResults(p *submitted, prog *Program, lost []error, all []*Failure) {
	var every error // of all results
	errs := make([]error, len(prog.Instrs))
	for _, x := range all {
		if x.Base != p.base {
			continue
		}
		i := x.instr()
		if errors.Is(x.Err, ErrUnknown) { // the reason is that of the input
			k := slices.IndexFunc(lost, func(err error) bool { return err != nil })
			if k >= 0 {
				x.Err = lost[k]
			}
		}
		x.Err = located(x.Err, p.sites)
		if !x.Rest {
			every = cmp.Or(every, x.Err)
		} else if i >= 0 && i < len(errs) {
			errs[i] = x.Err
		}
	}
	for i, in := range prog.Instrs {
		for _, r := range prog.ArgsOf(i) {
			if errs[i] != nil {
				break
			}
			if j, ok := r.Instr(); ok {
				errs[i] = errs[j]
			} else if k, ok := r.External(); ok {
				errs[i] = lost[k]
			}
		}
		if err := cmp.Or(errs[i], every); in.Keep && err != nil {
			f.lost[p.base+uint64(i)] = err
		}
	}
}

// ids returns all ids that b reads.
func (b *Batch) ids() []uint64 { return slices.Concat(b.Inputs, b.Fetch) }
