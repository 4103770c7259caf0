package tensor

import (
	"fmt"
	"slices"
)

// Scope owns the values made while it is open. See Session.Scope.
type Scope struct {
	s      *Session
	parent *Scope
	values []*value
}

// Scope runs f and then releases the values that f made, except those that it kept.
// Values that are released before a flush are never stored: a training step in a scope
// needs only the memory of the intermediates that live at one time, and the old value of
// an assigned parameter gives its memory to the new one. Scopes nest; a kept tensor moves
// to the enclosing scope.
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
// Assigned tensors hold a reference of their own and need no Keep.
func (s *Session) Scope(f func(sc *Scope)) {
	sc := &Scope{s: s, parent: s.scope}
	if n := len(s.lists); n > 0 {
		sc.values, s.lists = s.lists[n-1], s.lists[:n-1]
	}
	s.scope = sc
	defer sc.end()
	f(sc)
}

func (sc *Scope) end() {
	s := sc.s
	s.scope = sc.parent
	for _, v := range sc.values {
		if v != nil && v.scope == sc {
			v.scope = nil
			v.release()
		}
	}
	if clear(sc.values); cap(sc.values) <= longestList {
		s.lists = append(s.lists, sc.values[:0])
	}
	sc.values = nil
}

// longestList is the room of the longest list of a scope that is used again.
const longestList = 1 << 16

func (sc *Scope) add(v *value) {
	v.scope = sc
	sc.values = append(sc.values, v)
}

// Keep lets t outlive the scope and returns it. It has no effect on a tensor that the
// scope does not own.
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

// Free releases t now, before its scope ends or the garbage collector finds it. Using t
// afterwards is ErrReleased. A second Free has no effect.
func (t *Tensor) Free() {
	v := t.v
	switch {
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

// Assign binds t to the value of v, which must have the same dtype and shape. It is the
// in-place update: t -= x is t.Assign(t.Sub(x)). Results computed from t before keep the
// old value. A leaf that requires a gradient stays one, so it can be assigned only under
// NoGrad or a value without a graph. A tensor whose value was lost with a program that
// failed can be assigned another.
func (t *Tensor) Assign(v *Tensor) error {
	s := t.v.s
	if s == nil && t.v.failed() != nil {
		return t.v.failed()
	}
	if err := s.enter("assign"); err != nil {
		return err
	}
	defer s.leave()
	switch {
	case t.v.failed() != nil && t.v.dtype == Invalid:
		return t.v.failed()
	case v.v.failed() != nil && v.v.s == nil: // the error of no session yet
		return s.fail(v.v.failed())
	case v.v.failed() != nil:
		return v.v.failed()
	case v.v.s != s:
		return s.fail(&OpError{Op: "assign", Inputs: v.v.String() + " to " + t.v.String(), Site: callSite(), Err: ErrOtherSession})
	case v.v.dtype != t.v.dtype:
		return s.fail(&OpError{Op: "assign", Inputs: v.v.String() + " to " + t.v.String(), Site: callSite(), Err: fmt.Errorf("%w; expected %v", ErrDType, t.v)})
	case !v.v.shape.Equal(t.v.shape):
		return s.fail(&OpError{Op: "assign", Inputs: v.v.String() + " to " + t.v.String(), Site: callSite(), Err: fmt.Errorf("%w; expected %v", ErrShape, t.v)})
	case v.v.refs <= 0:
		return s.fail(&OpError{Op: "assign", Inputs: v.v.String() + " to " + t.v.String(), Site: callSite(), Err: ErrReleased})
	case t.requires && (v.node != nil || v.requires && v != t):
		return s.fail(&OpError{Op: "assign", Inputs: v.v.String() + " to " + t.v.String(), Site: callSite(), Err: errLeaf})
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
