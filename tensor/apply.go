package tensor

// Arg is an argument of Apply: a tensor or a scalar.
type Arg struct {
	t *Tensor
	f float64
}

// T makes a tensor an argument. Apply returns an error for a nil one.
func T(t *Tensor) Arg {
	if t == nil {
		t = none()
	}
	return Arg{t: t}
}

// none returns a tensor of no session, which T takes for nil: an Arg without a tensor is
// a scalar.
//
//go:noinline
func none() *Tensor { return &Tensor{v: &value{sized: unsized}} }

// S makes a number an argument.
func S(f float64) Arg { return Arg{f: f} }

// Apply records op with its tensors, its scalars and its integer attributes, as the op
// table lists them, and returns the result. All methods of Tensor use it. Operands of
// different dtypes are promoted to one.
func (s *Session) Apply(op Op, ints []int64, args ...Arg) *Tensor {
	if s == nil { // that of a tensor that is nil or stands for an error
		for _, a := range args {
			if a.t != nil && a.t.v.failed() != nil {
				return a.t
			}
		}
		return poisoned(nil, opError(op, args, ErrNil))
	}
	if err := s.enter(op.String()); err != nil {
		return poisoned(s, err)
	}
	defer s.leave()
	return s.apply(op, ints, args)
}

func (s *Session) apply(op Op, ints []int64, args []Arg) *Tensor {
	for _, a := range args {
		if a.t != nil && a.t.v.failed() != nil {
			if a.t.v.s == nil { // it is the error of no session yet
				return poisoned(s, s.fail(a.t.v.failed()))
			}
			return poisoned(s, a.t.v.failed())
		}
	}
	s.room()
	r, marks := &s.rec, len(s.rec.sites)
	r.graph = needsGraph(s, op, args)
	v, err := r.record(op, ints, args)
	if err != nil {
		return poisoned(s, s.fail(opError(op, args, err)))
	}
	if len(r.sites) > marks { // called here, where the stack is shortest
		r.sites[marks].site = callersOf(s, &r.places.near[op])
	}
	s.stats.Ops++
	s.stats.Live++
	s.own(v)
	if r.room != nil {
		v.handle.node = r.room.fill(op, ints, args, v)
	}
	return &v.handle
}

// needsGraph reports whether the result of an operation gets a node, if it is a float.
func needsGraph(s *Session, op Op, args []Arg) bool {
	if s.noGrad > 0 || !op.Valid() || op.Info().Gradient == NoGradient {
		return false
	}
	for _, a := range args {
		if a.t != nil && (a.t.requires || a.t.node != nil) {
			return true
		}
	}
	return false
}

// room flushes a program that is almost full. An error sticks to the session.
func (s *Session) room() {
	if s.rec.full() {
		s.flush(nil, false)
	}
}

// own gives a new value to the innermost scope, or to its handle if there is none.
func (s *Session) own(v *value) {
	if s.scope != nil {
		s.scope.add(v)
	} else {
		v.handle.owns = true
	}
}
