package tensor

import "slices"

// Scope owns the values made while it is open. See Session.Scope.
type Scope struct {
	s      *Session
	parent *Scope
	values []*value
}

// Scope runs f and then releases what f made, except what it kept. Values that are released before they are flushed
// are never materialised: a training step in a scope costs the memory of its longest-living intermediates, and the
// old value of an assigned parameter gives its memory to the new one. Scopes nest; a kept tensor goes to the scope
// around.
//
//	var loss *tensor.Tensor
//	sess.Scope(func(sc *tensor.Scope) {
//		loss = sc.Keep(model.Loss(x, y))
//		var grads []*tensor.Tensor
//		if grads, err = autograd.Grad(loss, params...); err == nil {
//			err = opt.Step(grads)
//		}
//	})
//	if err != nil {
//		return err
//	}
//	v, err := loss.Item()
//
// Assigned tensors hold their own claim and need no Keep.
func (s *Session) Scope(f func(sc *Scope)) {
	sc := &Scope{s: s, parent: s.scope}
	s.scope = sc
	defer func() {
		s.scope = sc.parent
		for _, v := range sc.values {
			if v != nil && v.scope == sc {
				v.scope = nil
				v.release()
			}
		}
	}()
	f(sc)
}

func (sc *Scope) add(v *value) {
	v.scope = sc
	sc.values = append(sc.values, v)
}

// Keep lets t outlive the scope and returns it. A tensor that the scope doesn't own stays as it is.
func (sc *Scope) Keep(t *Tensor) *Tensor {
	v := t.v
	if v.scope != sc {
		return t
	}
	if sc.parent != nil {
		sc.parent.add(v)
	} else {
		v.scope = nil
		t.owns = true
	}
	return t
}

// Free releases t now, before its scope ends or the garbage collector finds it. Using it afterwards is ErrReleased.
// To free twice is no error.
func (t *Tensor) Free() {
	v := t.v
	switch {
	case v.err != nil:
	case t.owns:
		t.owns = false
		v.release()
	case v.scope != nil:
		sc := v.scope
		if i := slices.Index(sc.values, v); i >= 0 {
			sc.values[i] = nil
		}
		v.scope = nil
		v.release()
	}
}

// Assign binds t to the value of v: what reads t afterwards sees v, what was computed from t before keeps the old
// value. It is the in-place update (t -= x is t.Assign(t.Sub(x))): shape and dtype must agree. A leaf that requires a
// gradient stays one, so it can only be assigned under NoGrad or what has no graph.
func (t *Tensor) Assign(v *Tensor) error {
	s := t.v.s
	if err := s.enter("assign"); err != nil {
		return err
	}
	defer s.leave()
	switch {
	case t.v.err != nil:
		return t.v.err
	case v.v.err != nil:
		return v.v.err
	case v.v.s != s:
		return s.fail(&OpError{Op: "assign", Inputs: t.v.String() + ", " + v.v.String(), Site: callSite(), Err: ErrOtherSession})
	case v.v.dtype != t.v.dtype:
		return s.fail(&OpError{Op: "assign", Inputs: t.v.String() + ", " + v.v.String(), Site: callSite(), Err: ErrDType})
	case !v.v.shape.Equal(t.v.shape):
		return s.fail(&OpError{Op: "assign", Inputs: t.v.String() + ", " + v.v.String(), Site: callSite(), Err: ErrShape})
	case v.v.refs <= 0:
		return s.fail(&OpError{Op: "assign", Inputs: t.v.String() + ", " + v.v.String(), Site: callSite(), Err: ErrReleased})
	case t.requires && (v.node != nil || v.requires && v != t):
		return s.fail(&OpError{Op: "assign", Inputs: t.v.String(), Site: callSite(), Err: errLeaf})
	}
	if v.v == t.v {
		return nil
	}
	if v.v.signal == 0 {
		v.v.signal = t.v.signal
	}
	v.v.retain()
	if t.owns {
		t.v.release()
	}
	t.v, t.owns, t.node = v.v, true, v.node
	return nil
}
