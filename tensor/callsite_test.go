package tensor

import (
	"errors"
	"strings"
	"testing"
)

// TestSiteOfDeepCalls: the place of an operation is found as near or as far away as it
// was called, also a second time.
func TestSiteOfDeepCalls(t *testing.T) {
	eng := &recorder{}
	s := NewSession(eng, nil)
	defer s.Close()
	x, i := From(s, []float32{1, 2}), From(s, []int64{7})
	var deep func(n int, f func())
	deep = func(n int, f func()) {
		if n > 0 {
			deep(n-1, f)
			return
		}
		f()
	}
	inside := func(f func()) { s.Scope(func(*Scope) { f() }) }
	for range 2 {
		for _, n := range []int{0, 5, nearCallers, 40} {
			for name, f := range map[string]func(){
				"an operation":       func() { x.IndexSelect(0, i) },
				"one within a scope": func() { inside(func() { Embedding(x, i) }) },
			} {
				deep(n, f)
				eng.fail = &RunError{Instr: 0, Op: "index_select", Err: ErrIndex}
				if err := s.Sync(); err == nil || !strings.Contains(err.Error(), "callsite_test.go:") {
					t.Errorf("%s, %d calls deep: %v", name, n, err)
				}
				_ = s.ClearErr()
			}
		}
	}
}

// TestSiteBeyondNearCallers: callers far away are looked at where none of the near ones
// is outside the tensor packages, and only then.
func TestSiteBeyondNearCallers(t *testing.T) {
	const n = 2 * nearCallers
	near, inside := calledThrough(places{}, n), places{}
	if near.n != nearCallers {
		t.Errorf("%d callers, expected the %d near ones alone", near.n, nearCallers)
	}
	for _, pc := range near.pcs[:near.n] {
		inside[pc] = false
	}
	if far := calledThrough(inside, n); far.n <= n {
		t.Errorf("%d callers, expected more than the %d inside", far.n, n)
	}
}

// calledThrough returns the stack of a call through n functions.
func calledThrough(p places, n int) stack {
	if n > 0 {
		return calledThrough(p, n-1)
	}
	return func() stack { return p.callers() }()
}

// TestCallError: an error of another package gets the place of the call once, in Go or in
// the language of the session's Site.
func TestCallError(t *testing.T) {
	err := CallError(nil, "grad", ErrNoGrad)
	if !errors.Is(err, ErrNoGrad) || !strings.Contains(err.Error(), "grad: tensor: no gradient (recorded at ") || !strings.Contains(err.Error(), "callsite_test.go:") {
		t.Error(err)
	}
	if again := CallError(nil, "other", err); again != err {
		t.Errorf("%v, expected %v as it was", again, err)
	}
	if err := CallError(nil, "grad", nil); err != nil {
		t.Error(err)
	}
	s := NewSession(&recorder{}, &SessionOptions{Site: func() string { return "program.py:7" }})
	defer s.Close()
	if err := CallError(s, "grad", ErrNoGrad); !strings.HasSuffix(err.Error(), "(recorded at program.py:7)") {
		t.Error(err)
	}
}

// TestOnePlace: what OnePlace records counts as recorded where it is called, however deep
// calls nest, and what comes after it where it is.
func TestOnePlace(t *testing.T) {
	eng := &recorder{}
	s := NewSession(eng, nil)
	defer s.Close()
	x, i := From(s, []float32{1, 2}), From(s, []int64{7})
	site := func(record func()) string {
		record()
		eng.fail = &RunError{Instr: 0, Op: "index_select", Err: ErrIndex}
		err := s.Sync()
		eng.fail = nil
		_ = s.ClearErr()
		var op *OpError
		if !errors.As(err, &op) {
			t.Fatalf("%v, expected an error of an operation", err)
		}
		return op.Site
	}
	within := func() {
		OnePlace(s, func() { x.IndexSelect(0, i) })
	}
	outer := site(func() { OnePlace(s, func() { within() }) })
	inner := site(within)
	after := site(func() { x.IndexSelect(0, i) })
	if outer == inner || inner == after || outer == after {
		t.Errorf("%s, %s and %s, expected three places", outer, inner, after)
	}
}
