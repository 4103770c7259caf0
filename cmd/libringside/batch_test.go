package main

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
)

// recordedCall returns a call of batch.record, of tensors.
func recordedCall(op tensor.Op, id int64, args ...int64) []int64 {
	return append([]int64{int64(op) | int64(len(args))<<opBits, id}, args...)
}

// otherCall returns a call of batch.record that is not of the op table.
func otherCall(op int64, words ...int64) []int64 {
	return append([]int64{op, int64(len(words))}, words...)
}

// chosen is the number of the newest gradient of gradients.
var chosen atomic.Int64

// gradients has a record compute the gradients of a loss, and returns their numbers.
func gradients(s *session, loss, flags int64, xs ...int64) (ids []int64, err error) {
	call := []int64{loss, 0, flags}
	for _, x := range xs {
		ids = append(ids, firstChosen+1<<30+chosen.Add(1))
		call = append(call, x, ids[len(ids)-1])
	}
	return ids, s.batch.record(s, otherCall(callGradients, call...), nil)
}

// TestBatch: operations that are handed over together are those of single calls, and
// results that are dropped with them leave nothing behind.
func TestBatch(t *testing.T) {
	s := here(t)
	x := s.floats(t, 3)
	before := len(s.tensors)
	var words, dead []int64
	last := x
	for i := range int64(100) {
		id := firstChosen + 10 + i
		words = append(words, recordedCall(tensor.OpNeg, id, last)...)
		if last != x {
			dead = append(dead, last)
		}
		last = id
	}
	// out of order, as threads may be
	words = append(words, recordedCall(tensor.OpMul, firstChosen+5, last, x)...)
	if err := s.batch.record(s, words, dead); err != nil {
		t.Fatal(err)
	}
	if n := len(s.tensors); n != before+2 {
		t.Errorf("%d tensors, expected %d", n, before+2)
	}
	if y, z := s.first(t, last, 1), s.first(t, firstChosen+5, 1); y != 3 || z != 9 {
		t.Errorf("%g and %g, expected 3 and 9", y, z)
	}
	number := append([]int64{int64(tensor.OpAdd) | 2<<opBits | 2<<scalarsFrom, firstChosen + 900, last}, int64(math.Float64bits(0.5)))
	if err := s.batch.record(s, number, []int64{firstChosen + 5, last}); err != nil {
		t.Fatal(err)
	}
	if y := s.first(t, firstChosen+900, 1); y != 3.5 {
		t.Errorf("%g, expected 3.5", y)
	}
	if len(s.tensors) != before+1 {
		t.Errorf("%d tensors, expected %d", len(s.tensors), before+1)
	}
}

// TestBatchGraph: a graph keeps the values of results that are dropped in the call
// that made them.
func TestBatchGraph(t *testing.T) {
	s := here(t)
	x := s.floats(t, 2)
	if err := s.requireGrad(x); err != nil {
		t.Fatal(err)
	}
	y, z := int64(firstChosen+1), int64(firstChosen+2)
	if err := s.batch.record(s, append(recordedCall(tensor.OpExp, y, x), recordedCall(tensor.OpMul, z, y, y)...), []int64{y}); err != nil {
		t.Fatal(err)
	}
	gs, err := gradients(s, s.call(t, tensor.OpSum, []int64{0}, z), 0, x)
	if err != nil {
		t.Fatal(err)
	}
	if g, want := s.first(t, gs[0], 1), float32(2*math.Exp(4)); math.Abs(float64(g-want)) > 1e-3 {
		t.Errorf("gradient %g, expected %g", g, want)
	}
}

// TestBatchRefused: the first error is returned, and the operations after it are
// recorded.
func TestBatchRefused(t *testing.T) {
	s := here(t)
	x := s.floats(t, 1)
	for what, c := range map[string]struct {
		words []int64
		err   error
	}{
		"one word":          {[]int64{1}, errArgument},
		"too few words":     {[]int64{int64(tensor.OpNeg) | 1<<opBits, firstChosen}, errArgument},
		"a small number":    {recordedCall(tensor.OpNeg, 5, x), errHandle},
		"a number twice":    {append(recordedCall(tensor.OpNeg, firstChosen, x), recordedCall(tensor.OpNeg, firstChosen, x)...), errHandle},
		"an unknown tensor": {recordedCall(tensor.OpNeg, firstChosen, 1<<40), errHandle},
		"no operation":      {recordedCall(4000, firstChosen, x), errArgument},
		"too few gradients": {otherCall(callGradients, x, 0), errArgument},
		"half a gradient":   {otherCall(callGradients, x, 0, 0, x), errArgument},
		"a small gradient":  {otherCall(callGradients, x, 0, 0, x, 5), errHandle},
		"no graph":          {otherCall(callGradients, x, 0, 0, x, firstChosen), tensor.ErrNoGrad},
		"no optimizer":      {otherCall(callStep, 1<<40, 0, 0), errHandle},
		"a short step":      {otherCall(callStep, 1<<40), errArgument},
		"two lines":         {otherCall(callLine, 1, 2), errArgument},
		"a long call":       {[]int64{callStep, 4, 1, 2, 3}, errArgument},
		"a negative length": {[]int64{callStep, -1, 1, 2, 3}, errArgument},
		"its number alone":  {[]int64{callStep}, errArgument},
		"a bad shape":       {[]int64{int64(tensor.OpReshape) | 1<<opBits | 1<<(opBits+argBits), firstChosen, x, 7}, tensor.ErrShape},
	} {
		if err := s.batch.record(s, c.words, nil); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, expected %v", what, err, c.err)
		}
		s.drop([]int64{firstChosen})
	}
	good := int64(firstChosen + 50)
	err := s.batch.record(s, append(recordedCall(tensor.OpNeg, firstChosen+40, 1<<40), recordedCall(tensor.OpNeg, good, x)...), nil)
	if !errors.Is(err, errHandle) || s.first(t, good, 1) != -1 {
		t.Errorf("beside a failure: %v", err)
	}
}

// TestBatchStep: a record computes gradients of what it has recorded, and takes a step
// with them; one of another session's optimizer is refused.
func TestBatchStep(t *testing.T) {
	s, other := here(t), here(t)
	x := s.floats(t, 3)
	if err := s.requireGrad(x); err != nil {
		t.Fatal(err)
	}
	o, err := s.newOptimizer(`{"kind": "sgd", "names": ["x"], "lr": 1}`, []int64{x})
	if err != nil {
		t.Fatal(err)
	}
	handle := int64(all.put(o))
	loss, g := int64(firstChosen+1), int64(firstChosen+2)
	lr := int64(math.Float64bits(0.5))
	words := append(recordedCall(tensor.OpSquare, loss, x), otherCall(callGradients, loss, 0, 0, x, g)...)
	words = append(words, otherCall(callStep, handle, lr, 0, g)...)
	if err := s.batch.record(s, words, []int64{loss}); err != nil {
		t.Fatal(err)
	}
	if v, d := s.first(t, x, 1), s.first(t, g, 1); v != 0 || d != 6 {
		t.Errorf("x is %g after a gradient of %g, expected 0 and 6", v, d)
	}
	before := len(s.tensors)
	loss = firstChosen + 10
	words = append(recordedCall(tensor.OpSquare, loss, x), otherCall(callGradients, loss, 0, 0, x, loss+1, x, loss+1)...)
	if err := s.batch.record(s, words, []int64{loss}); !errors.Is(err, errHandle) || len(s.tensors) != before+1 {
		t.Errorf("two gradients of one number: %v, and %d tensors more", err, len(s.tensors)-before)
	}
	if err := s.batch.record(s, recordedCall(tensor.OpNeg, loss+1, x), nil); !errors.Is(err, errHandle) {
		t.Errorf("a number of an earlier record: %v", err)
	}
	if err := other.batch.record(other, otherCall(callStep, handle, lr, 0), nil); !errors.Is(err, errArgument) {
		t.Errorf("an optimizer of another session: %v", err)
	}
}

// TestBatchLine: an error names the line that the record has for its operation, and the
// caller's for those after it.
func TestBatchLine(t *testing.T) {
	s := here(t)
	n, err := lines.number("model.py:12")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := lines.number("model.py:12"); err != nil || again != n {
		t.Errorf("number %d, then %d, %v", n, again, err)
	}
	x := s.floats(t, 1)
	bad := []int64{int64(tensor.OpReshape) | 1<<opBits | 1<<(opBits+argBits), firstChosen, x, 7}
	err = s.batch.record(s, append(otherCall(callLine, int64(n)), bad...), nil)
	if err == nil || !strings.Contains(err.Error(), "model.py:12") {
		t.Errorf("%v, expected one of model.py:12", err)
	}
	for _, words := range [][]int64{bad, append(otherCall(callLine, 0), bad...)} {
		if err = s.batch.record(s, words, nil); err == nil || strings.Contains(err.Error(), "model.py") {
			t.Errorf("%v, expected no line of model.py", err)
		}
	}
	few := names{most: 1}
	for i, name := range []string{"a", "b", "a"} {
		if n, err := few.number(name); err != nil || n != []int{1, 0, 1}[i] {
			t.Errorf("name %s is %d, %v", name, n, err)
		}
	}
}

// TestBatchPanic: a panic, which the exported function makes an error, leaves no result
// behind under a number of the next record.
func TestBatchPanic(t *testing.T) {
	s := here(t)
	x := s.floats(t, 2)
	const empty = 1 << 40
	s.tensors[empty] = nil
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic of a tensor that is nil")
			}
		}()
		_ = s.batch.record(s, append(recordedCall(tensor.OpNeg, firstChosen+1, x), recordedCall(tensor.OpNeg, firstChosen+2, empty)...), nil)
	}()
	delete(s.tensors, empty)
	if err := s.batch.record(s, recordedCall(tensor.OpExp, firstChosen+40, x), []int64{firstChosen + 40}); err != nil {
		t.Fatal(err)
	}
	if y := s.first(t, firstChosen+1, 1); y != -2 {
		t.Errorf("%g, expected -2", y)
	}
	if n := len(s.tensors); n != 2 {
		t.Errorf("%d tensors, expected 2", n)
	}
}

// TestScopeOfChosen: a scope drops what was made in it, whatever its number.
func TestScopeOfChosen(t *testing.T) {
	s := here(t)
	x := s.floats(t, 1)
	if err := s.batch.record(s, recordedCall(tensor.OpNeg, firstChosen+1, x), nil); err != nil {
		t.Fatal(err)
	}
	mark := s.scope(0, nil)
	if err := s.batch.record(s, recordedCall(tensor.OpNeg, firstChosen+2, x), nil); err != nil {
		t.Fatal(err)
	}
	kept, gone := s.floats(t, 5), s.floats(t, 6)
	s.scope(mark, []int64{kept})
	for id, want := range map[int64]bool{x: true, firstChosen + 1: true, firstChosen + 2: false, kept: true, gone: false} {
		if _, ok := s.tensors[id]; ok != want {
			t.Errorf("tensor %d is there: %v, expected %v", id, ok, want)
		}
	}
}

// TestAboutBesideSteps: a thread may ask about an optimizer while another steps.
func TestAboutBesideSteps(t *testing.T) {
	s := here(t)
	p := s.floats(t, 1)
	if err := s.requireGrad(p); err != nil {
		t.Fatal(err)
	}
	g := s.floats(t, 1)
	o, err := s.newOptimizer(`{"kind": "adamw", "names": ["p"], "lr": 0.1}`, []int64{p})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 50 {
			if err := s.enter(); err != nil {
				t.Error(err)
				return
			}
			if err := o.step(0.1, 0, []int64{g}); err != nil {
				t.Error(err)
			}
			s.leave()
		}
	})
	for range 50 {
		if text, err := o.about(); err != nil || !strings.Contains(text, "steps") {
			t.Errorf("%s, %v", text, err)
		}
		if _, err := s.about(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

// TestCheckpoint: a checkpoint gives tensors and random numbers back, with its step and
// notes; what does not fit is refused.
func TestCheckpoint(t *testing.T) {
	s, dir := here(t), filepath.Join(t.TempDir(), "run")
	p := s.floats(t, 1, 2)
	draw := func() float32 { return s.first(t, s.call(t, tensor.OpRandN, []int64{int64(tensor.F32), 1}), 1) }
	draw()
	options := `{"names": ["p"], "step": 7, "notes": {"of": "me"}}`
	if err := saveCheckpoint(s, dir, options, []int64{p}); err != nil {
		t.Fatal(err)
	}
	want := draw()
	if err := s.assign(p, s.floats(t, 5, 6), true); err != nil {
		t.Fatal(err)
	}
	text, err := restoreCheckpoint(s, dir, options, []int64{p})
	if err != nil || !strings.Contains(text, `"step":7`) || !strings.Contains(text, `"of":"me"`) {
		t.Fatalf("%s, %v", text, err)
	}
	if x := s.first(t, p, 2); x != 1 {
		t.Errorf("restored %g, expected 1", x)
	}
	if x := draw(); x != want {
		t.Errorf("the next random number is %g, expected %g", x, want)
	}
	if _, err := restoreCheckpoint(s, dir, options, []int64{s.floats(t, 1)}); err == nil {
		t.Error("another shape was restored")
	}
	if err := s.requireGrad(p); err != nil {
		t.Fatal(err)
	}
	if _, err := restoreCheckpoint(s, dir, options, []int64{s.call(t, tensor.OpNeg, nil, p)}); !errors.Is(err, errArgument) {
		t.Errorf("a tensor with a graph: %v", err)
	}
	if err := checkpoint.Save(t.Context(), s.s, dir, []tensor.Named{{Name: "p", T: s.tensors[p].t}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := restoreCheckpoint(s, dir, options, []int64{p}); !errors.Is(err, errArgument) {
		t.Errorf("a checkpoint without random numbers: %v", err)
	}
}
