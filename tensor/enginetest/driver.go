package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// capture is an engine that keeps the batches of a session and runs nothing.
type capture struct {
	uploads  map[uint64]*array
	programs []*program
}

func (c *capture) Name() string                       { return "capture" }
func (c *capture) Alloc(n int) (tensor.Buffer, error) { return make(heap, n), nil }
func (c *capture) Close() error                       { return nil }

func (c *capture) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	for _, u := range b.Uploads {
		c.uploads[u.ID] = uploaded(u)
	}
	if b.Program == nil {
		return nil, nil
	}
	p := &program{p: b.Program.Clone(), scalars: append([]float64(nil), b.Scalars...)}
	for _, id := range b.Inputs {
		a := c.uploads[id]
		if a == nil {
			return nil, fmt.Errorf("%w: a captured program takes the result of another", tensor.ErrUnknown)
		}
		p.inputs = append(p.inputs, a)
	}
	c.programs = append(c.programs, p)
	return nil, nil
}

// program is a recorded program with the data that it was recorded on.
type program struct {
	p       *tensor.Program
	scalars []float64
	inputs  []*array
}

// recorded returns the one program that f records. The results of f are kept, everything
// else is dead, so that all inputs are donated; see flags.
func recorded(t *testing.T, f func(s *tensor.Session) []*tensor.Tensor) *program {
	t.Helper()
	c := &capture{uploads: map[uint64]*array{}}
	s := tensor.NewSession(c, nil)
	s.Scope(func(sc *tensor.Scope) {
		for _, x := range f(s) {
			sc.Keep(x)
		}
	})
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(c.programs) != 1 {
		t.Fatalf("recorded %d programs, expected 1", len(c.programs))
	}
	return c.programs[0]
}

// recordedOne is recorded for one result.
func recordedOne(t *testing.T, f func(s *tensor.Session) *tensor.Tensor) *program {
	return recorded(t, func(s *tensor.Session) []*tensor.Tensor { return []*tensor.Tensor{f(s)} })
}

// flags returns a copy of p with other marks: which results are kept (nil: as they were)
// and whether inputs are donated.
func (p *program) flags(keep func(i int) bool, donate bool) *program {
	q := &program{p: p.p.Clone(), scalars: p.scalars, inputs: p.inputs}
	for i := range q.p.Instrs {
		if keep != nil {
			q.p.Instrs[i].Keep = keep(i)
		}
	}
	for i := range q.p.Externals {
		q.p.Externals[i].Donated = donate
	}
	return q
}

func every(int) bool { return true }

// kept lists the instructions whose results p keeps.
func (p *program) kept() []int {
	var l []int
	for i, in := range p.p.Instrs {
		if in.Keep {
			l = append(l, i)
		}
	}
	return l
}

// driver submits batches to an engine as a session would.
type driver struct {
	t    *testing.T
	e    tensor.Engine
	next uint64
}

func (s *suite) driver(t *testing.T) *driver { return &driver{t: t, e: s.engine(t), next: 1} }

func (d *driver) submit(b *tensor.Batch) ([]tensor.Fetched, error) {
	got, err := d.e.Submit(context.Background(), b)
	for _, u := range b.Uploads {
		if u.Buf != nil {
			u.Buf.Release()
		}
	}
	return got, err
}

// must submits a batch that has to succeed.
func (d *driver) must(b *tensor.Batch) []tensor.Fetched {
	d.t.Helper()
	got, err := d.submit(b)
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// uploadOf makes an upload of a with the next id.
func (d *driver) uploadOf(a *array) tensor.Upload {
	d.t.Helper()
	u := tensor.Upload{ID: d.next, DType: a.dt, Shape: a.sh}
	d.next++
	if data := a.encode(); len(data) > 0 {
		buf, err := d.e.Alloc(len(data))
		if err != nil {
			d.t.Fatal(err)
		}
		if len(buf.Bytes()) != len(data) {
			d.t.Fatalf("Alloc(%d) gave %d bytes", len(data), len(buf.Bytes()))
		}
		copy(buf.Bytes(), data)
		u.Buf = buf
	}
	return u
}

// put uploads values and returns their ids.
func (d *driver) put(as ...*array) []uint64 {
	d.t.Helper()
	b := &tensor.Batch{Base: d.next}
	var ids []uint64
	for _, a := range as {
		u := d.uploadOf(a)
		b.Uploads, ids = append(b.Uploads, u), append(ids, u.ID)
	}
	d.must(b)
	return ids
}

// batch returns a batch that runs p on values with the given ids.
func (d *driver) batch(p *program, inputs ...uint64) *tensor.Batch {
	d.t.Helper()
	enc := p.p.Append(nil)
	if _, err := tensor.ParseProgram(enc); err != nil {
		d.t.Fatal(err)
	}
	b := &tensor.Batch{Program: p.p, Encoded: enc, Hash: tensor.HashOf(enc), Base: d.next, Scalars: p.scalars, Inputs: inputs}
	d.next += uint64(len(p.p.Instrs))
	return b
}

// run uploads p's own inputs, runs it and returns the ids of every instruction's result
// and of the inputs.
func (d *driver) run(p *program) (results, inputs []uint64) {
	d.t.Helper()
	inputs = d.put(p.inputs...)
	b := d.batch(p, inputs...)
	d.must(b)
	for i := range p.p.Instrs {
		results = append(results, b.Base+uint64(i))
	}
	return results, inputs
}

// fetch reads values.
func (d *driver) fetch(ids ...uint64) []*array {
	d.t.Helper()
	got := d.must(&tensor.Batch{Base: d.next, Fetch: ids})
	if len(got) != len(ids) {
		d.t.Fatalf("fetched %d values, expected %d", len(got), len(ids))
	}
	var out []*array
	for _, f := range got {
		if want := f.Shape.Elems() * f.DType.Size(); len(f.Bytes) != want {
			d.t.Fatalf("%v%v came as %d bytes, expected %d", f.DType, f.Shape, len(f.Bytes), want)
		}
		out = append(out, decode(f.DType, append(tensor.Shape{}, f.Shape...), f.Bytes))
		f.Release()
	}
	return out
}

// holds fails unless the value id equals want.
func (d *driver) holds(what string, id uint64, want *array) {
	d.t.Helper()
	equal(d.t, d.fetch(id)[0], want, nil, "%s", what)
}

// gone fails unless the engine returns an error for each id, as for one that it doesn't
// know.
func (d *driver) gone(what string, ids ...uint64) {
	d.t.Helper()
	for _, id := range ids {
		got, err := d.submit(&tensor.Batch{Base: d.next, Fetch: []uint64{id}})
		for _, f := range got {
			f.Release()
		}
		if !errors.Is(err, tensor.ErrUnknown) {
			d.t.Errorf("%s: fetching it gave error %v, expected one that unwraps to ErrUnknown", what, err)
		}
	}
}

// fails submits b and waits for its error, which must unwrap to target.
func (d *driver) fails(b *tensor.Batch, target error) error {
	d.t.Helper()
	b.Sync = true
	_, err := d.submit(b)
	if !errors.Is(err, target) {
		d.t.Errorf("error is %v, expected one that unwraps to %v", err, target)
	}
	return err
}

// floats returns a row-major f32 value.
func floats(sh tensor.Shape, x ...float64) *array {
	a := &array{dt: tensor.F32, sh: sh, f: x}
	a.settle()
	return a
}

// ramp returns an f32 value of start, start+1, ...
func ramp(start float64, sh ...int) *array { return steps(start, 1, sh...) }

// steps returns an f32 value of start, start+step, ...
func steps(start, step float64, sh ...int) *array {
	a := newArray(tensor.F32, sh)
	for k := range a.f {
		a.f[k] = start + step*float64(k)
	}
	return a
}

// integers returns a row-major value of an integer type.
func integers(d tensor.DType, x ...int64) *array {
	return &array{dt: d, sh: tensor.Shape{len(x)}, i: x}
}
