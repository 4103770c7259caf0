package enginetest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// contracts are the tests of the promises in engine.go, batch by batch.
type contracts struct{ *suite }

func (s contracts) all(t *testing.T) {
	t.Run("uploads of every dtype come back", s.uploads)
	t.Run("upload memory may be used again", s.uploadMemory)
	t.Run("bools are 0 or 1", s.boolBytes)
	t.Run("frees and unknown ids", s.frees)
	t.Run("donated inputs are gone", s.donation)
	t.Run("results are values of their own", s.ownership)
	t.Run("fetched bytes stay", s.leases)
	t.Run("a failed batch changes nothing else", s.failedBatch)
	t.Run("values beside a failure", s.beside)
	t.Run("values after a failure", s.after)
	t.Run("random failures", s.failures)
	t.Run("an unknown input", s.unknownInput)
	t.Run("errors come at the next sync", s.lateErrors)
	t.Run("index errors", s.indexErrors)
	t.Run("no space", s.noSpace)
	t.Run("engines are apart", s.isolation)
	t.Run("close", s.closing)
	t.Run("close while running", s.closingConcurrently)
}

func (s contracts) uploads(t *testing.T) {
	d := s.driver(t)
	if d.e.Name() == "" {
		t.Error("the engine has no name")
	}
	values := []*array{
		floats(tensor.Shape{2, 3}, 0, 1, -2.5, 3e38, 1e-40, -0.1), {dt: tensor.F64, sh: tensor.Shape{2}, f: []float64{0.1, -1e300}},
		integers(tensor.I32, -1<<31, 1<<31-1, 0), integers(tensor.I64, -1<<63, 1<<63-1, 1<<53+1), integers(tensor.U8, 0, 255), integers(tensor.Bool, 1, 0, 1),
		floats(tensor.Shape{}, 7), floats(tensor.Shape{0}), floats(tensor.Shape{3, 0, 2}), ramp(0, 1, 2, 1, 2, 1, 2, 1, 2), ramp(5, 257, 33),
	}
	ids := d.put(values...)
	for k, a := range d.fetch(ids...) {
		equal(t, a, values[k], nil, "value %d", k)
	}
	for k, a := range d.fetch(ids[0], ids[0], ids[3]) {
		equal(t, a, values[[]int{0, 0, 3}[k]], nil, "fetched together, value %d", k)
	}
}

func (s contracts) uploadMemory(t *testing.T) {
	d := s.driver(t)
	var ids []uint64
	for k := range 50 {
		ids = append(ids, d.put(ramp(float64(1000*k), 64))...)
	}
	for k, id := range ids {
		d.holds("an earlier upload", id, ramp(float64(1000*k), 64))
	}
}

// boolBytes uploads bytes that are neither 0 nor 1, as a peer may, and wants readers to
// see 0 or 1.
func (s contracts) boolBytes(t *testing.T) {
	d := s.driver(t)
	u := d.uploadOf(integers(tensor.Bool, 0, 0, 0, 0))
	copy(u.Buf.Bytes(), []byte{0, 1, 2, 255})
	got, err := d.submit(&tensor.Batch{Base: d.next, Uploads: []tensor.Upload{u}, Fetch: []uint64{u.ID}})
	if err != nil {
		return // refused
	}
	defer got[0].Release()
	if !slices.Equal(got[0].Bytes, []byte{0, 1, 1, 1}) {
		t.Errorf("bytes 0 1 2 255 came back as %v, expected an error or 0 1 1 1", got[0].Bytes)
	}
	p := recordedOne(t, func(s *tensor.Session) *tensor.Tensor { return put(s, integers(tensor.Bool, 0, 0, 0, 0)).Sum() })
	b := d.batch(p.flags(nil, false), u.ID)
	d.must(b)
	d.holds("their sum", b.Base+uint64(p.kept()[0]), &array{dt: tensor.I64, sh: tensor.Shape{}, i: []int64{3}})
}

func (s contracts) frees(t *testing.T) {
	d := s.driver(t)
	ids := d.put(ramp(0, 4), ramp(10, 4))
	if _, err := d.submit(&tensor.Batch{Base: d.next, Frees: []uint64{ids[0], 123456, ids[0]}, Sync: true}); err != nil {
		t.Errorf("freeing an unknown id and one twice: %v", err)
	}
	d.gone("a freed value", ids[0])
	d.gone("an id that never was", 123456)
	d.holds("its neighbour", ids[1], ramp(10, 4))
	u := d.uploadOf(ramp(20, 4))
	if _, err := d.submit(&tensor.Batch{Base: d.next, Uploads: []tensor.Upload{u}, Frees: []uint64{u.ID}, Sync: true}); err != nil {
		t.Errorf("an upload that is freed at once: %v", err)
	}
	d.gone("an upload that was freed at once", u.ID)
}

// plusOne keeps in + 1 of an f32 value of shape sh.
func plusOne(t *testing.T, sh ...int) *program {
	return recordedOne(t, func(s *tensor.Session) *tensor.Tensor { return put(s, ramp(0, sh...)).AddS(1) })
}

func (s contracts) donation(t *testing.T) {
	d := s.driver(t)
	p := plusOne(t, 8, 8)
	keep, give := p.flags(nil, false), p.flags(nil, true)
	id := d.put(ramp(0, 8, 8))[0]
	for k := range 20 {
		b := d.batch(keep, id)
		if k%2 == 1 {
			b = d.batch(give, id)
		}
		d.must(b)
		d.holds("the result", b.Base, ramp(float64(k/2+1), 8, 8))
		if k%2 == 1 {
			d.gone("a donated input", id)
			id = b.Base
		} else {
			d.holds("the input", id, ramp(float64(k/2), 8, 8))
		}
	}
	twice := recorded(t, func(s *tensor.Session) []*tensor.Tensor {
		x, y := put(s, ramp(0, 8, 8)), put(s, ramp(0, 8, 8))
		return []*tensor.Tensor{x.Add(y), x.Sub(y), x.MulS(2)}
	})
	// one value as two inputs
	for _, donated := range [][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
		p := twice.flags(nil, false)
		p.p.Externals[0].Donated, p.p.Externals[1].Donated = donated[0], donated[1]
		id := d.put(ramp(0, 8, 8))[0]
		b := d.batch(p, id, id)
		d.must(b)
		d.holds("x+x", b.Base, steps(0, 2, 8, 8))
		d.holds("x-x", b.Base+1, steps(0, 0, 8, 8))
		d.holds("x*2", b.Base+2, steps(0, 2, 8, 8))
		if donated[0] || donated[1] {
			d.gone("a value that was donated as one of two inputs", id)
		} else {
			d.holds("a value that was two inputs", id, ramp(0, 8, 8))
		}
	}
}

// ownership wants a kept result never to share memory with an input or another result.
func (s contracts) ownership(t *testing.T) {
	d := s.driver(t)
	x := ramp(0, 3, 4)
	p := recorded(t, func(s *tensor.Session) []*tensor.Tensor {
		x := put(s, x)
		y := x.MulS(2)
		return []*tensor.Tensor{x.Reshape(12), x.T(), x.Slice(tensor.By(tensor.All, tensor.All, 2)), x.Expand(2, 3, 4), x.Cast(tensor.F64).Cast(tensor.F32), y, y.Reshape(4, 3), y.T(), y.Reshape(4, 3)}
	})
	for _, donate := range []bool{false, true} {
		q := p.flags(nil, donate)
		ids, in := d.run(q)
		want, err := interpret(q.p, q.inputs, q.scalars, nil)
		if err != nil {
			t.Fatal(err)
		}
		kept := q.kept()
		if len(kept) != 9 {
			t.Fatalf("%d results are kept, expected 9", len(kept))
		}
		for n, i := range kept {
			// Donate the values that were checked: the next program may overwrite their
			// memory, which no other value may show.
			d.holds("a kept result", ids[i], want[i])
			grow := recordedOne(t, func(s *tensor.Session) *tensor.Tensor { return put(s, newArray(want[i].dt, want[i].sh)).AddS(1000) }).flags(nil, true)
			d.must(d.batch(grow, ids[i]))
			for _, j := range kept[n+1:] {
				d.holds("a result after its neighbour was overwritten", ids[j], want[j])
			}
			if !donate {
				d.holds("the input after a result was overwritten", in[0], x)
			}
		}
	}
}

// leases wants fetched bytes to stay as they are until they are released, also when the
// value is freed.
func (s contracts) leases(t *testing.T) {
	d := s.driver(t)
	p := plusOne(t, 16, 16).flags(nil, true)
	id := d.put(ramp(0, 16, 16))[0]
	type lease struct {
		f    tensor.Fetched
		want []byte
	}
	var held []lease
	for k := range 30 {
		f := d.must(&tensor.Batch{Base: d.next, Fetch: []uint64{id}})[0]
		if !equal(t, decode(f.DType, f.Shape, f.Bytes), ramp(float64(k), 16, 16), nil, "after %d programs the value", k) {
			return
		}
		if k%3 == 0 { // while they are leased, the result can't be made in place
			held = append(held, lease{f, slices.Clone(f.Bytes)})
		} else {
			f.Release()
		}
		b := d.batch(p, id)
		d.must(b)
		id = b.Base
	}
	d.must(&tensor.Batch{Base: d.next, Frees: []uint64{id}, Sync: true})
	for k := range 40 { // reuse the memory of freed values
		d.put(ramp(float64(-1000*k), 16, 16))
	}
	for k, l := range held {
		if !slices.Equal(l.f.Bytes, l.want) {
			t.Errorf("fetched bytes %d changed before they were released", k)
		}
		l.f.Release()
	}
	if len(held) != 10 {
		t.Errorf("%d leases were held, expected 10", len(held))
	}
}

func (s contracts) isolation(t *testing.T) {
	a, b := s.driver(t), s.driver(t)
	x, y := a.put(ramp(0, 6))[0], b.put(ramp(100, 6))[0]
	if x != y {
		t.Fatalf("ids are %d and %d, meant to be equal", x, y)
	}
	a.holds("the first engine's value", x, ramp(0, 6))
	b.holds("the second engine's value", y, ramp(100, 6))
	if err := a.e.Close(); err != nil {
		t.Error(err)
	}
	b.holds("a value after another engine closed", y, ramp(100, 6))
}

func (s contracts) closing(t *testing.T) {
	d := s.driver(t)
	d.put(ramp(0, 6))
	for range 2 {
		if err := d.e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := d.submit(&tensor.Batch{Base: d.next, Sync: true}); !errors.Is(err, tensor.ErrClosed) {
		t.Errorf("Submit after Close gave %v, expected ErrClosed", err)
	}
	if _, err := d.e.Alloc(64); !errors.Is(err, tensor.ErrClosed) {
		t.Errorf("Alloc after Close gave %v, expected ErrClosed", err)
	}
}

func (s contracts) closingConcurrently(t *testing.T) {
	for range 5 {
		d := s.driver(t)
		p := plusOne(t, 32, 32).flags(nil, true)
		id := d.put(ramp(0, 32, 32))[0]
		running := make(chan struct{})
		done := make(chan error)
		var closed atomic.Bool
		go func() {
			for k, after := 0, 0; after < 100; k++ {
				if closed.Load() {
					after++
				}
				b := &tensor.Batch{Program: p.p, Encoded: p.p.Append(nil), Base: d.next, Scalars: p.scalars, Inputs: []uint64{id}, Sync: true}
				b.Hash = tensor.HashOf(b.Encoded)
				d.next++
				if _, err := d.e.Submit(context.Background(), b); err != nil {
					done <- err
					return
				}
				id = b.Base
				if k == 3 {
					close(running)
				}
			}
			done <- errors.New("no error a hundred batches later")
		}()
		select {
		case <-running:
		case err := <-done:
			t.Fatal(err)
		}
		if err := d.e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		closed.Store(true)
		if err := <-done; !errors.Is(err, tensor.ErrClosed) {
			t.Errorf("a session cut short by Close got %v, expected ErrClosed", err)
		}
	}
}
