package tensor

import (
	"context"
	"slices"
	"testing"
)

// recorder is an Engine that keeps the batches and answers fetches with zeros.
type recorder struct {
	batches []Batch
	awaited int   // calls of Expect
	fail    error // returned by the next Submit
	live    map[uint64]bool
	types   map[uint64]Fetched
}

type heapBuffer []byte

func (b heapBuffer) Bytes() []byte { return b }
func (b heapBuffer) Release()      {}

func (r *recorder) Name() string                { return "recorder" }
func (r *recorder) Alloc(n int) (Buffer, error) { return heapBuffer(make([]byte, n)), nil }
func (r *recorder) Close() error                { return nil }

func (r *recorder) Expect() { r.awaited++ }

func (r *recorder) Submit(_ context.Context, b *Batch) ([]Fetched, error) {
	c := *b
	if b.Program != nil {
		c.Program = b.Program.Clone()
	}
	c.Encoded, c.Scalars = slices.Clone(b.Encoded), slices.Clone(b.Scalars)
	c.Inputs, c.Frees, c.Fetch = slices.Clone(b.Inputs), slices.Clone(b.Frees), slices.Clone(b.Fetch)
	c.Uploads = slices.Clone(b.Uploads)
	r.batches = append(r.batches, c)
	if r.live == nil {
		r.live, r.types = map[uint64]bool{}, map[uint64]Fetched{}
	}
	if err := r.fail; err != nil {
		r.fail = nil
		return nil, err
	}
	for _, u := range b.Uploads {
		r.live[u.ID] = true
		r.types[u.ID] = Fetched{DType: u.DType, Shape: u.Shape}
	}
	if p := b.Program; p != nil {
		for i, in := range p.Instrs {
			if in.Keep {
				r.live[b.Base+uint64(i)] = true
			}
			r.types[b.Base+uint64(i)] = Fetched{DType: in.DType, Shape: p.Shapes[in.Shape]}
		}
		for i, id := range b.Inputs {
			if !r.live[id] {
				return nil, ErrUnknown
			}
			if p.Externals[i].Donated {
				delete(r.live, id)
			}
		}
	}
	for _, id := range b.Frees {
		if !r.live[id] {
			return nil, ErrUnknown
		}
		delete(r.live, id)
	}
	var out []Fetched
	for _, id := range b.Fetch {
		if !r.live[id] {
			return nil, ErrUnknown
		}
		f := r.types[id]
		f.Bytes = make([]byte, f.Shape.Elems()*f.DType.Size())
		f.Release = func() {}
		out = append(out, f)
	}
	return out, nil
}

func newRecorded(t *testing.T) (*Session, *recorder) {
	t.Helper()
	r := &recorder{}
	return NewSession(r, nil), r
}

func (r *recorder) last() Batch { return r.batches[len(r.batches)-1] }

// discard is an Engine that does nothing.
type discard struct{ recorder }

func (*discard) Submit(context.Context, *Batch) ([]Fetched, error) { return nil, nil }
