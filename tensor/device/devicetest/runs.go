package devicetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
)

// resultsAtOnce runs a chain of programs each of which reads the last one's result, and
// frees that in the next call.
func resultsAtOnce(f *fixture) {
	const n, chain = 1000, 50
	add := f.addOne(n, false)
	f.put(1, make([]float32, n)...)
	id := uint64(1)
	for i := range chain {
		out := f.run(add, uint64(10+10*i), id)
		if v, ok := f.space.Lookup(out[0]); !ok || v.DType != tensor.F32 || !v.Shape.Equal(tensor.Shape{n}) {
			f.Fatalf("a result is %v%v, %v", v.DType, v.Shape, ok)
		}
		f.space.Free(id)
		id = out[0]
	}
	want := make([]float32, n)
	for i := range want {
		want[i] = chain
	}
	f.floats("the end of a chain", id, want...)
}

func donated(f *fixture) {
	give, keep := f.addOne(3, true), f.addOne(3, false)
	f.put(1, 1, 2, 3)
	a := f.run(keep, 10, 1)
	f.floats("an input that isn't donated", 1, 1, 2, 3)
	b := f.run(give, 20, 1)
	f.gone("a donated input", 1)
	f.floats("one result", a[0], 2, 3, 4)
	f.floats("the other", b[0], 2, 3, 4)
	f.is("a program of a donated input", f.space.Run(keep.Program, 30, []uint64{1}, keep.scalars, nil), tensor.ErrUnknown)
}

// stopped stops programs that would run for hours, before they begin and while they run.
// Other values stay, and the space goes on.
func stopped(f *fixture) {
	long := f.record(false, func(s *tensor.Session) (out []*tensor.Tensor) {
		s.Scope(func(sc *tensor.Scope) {
			out = append(out, sc.Keep(tensor.Ones(s, tensor.F32, 1, 1).Expand(1<<22, 1<<22).Sum()))
		})
		return out
	})
	f.put(1, 1, 2, 3)
	for base := uint64(10); base <= 20; base += 10 {
		var stop atomic.Bool
		if base == 10 {
			stop.Store(true)
		} else {
			defer time.AfterFunc(10*time.Millisecond, func() { stop.Store(true) }).Stop()
		}
		err := f.space.Run(long.Program, base, nil, long.scalars, &stop)
		if err == nil {
			err = f.space.Sync()
		}
		f.is("a program that was stopped", err, tensor.ErrStopped)
		f.gone("its result", long.results(base)...)
	}
	f.floats("a value from before", 1, 1, 2, 3)
	f.floats("a result from after", f.run(f.addOne(3, false), 30, 1)[0], 2, 3, 4)
}

// mistakes checks that arguments which don't fit are errors of Run itself, which frees
// donated inputs all the same.
func mistakes(f *fixture) {
	p := f.addOne(3, false)
	f.put(1, 1, 2, 3)
	f.put(2, 1, 2)
	for what, c := range map[string]struct {
		inputs  []uint64
		scalars []float64
		base    uint64
		want    error
	}{
		"no inputs":        {nil, p.scalars, 10, tensor.ErrProgram},
		"two inputs":       {[]uint64{1, 1}, p.scalars, 10, tensor.ErrProgram},
		"no scalars":       {[]uint64{1}, nil, 10, tensor.ErrProgram},
		"an unknown input": {[]uint64{9}, p.scalars, 10, tensor.ErrUnknown},
		"a shorter input":  {[]uint64{2}, p.scalars, 10, tensor.ErrProgram},
		"a result's id":    {[]uint64{1}, p.scalars, 2, tensor.ErrProgram},
	} {
		f.is(what, f.space.Run(p.Program, c.base, c.inputs, c.scalars, nil), c.want)
	}
	f.gone("results of programs that did not run", p.results(10)...)
	f.floats("a value with the id that a result would have had", 2, 1, 2)
	give := f.addOne(3, true)
	f.is("donated, no scalars", f.space.Run(give.Program, 10, []uint64{1}, nil, nil), tensor.ErrProgram)
	f.gone("a donated input of a program that did not run", 1)
	f.must(f.space.Sync())
}

// failure runs a program that fails, one that reads its result and one that doesn't.
func failure(f *fixture) {
	pick, add, one := f.pick(4), f.addOne(4, false), f.addOne(1, true)
	f.put(1, 1, 2, 3, 4)
	f.must(f.space.Import(2, tensor.I64, tensor.Shape{1}, f.block(integers(97)), false))
	f.must(f.space.Sync())

	err := f.space.Run(pick.Program, 10, []uint64{1, 2}, pick.scalars, nil)
	broken := pick.results(10)
	if err == nil { // the failure comes late: until then the result exists
		if _, ok := f.space.Lookup(broken[0]); !ok {
			f.Error("the result of a program that was accepted does not exist")
		}
		f.must(f.space.Alias(5, broken[0]))
		f.run(one, 20, 5)
	}
	good := f.run(add, 30, 1)
	if err == nil {
		err = f.space.Sync()
		var late *device.Failure
		if !errors.As(err, &late) || late.Base != 10 {
			f.Errorf("the late error is %v, expected a Failure of the program with base 10", err)
		}
	}
	var at *tensor.RunError
	if f.is("an index of 97 in 4", err, tensor.ErrIndex); !errors.As(err, &at) || at.Op != tensor.OpIndexSelect.String() {
		f.Errorf("the error is %v, expected a RunError of %v", err, tensor.OpIndexSelect)
	}
	f.must(f.space.Sync())
	f.gone("what a failure prevented", append(append(broken, one.results(20)...), 5)...)
	f.floats("an input", 1, 1, 2, 3, 4)
	f.floats("a result of another program", good[0], 2, 3, 4, 5)
	f.must(f.space.Import(3, tensor.I64, tensor.Shape{1}, f.block(integers(2)), false))
	f.floats("the same program, run again", f.run(pick, 40, 1, 3)[0], 3)
}

// toldOnce has two programs fail: one call tells it, whichever waits, and none after it.
func toldOnce(f *fixture) {
	pick := f.pick(4)
	f.put(1, 1, 2, 3, 4)
	f.must(f.space.Import(2, tensor.I64, tensor.Shape{1}, f.block(integers(-5)), false))
	waits := map[string]func() error{
		"Sync": f.space.Sync,
		"Host": func() error {
			blocks, err := f.space.Host(1)
			if err == nil {
				blocks[0].Release()
			}
			return err
		},
		"Read": func() error { _, err := f.space.Read(1, 0, 4); return err },
	}
	base := uint64(100)
	for name, wait := range waits {
		told := 0
		for range 2 {
			if err := f.space.Run(pick.Program, base, []uint64{1, 2}, pick.scalars, nil); err != nil {
				f.is(name, err, tensor.ErrIndex)
				told++
			}
			base += 10
		}
		err := wait()
		if told == 0 {
			f.is(name, err, tensor.ErrIndex)
		} else if err != nil {
			f.Errorf("%s tells %v, which Run told", name, err)
		}
		f.must(f.space.Sync())
		f.floats("a value after "+name, 1, 1, 2, 3, 4)
	}
}

func malformed(f *fixture) {
	p := f.addOne(2, false)
	_, err := f.dev.Compile(tensor.HashOf(p.encoded[:40]), p.encoded[:40])
	f.is("half a program", err, tensor.ErrProgram)
	_, err = f.dev.Compile(tensor.Hash{1}, p.encoded)
	f.is("a program under another hash", err, tensor.ErrProgram)
	if got := len(p.Parsed().Instrs); got != 1 {
		f.Errorf("a parsed program has %d instructions, expected 1", got)
	}
}

func cache(f *fixture) {
	p := f.addOne(2, false)
	before := f.dev.Stats()
	for range 3 {
		_, err := f.dev.Compile(p.hash, p.encoded)
		f.must(err)
	}
	f.put(1, 1, 2)
	f.run(p, 10, 1)
	f.must(f.space.Sync())
	after := f.dev.Stats()
	if after.Hits != before.Hits+3 || after.Misses != before.Misses || after.Runs != before.Runs+1 || after.Plans < 1 || after.PlanBytes < len(p.encoded) {
		f.Errorf("three programs from the cache and one run: %+v, then %+v", before, after)
	}
}

// twoSpaces has two spaces of the device used by two goroutines.
func twoSpaces(f *fixture) {
	add := f.addOne(100, true)
	other := &fixture{T: f.T, dev: f.dev, space: f.dev.Open()}
	defer other.space.Close()
	var both sync.WaitGroup
	for k, x := range []*fixture{f, other} {
		start := float32(1000 * k)
		x.put(1, repeat(start, 100)...)
		both.Go(func() {
			id := uint64(1)
			for i := range 50 {
				base := uint64(10 + 10*i)
				if err := x.space.Run(add.Program, base, []uint64{id}, add.scalars, nil); err != nil {
					x.Error(err)
					return
				}
				if id = add.results(base)[0]; i%7 == 0 {
					x.floats("a value of one of two spaces", id, repeat(start+float32(i+1), 100)...)
				}
			}
			x.floats("a value of one of two spaces", id, repeat(start+50, 100)...)
		})
	}
	both.Wait()
}

// trimmed checks that Trim takes no value's bytes and nothing that a program needs, and
// that it gives back all segments that are unused, except those to be kept.
func trimmed(f *fixture) {
	add := f.addOne(1<<16, false)
	kept := uint64(0)
	trim := func() { f.dev.Trim(func(segment uint64) bool { return segment == kept }) }
	f.put(1, repeat(1, 1<<16)...)
	for i := range uint64(3) {
		base := 10 * (i + 1)
		f.must(f.space.Run(add.Program, base, []uint64{1}, add.scalars, nil))
		for range i + 1 {
			trim()
		}
		f.floats("a result after Trim", add.results(base)[0], repeat(2, 1<<16)...)
		f.floats("an input after Trim", 1, repeat(1, 1<<16)...)
	}
	b := f.block([]byte{1})
	kept = b.Handle().Segment
	b.Release()
	f.space.Close()
	f.space = f.dev.Open()
	for range 4 {
		trim()
	}
	if a := f.dev.Arena(); !a.Has(kept) || a.Stats().Segments != 1 {
		f.Errorf("%d segments are left, expected the one to be kept", a.Stats().Segments)
	}
	kept = 0
	if trim(); f.dev.Arena().Stats().Bytes != 0 {
		f.Errorf("%d bytes are left", f.dev.Arena().Stats().Bytes)
	}
}

// repeat returns n times x.
func repeat(x float32, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = x
	}
	return out
}

// stoppedBehind has a program fail and many others stopped before anything waits: the
// failure is told all the same.
func stoppedBehind(f *fixture) {
	pick := f.pick(4)
	f.put(1, 1, 2, 3, 4)
	f.must(f.space.Import(2, tensor.I64, tensor.Shape{1}, f.block(integers(97)), false))
	f.must(f.space.Import(3, tensor.I64, tensor.Shape{1}, f.block(integers(2)), false))
	f.must(f.space.Sync())

	err := f.space.Run(pick.Program, 10, []uint64{1, 2}, pick.scalars, nil)
	var stop atomic.Bool
	stop.Store(true)
	for base := uint64(100); base < 5000; base += 10 {
		if e := f.space.Run(pick.Program, base, []uint64{1, 3}, pick.scalars, &stop); e != nil {
			f.is("a program that was stopped", e, tensor.ErrStopped)
		}
	}
	if err == nil {
		err = f.space.Sync()
	}
	f.is("a failure before programs that were stopped", err, tensor.ErrIndex)
	f.must(f.space.Sync())
	f.gone("what a failure prevented", pick.results(10)...)
	f.floats("the same program, run again", f.run(pick, 20, 1, 3)[0], 3)
}

// empty runs a program again and again of whose results one has no elements, and reads
// both.
func empty(f *fixture) {
	p := f.record(false, func(s *tensor.Session) []*tensor.Tensor {
		x := tensor.From(s, make([]float32, 4))
		return []*tensor.Tensor{x.AddS(1), x.Narrow(0, 0, 0).MulS(2), x.Sum()}
	})
	f.put(1, 1, 2, 3, 4)
	for i := range uint64(6) {
		ids := f.run(p, 10*(i+1), 1)
		blocks, err := f.space.Host(ids...)
		f.must(err)
		for k, b := range blocks {
			v, _ := f.space.Lookup(ids[k])
			if (b == nil) != (v.Bytes() == 0) {
				f.Errorf("run %d: result %d of %d bytes has the block %v", i+1, k, v.Bytes(), b)
			}
			if b != nil {
				b.Release()
			}
		}
		f.floats("a result beside one without elements", ids[0], 2, 3, 4, 5)
		for _, id := range ids {
			f.space.Free(id)
		}
	}
}
