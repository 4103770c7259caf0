package tensor

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestOperationsDoNoIO(t *testing.T) {
	s, r := newRecorded(t)
	x := From(s, []float32{1, 2, 3})
	y := x.Add(x).MulS(3).Exp().Sum()
	if len(r.batches) != 0 {
		t.Fatalf("%d batches before a sync point", len(r.batches))
	}
	if _, err := y.Item(); err != nil {
		t.Fatal(err)
	}
	if len(r.batches) != 1 {
		t.Fatalf("%d batches for one read", len(r.batches))
	}
	if got := len(r.last().Program.Instrs); got != 4 {
		t.Fatalf("%d instructions", got)
	}
}

// TestExpect: an engine is told of every program before it is complete, and of nothing
// else.
func TestExpect(t *testing.T) {
	s, r := newRecorded(t)
	x := From(s, []float32{1, 2, 3})
	for want, f := range []func() error{
		s.Sync, // an upload alone
		func() error { _, err := x.Sum().Item(); return err },
		func() error { x.AddS(1); return s.Flush() },
	} {
		if r.awaited != want-min(want, 1) {
			t.Errorf("told %d times before step %d", r.awaited, want)
		}
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	if r.awaited != 2 {
		t.Errorf("told %d times of 2 programs", r.awaited)
	}
}

// TestLoopIsOneProgram: a training loop is the same program at every step, whatever its
// scalars and ids, and its donated inputs stay donated.
func TestLoopIsOneProgram(t *testing.T) {
	s, r := newRecorded(t)
	p := Zeros(s, F32, 4)
	for i := range 5 {
		s.Scope(func(sc *Scope) {
			x := From(s, []float32{1, 2, 3, float32(i)})
			g := p.Mul(x).MulS(2)
			if err := p.Assign(p.Sub(g.MulS(0.1 / float64(i+1)))); err != nil {
				t.Fatal(err)
			}
		})
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if r.batches[1].Hash == r.batches[0].Hash {
		t.Error("the first step makes p itself, it can't be the same program as the second")
	}
	for i := 2; i < 5; i++ {
		if r.batches[i].Hash != r.batches[1].Hash {
			t.Errorf("step %d is another program:\n%v\nbefore:\n%v", i, r.batches[i].Program, r.batches[1].Program)
		}
	}
	b := r.last()
	for i, e := range b.Program.Externals {
		if !e.Donated {
			t.Errorf("input %d is not donated", i)
		}
	}
	if len(b.Frees) != 0 {
		t.Errorf("frees %v: both inputs go with the program", b.Frees)
	}
	if keep := keeps(b.Program); keep != 1 {
		t.Errorf("%d results kept, only the parameter lives on", keep)
	}
	if len(r.live) != 1 {
		t.Errorf("%d values alive at the engine, expected 1", len(r.live))
	}
	if live := s.Stats().Live; live != 1 {
		t.Errorf("session counts %d live values, expected 1", live)
	}
}

func keeps(p *Program) (n int) {
	for _, in := range p.Instrs {
		if in.Keep {
			n++
		}
	}
	return n
}

func TestScalarsShareASlotByPlace(t *testing.T) {
	s, r := newRecorded(t)
	x := From(s, []float32{1, 2})
	a, b, c := x.MulS(0.5), x.MulS(0.5), x.AddS(0.5)
	_, _, _ = a, b, c
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if n := len(r.last().Scalars); n != 2 {
		t.Errorf("%d scalars for two equal factors and one summand, expected 2", n)
	}
}

func TestScopeReleases(t *testing.T) {
	s, r := newRecorded(t)
	var kept, dropped *Tensor
	s.Scope(func(sc *Scope) {
		x := From(s, []float32{1, 2})
		dropped = x.Neg()
		s.Scope(func(in *Scope) { kept = in.Keep(dropped.Abs()) })
		sc.Keep(kept)
	})
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if keep := keeps(r.last().Program); keep != 1 {
		t.Errorf("%d results kept, expected 1", keep)
	}
	if _, err := Data[float32](dropped); !errors.Is(err, ErrReleased) {
		t.Errorf("reading a released tensor: %v", err)
	}
	if err := s.ClearErr(); !errors.Is(err, ErrReleased) {
		t.Errorf("the session's error is %v", err)
	}
	if _, err := Data[float32](kept); err != nil {
		t.Errorf("the session goes on after ClearErr: %v", err)
	}
	if len(r.live) != 1 {
		t.Errorf("%d values alive at the engine, expected 1", len(r.live))
	}
}

func TestFree(t *testing.T) {
	s, r := newRecorded(t)
	x := From(s, []float32{1, 2})
	y := x.Neg()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	x.Free()
	x.Free()
	if len(r.batches) != 1 {
		t.Fatal("Free travels alone")
	}
	if z := x.Add(y); !errors.Is(z.Err(), ErrReleased) {
		t.Errorf("using a freed tensor: %v", z.Err())
	}
	s.ClearErr()
	y.Abs()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if f := r.last().Frees; len(f) != 1 {
		t.Errorf("frees %v, expected x", f)
	}
}

func TestAssign(t *testing.T) {
	s, r := newRecorded(t)
	p := From(s, []float32{1, 2}).RequireGrad()
	before := p.MulS(2)
	s.NoGrad(func() {
		if err := p.Assign(p.AddS(1)); err != nil {
			t.Fatal(err)
		}
	})
	after := p.MulS(2)
	if !p.RequiresGrad() {
		t.Error("an assigned leaf is a leaf no more")
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	prog := r.last().Program
	b, a := prog.ArgsOf(0)[0], prog.ArgsOf(2)[0]
	if _, ok := b.External(); !ok {
		t.Errorf("what was computed before reads %v, expected the old value", b)
	}
	if i, ok := a.Instr(); !ok || i != 1 {
		t.Errorf("what was computed after reads %v, expected the new value", a)
	}
	_, _ = before, after

	for _, c := range []struct {
		bad  *Tensor
		want string
	}{
		{Zeros(s, F32, 3), "assign of f32[3] to f32[2]: tensor: wrong shape; expected f32[2] (recorded at "},
		{Zeros(s, F64, 2), "assign of f64[2] to f32[2]: tensor: wrong dtype; expected f32[2] (recorded at "},
		{p.MulS(2), "assign of f32[2] to f32[2]: tensor: a leaf that requires"},
	} {
		if err := p.Assign(c.bad); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, expected %q", err, c.want)
		}
		s.ClearErr()
	}
}

func TestErrorsAreStickyAndLocated(t *testing.T) {
	s, _ := newRecorded(t)
	x := Zeros(s, F32, 2, 3)
	y := x.Matmul(Zeros(s, F32, 4, 5)) // the line that the error names
	z := y.AddS(1).Sum()
	for name, err := range map[string]error{"result": y.Err(), "chain": z.Err(), "session": s.Err(), "sync": s.Sync()} {
		var op *OpError
		if !errors.As(err, &op) || !errors.Is(err, ErrShape) {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range []string{"matmul", "f32[2 3]", "f32[4 5]", "session_test.go:"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q doesn't name %q", name, err, want)
			}
		}
	}
	if _, err := x.Sum().Item(); !errors.Is(err, ErrShape) {
		t.Errorf("a sync point of a sound tensor returns %v, expected the sticky error", err)
	}
	s.ClearErr()
	if _, err := x.Sum().Item(); err != nil {
		t.Errorf("after ClearErr: %v", err)
	}
	for want, got := range map[string]*Tensor{
		"3 values, expected 4":                      From(s, []float32{1, 2, 3}, 2, 2),
		"7 bytes, expected 16: 4 values of 4 bytes": FromBytes(s, F32, make([]byte, 7), 2, 2),
	} {
		if err := got.Err(); !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), want+" (") {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	if _, err := z.Item(); !errors.Is(err, ErrShape) {
		t.Errorf("what came out of the error stays one: %v", err)
	}
}

// TestErrorsAreShort: the error of an operation with very many arguments lists some and
// counts the rest.
func TestErrorsAreShort(t *testing.T) {
	s, _ := newRecorded(t)
	x := Zeros(s, F32, 2)
	many := make([]*Tensor, MaxOperands+1)
	for i := range many {
		many[i] = x
	}
	err := Concat(0, many...).Err()
	if !errors.Is(err, ErrShape) || len(err.Error()) > 400 || !strings.Contains(err.Error(), "f32[2], 4089 more") || !strings.Contains(err.Error(), "4097 arguments, expected 1 to 4096") {
		t.Errorf("%v", err)
	}
	s.ClearErr()
	if err := Zeros(s, F32).Softmax(-1).Err(); !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), "dim -1 of a scalar") {
		t.Errorf("softmax of a scalar: %v", err)
	}
}

func TestRunErrorsAreLocated(t *testing.T) {
	s, r := newRecorded(t)
	e := Embedding(Zeros(s, F32, 4, 2), From(s, []int64{9}))
	r.fail = &RunError{Instr: 1, Op: "index_select", Inputs: "f32[4 2], i64[1]", Err: ErrIndex}
	_, err := Data[float32](e)
	if !errors.Is(err, ErrIndex) || !strings.Contains(err.Error(), "session_test.go:") {
		t.Errorf("%v; expected ErrIndex with the recording line", err)
	}
}

func TestMixingSessions(t *testing.T) {
	a, _ := newRecorded(t)
	b, _ := newRecorded(t)
	y := Zeros(a, F32, 2).Add(Zeros(b, F32, 2))
	if !errors.Is(y.Err(), ErrOtherSession) {
		t.Errorf("%v", y.Err())
	}
}

func TestTwoGoroutinesAreFoundOut(t *testing.T) {
	s, _ := newRecorded(t)
	x := Zeros(s, F32, 2)
	if err := s.enter("held"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		if y := x.Neg(); !errors.Is(y.Err(), ErrConcurrent) {
			t.Errorf("second goroutine got %v", y.Err())
		}
	}()
	wg.Wait()
	s.leave()
	if y := x.Neg(); y.Err() != nil || s.Sync() != nil {
		t.Error("the session doesn't go on")
	}
}

func TestClosed(t *testing.T) {
	s, _ := newRecorded(t)
	x := Zeros(s, F32, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error("second Close:", err)
	}
	if _, err := Data[float32](x); !errors.Is(err, ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
}

// TestCollectorFrees: a value that is dropped without Free or Scope is freed once the
// garbage collector has found it, which it can from the next flush on.
func TestCollectorFrees(t *testing.T) {
	s, r := newRecorded(t)
	keep := Zeros(s, F32, 2)
	func() {
		x := keep.AddS(1)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		runtime.KeepAlive(x)
	}()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// Cleanups run some time after a collection.
	for n := 0; n == 0 && ctx.Err() == nil; runtime.Gosched() {
		runtime.GC()
		s.dropped.mu.Lock()
		n = len(s.dropped.values)
		s.dropped.mu.Unlock()
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if len(r.live) != 1 {
		t.Errorf("%d values alive at the engine, expected 1", len(r.live))
	}
	runtime.KeepAlive(keep)
}

// TestReleasedNeedNoCleanup: values that are released before the next flush never get a
// cleanup, whose price an operation would notice. Those that are held get one.
func TestReleasedNeedNoCleanup(t *testing.T) {
	s, _ := newRecorded(t)
	sync := func() {
		t.Helper()
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	kept, freed, sent := Zeros(s, F32, 2), Zeros(s, F32, 2), From(s, []float32{1})
	sync()
	if n := s.dropped.live; n != 8+8+4 {
		t.Errorf("%d bytes counted, expected 20", n)
	}
	gone := []*value{freed.v, sent.v}
	freed.Free()
	sent.Free()
	sync()
	for i, v := range gone {
		if v.more != nil {
			t.Errorf("value %d has a cleanup, though it was released before the second flush", i)
		}
	}
	if kept.v.more == nil || s.dropped.live != 8 || len(s.dropped.fresh) != 0 {
		t.Errorf("the value that is held: %v, %d bytes counted, %d fresh ones", kept.v.more, s.dropped.live, len(s.dropped.fresh))
	}
	kept.Free()
	if s.dropped.live != 0 {
		t.Errorf("%d bytes counted when all are released", s.dropped.live)
	}
}

func TestFullProgramFlushes(t *testing.T) {
	s, r := newRecorded(t)
	x := Zeros(s, F32, 2)
	for range 3 * MaxInstrs {
		x = x.AddS(1)
	}
	if len(r.batches) == 0 {
		t.Fatal("nothing was flushed")
	}
	for _, b := range r.batches {
		if n := len(b.Program.Instrs); n > MaxInstrs || len(b.Encoded) > MaxProgramBytes {
			t.Fatalf("a program of %d instructions and %d bytes", n, len(b.Encoded))
		}
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
}

func TestPromotion(t *testing.T) {
	s, _ := newRecorded(t)
	f32, f64, i32, i64, b := Zeros(s, F32, 2), Zeros(s, F64, 2), Zeros(s, I32, 2), Zeros(s, I64, 2), Zeros(s, Bool, 2)
	point := func(d DType) *Tensor { return Zeros(s, d) }
	for _, c := range []struct {
		name string
		got  *Tensor
		want DType
	}{
		{"f32+f64", f32.Add(f64), F64}, {"i32+i64", i32.Add(i64), I64}, {"i64+f32", i64.Add(f32), F32},
		{"i32*2", i32.MulS(2), I32}, {"i32*2.5", i32.MulS(2.5), F32}, {"f64*0.1", f64.MulS(0.1), F64},
		{"i32/i32", i32.Div(i32), F32}, {"bool*f64", b.Mul(f64), F64}, {"bool*2", b.MulS(2), I64}, {"bool*2.5", b.MulS(2.5), F32},
		{"exp i64", i64.Exp(), F32}, {"sum bool", b.Sum(), I64}, {"mean i32", i32.Mean(), F32},
		{"u8*-1", Zeros(s, U8, 2).MulS(-1), F32}, {"i32+2^31", i32.AddS(1 << 31), F32}, {"i32-2^31", i32.AddS(-1 << 31), I32}, {"i64*1e30", i64.MulS(1e30), F32},
		{"i32<0.5", i32.LtS(0.5), Bool}, {"where", Where(b, i32, f64), F64},
		// An operand without dims widens only to a higher kind.
		{"f32+f64[]", f32.Add(point(F64)), F32}, {"f64[]+f32", point(F64).Add(f32), F32}, {"i32+i64[]", i32.Add(point(I64)), I32}, {"u8+i64[]", Zeros(s, U8, 2).Add(point(I64)), U8},
		{"i32+f64[]", i32.Add(point(F64)), F64}, {"i64+f16[]", i64.Add(point(F16)), F16}, {"bool+u8[]", b.Add(point(U8)), U8}, {"f16+bf16[]", Zeros(s, F16, 2).Add(point(BF16)), F16},
		{"f16+f32[]", Zeros(s, F16, 2).Add(point(F32)), F16}, {"f16+i64[]", Zeros(s, F16, 2).Add(point(I64)), F16}, {"f32[]+f64[]", point(F32).Add(point(F64)), F64},
		{"where with a point", Where(b, f32, point(F64)), F32}, {"where with a point of floats", Where(b, i32, point(F32)), F32}, {"f32+f64[1]", f32.Add(Zeros(s, F64, 1)), F64},
		// bools
		{"bool+bool", b.Add(b), Bool}, {"bool*bool", b.Mul(b), Bool}, {"max of bools", b.Maximum(b), Bool}, {"min of bools", b.Minimum(b), Bool}, {"bool/bool", b.Div(b), F32},
		{"largest bool", b.Max(), Bool}, {"bool>1", b.GtS(1), Bool}, {"bool+2^70", b.AddS(1 << 70), F32}, {"where of bools", WhereS(b, b, 2), I64}, {"where of bools with a fraction", WhereS(b, b, 0.5), F32},
		// integers stay
		{"floor", i32.Floor(), I32}, {"ceil", Zeros(s, U8, 2).Ceil(), U8}, {"floor of f16", Zeros(s, F16, 2).Floor(), F16}, {"floor of bools", b.Floor(), F32},
		{"clamp", i32.Clamp(0, 2), I32}, {"clamp from above", i32.Clamp(-Inf, 2), I32}, {"clamp with a fraction", i32.Clamp(0.5, 2), F32}, {"clamp of bools", b.Clamp(0, 0), I64}, {"clamp of f16", Zeros(s, F16, 2).Clamp(0, 0.5), F16},
		{"masked fill", i32.MaskedFill(b, 1.5), I32}, {"masked fill of bools", b.MaskedFill(b, 2), Bool}, {"masked fill of floats", f32.MaskedFill(b, Inf), F32},
	} {
		if c.got.Err() != nil || c.got.DType() != c.want {
			t.Errorf("%s is %v, expected %v", c.name, c.got, c.want)
		}
	}
	for name, y := range map[string]*Tensor{
		"bool-bool": b.Sub(b), "bool^bool": b.Pow(b), "-bool": b.Neg(), "300 in u8": Zeros(s, U8, 2).MaskedFill(b, 300), "-1 in u8": Zeros(s, U8, 2).MaskedFill(b, -1),
		"NaN in i64": i64.MaskedFill(b, math.NaN()), "2^40 in i32": i32.MaskedFill(b, 1<<40),
	} {
		if !errors.Is(y.Err(), ErrDType) {
			t.Errorf("%s is %v, expected ErrDType", name, y)
		}
	}
}

func TestSlice(t *testing.T) {
	s, _ := newRecorded(t)
	x := Zeros(s, F32, 10, 4)
	for _, c := range []struct {
		name string
		got  *Tensor
		want Shape
	}{
		{"x[1:3]", x.Slice(To(1, 3)), Shape{2, 4}},
		{"x[-3:]", x.Slice(To(-3, All)), Shape{3, 4}},
		{"x[::3]", x.Slice(By(All, All, 3)), Shape{4, 4}},
		{"x[::-1]", x.Slice(By(All, All, -1)), Shape{10, 4}},
		{"x[8:2:-2]", x.Slice(By(8, 2, -2)), Shape{3, 4}},
		{"x[5:2]", x.Slice(To(5, 2)), Shape{0, 4}},
		{"x[100:]", x.Slice(To(100, All)), Shape{0, 4}},
		{"x[3]", x.Slice(At(3)), Shape{4}},
		{"x[..., -1]", x.Slice(Ellipsis(), At(-1)), Shape{10}},
		{"x[:, newaxis, 1:]", x.Slice(Every(), NewAxis(), To(1, All)), Shape{10, 1, 3}},
	} {
		if c.got.Err() != nil || !c.got.Shape().Equal(c.want) {
			t.Errorf("%s is %v, expected %v", c.name, c.got, c.want)
		}
	}
	if y := x.Slice(At(10)); !errors.Is(y.Err(), ErrIndex) {
		t.Errorf("x[10] is %v", y)
	}
}

func BenchmarkRecord(b *testing.B) {
	s := NewSession(&recorder{}, nil)
	s.eng = &discard{}
	x := Zeros(s, F32, 4, 4)
	b.ReportAllocs()
	for b.Loop() {
		x = x.Add(x)
	}
}

func TestBytes(t *testing.T) {
	s, r := newRecorded(t)
	x := FromBytes(s, I32, []byte{1, 0, 0, 0, 2, 0, 0, 0}, 2)
	if err := x.ViewBytes(func(b []byte) error {
		if len(b) != 8 {
			t.Errorf("%d bytes, expected 8", len(b))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := r.last().Uploads; len(got) != 1 || got[0].DType != I32 {
		t.Errorf("uploads %v", got)
	}
	for name, bad := range map[string]*Tensor{
		"length": FromBytes(s, I32, make([]byte, 7), 2), "count": FromBytes(s, I32, make([]byte, 8), 3), "dtype": FromBytes(s, Invalid, nil, 0),
	} {
		if bad.Err() == nil {
			t.Errorf("wrong %s is accepted", name)
		}
	}
}

func TestGradientOutlivesItsScope(t *testing.T) {
	s, r := newRecorded(t)
	p := From(s, []float32{1, 2}).RequireGrad()
	s.Scope(func(*Scope) { p.SetGrad(p.Detach().MulS(2)) })
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := Data[float32](p.Grad()); err != nil {
		t.Errorf("reading it after the scope: %v", err)
	}
	p.SetGrad(nil)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if len(r.live) != 1 {
		t.Errorf("%d values alive at the engine, expected the leaf alone", len(r.live))
	}
}

// TestSeeds: a seed means the same in the options and for Seed, and a scalar can hold it.
func TestSeeds(t *testing.T) {
	for _, seed := range []uint64{0, 5, 1<<53 - 1, 1<<53 + 5, 1<<60 + 1, math.MaxUint64} {
		first, then := &recorder{}, &recorder{}
		a, b := NewSession(first, &SessionOptions{Seed: seed}), NewSession(then, nil)
		b.Seed(seed)
		for _, s := range []*Session{a, b} {
			Rand(s, F32, 2)
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		got, want := first.batches[0].Scalars, then.batches[0].Scalars
		if !slices.Equal(got, want) || uint64(got[0]) != seed&(1<<53-1) {
			t.Errorf("seed %#x travels as %v and %v", seed, got, want)
		}
	}
}

// TestSite: errors name the place that the options give, where operations are recorded
// and where they run.
func TestSite(t *testing.T) {
	line := "program.py:1"
	eng := &recorder{}
	s := NewSession(eng, &SessionOptions{Site: func() string { return line }})
	defer s.Close()
	x := From(s, []float32{1, 2})
	if err := x.Add(From(s, []float32{1, 2, 3})).Err(); err == nil || !strings.HasSuffix(err.Error(), "(recorded at program.py:1)") {
		t.Errorf("recording: %v", err)
	}
	_ = s.ClearErr()
	x.IndexSelect(0, From(s, []int64{7}))
	line = "program.py:2"
	eng.fail = &RunError{Instr: 0, Op: "index_select", Err: ErrIndex}
	if err := s.Sync(); err == nil || !strings.HasSuffix(err.Error(), "(recorded at program.py:1)") {
		t.Errorf("running: %v", err)
	}
}

// TestPin: a pinned value has its content, and is given back once.
func TestPin(t *testing.T) {
	s, _ := newRecorded(t)
	b, release, err := From(s, []uint8{1, 2, 3}).Pin()
	if err != nil || !slices.Equal(b, make([]byte, 3)) { // the recorder's answer
		t.Fatalf("%v, %v", b, err)
	}
	release()
	if _, _, err := Zeros(nil, F32, 1).Pin(); err == nil {
		t.Error("a tensor that stands for an error was pinned")
	}
}

// TestBatch: a session submits its operations in batches of that size, without waiting.
func TestBatch(t *testing.T) {
	for _, c := range []struct{ batch, programs int }{{0, 1}, {1, 10}, {4, 3}, {100000, 1}} {
		r := &recorder{}
		s := NewSession(r, &SessionOptions{Batch: c.batch})
		x := From(s, []float32{1, 2})
		for range 10 {
			x = x.AddS(1)
		}
		if got, err := Data[float32](x); err != nil || len(got) != 2 {
			t.Fatalf("batch %d: %v, %v", c.batch, got, err)
		}
		if n := s.Stats().Programs; n != uint64(c.programs) {
			t.Errorf("batch %d: %d programs of 10 operations, expected %d", c.batch, n, c.programs)
		}
	}
}

// unfuser is an engine whose user has the signal slow run unfused.
type unfuser struct{ recorder }

func (*unfuser) Unfuses(signal string) bool { return signal == "slow" }

// TestUnfuser: programs that have the signal are unfused, in whatever place, and no
// others.
func TestUnfuser(t *testing.T) {
	e := &unfuser{}
	s := NewSession(e, nil)
	x := From(s, []float32{1, 2})
	for want, record := range map[bool]func(){
		false: func() { s.Signal("fast", func() { x.AddS(1) }) },
		true:  func() { s.Signal("fast", func() { x.AddS(1) }); s.Signal("slow", func() { x.AddS(1) }) },
	} {
		for range 2 { // the session knows the signal the second time
			record()
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			if got := e.last().Program.Unfused; got != want {
				t.Errorf("unfused %v, expected %v", got, want)
			}
		}
	}
}
