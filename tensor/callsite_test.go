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
		for _, n := range []int{0, 5, 10, 40} {
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

// TestNearCallers: after all callers were looked at once, only those that are needed are,
// or all again if none of them is outside the tensor packages.
func TestNearCallers(t *testing.T) {
	p, near := places{known: map[uintptr]bool{}}, uint8(0)
	if all := calledThrough(&p, &near, 10); all.n <= 10 || near != 1 {
		t.Errorf("%d callers, then %d; expected all, then 1", all.n, near)
	}
	first := calledThrough(&p, &near, 10)
	if first.n != 1 {
		t.Errorf("%d callers, expected 1", first.n)
	}
	p.known[first.pcs[0]] = false
	if all := calledThrough(&p, &near, 10); all.n <= 10 || near != 2 {
		t.Errorf("%d callers, then %d; expected all, then 2", all.n, near)
	}
}

// calledThrough returns the stack of a call through n functions.
func calledThrough(p *places, near *uint8, n int) stack {
	if n > 0 {
		return calledThrough(p, near, n-1)
	}
	return func() stack { return p.callers(near) }()
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
