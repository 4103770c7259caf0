package enginetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/ringside-go/ringside/tensor"
)

// maxResult bounds one result of the reference in bytes: a larger one gets ErrNoSpace, as
// from an engine whose memory ends.
const maxResult = 1 << 30

// Reference returns an engine that is slow and simple: it interprets programs one
// instruction after another, each by its definition in double precision, rounded to the
// dtype once. It holds no plan, shares no memory and overwrites nothing. Other engines
// are compared with it.
//
// Where the op table leaves a choice, it decides so: a number beside an integer tensor is
// converted as cast does; integers wrap, also where cast narrows them; an integer to a
// negative power is 1/b^n cut toward zero, and 1/0 is 0; the mean of nothing is NaN; NaN
// wins max, min, relu, clamp, sign and amax.
func Reference() tensor.Engine { return newReference(nil) }

// reference is the Reference, exact or with noise (see noise).
type reference struct {
	noise *noise

	mu     sync.Mutex
	closed bool
	values map[uint64]*array
}

func newReference(n *noise) *reference {
	return &reference{noise: n, values: map[uint64]*array{}}
}

// Name returns the engine's name.
func (r *reference) Name() string { return "reference" }

// heap is an upload buffer of the Go heap.
type heap []byte

func (h heap) Bytes() []byte { return h }
func (h heap) Release()      {}

// Alloc returns memory of the Go heap.
func (r *reference) Alloc(n int) (tensor.Buffer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("reference: %w", tensor.ErrClosed)
	}
	if n > maxResult {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", tensor.ErrNoSpace, n, maxResult)
	}
	return make(heap, n), nil
}

// Submit runs b before it returns.
func (r *reference) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("reference: %w", tensor.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, u := range b.Uploads {
		r.values[u.ID] = uploaded(u)
	}
	got, err := r.run(b)
	if b.Program != nil {
		for i, e := range b.Program.Externals {
			if e.Donated && i < len(b.Inputs) {
				delete(r.values, b.Inputs[i])
			}
		}
	}
	for _, id := range b.Frees {
		delete(r.values, id)
	}
	return got, err
}

// uploaded returns the value of an upload.
func uploaded(u tensor.Upload) *array {
	var data []byte
	if u.Buf != nil {
		data = u.Buf.Bytes()
	}
	return decode(u.DType, append(tensor.Shape{}, u.Shape...), data)
}

// run runs the program, fetches, and keeps the results, or changes nothing.
func (r *reference) run(b *tensor.Batch) ([]tensor.Fetched, error) {
	kept := map[uint64]*array{}
	if p := b.Program; p != nil {
		in := make([]*array, len(b.Inputs))
		for i, id := range b.Inputs {
			if in[i] = r.values[id]; in[i] == nil {
				return nil, fmt.Errorf("%w: %d, input %d of the program", tensor.ErrUnknown, id, i)
			}
		}
		out, err := interpret(p, in, b.Scalars, r.noise)
		if err != nil {
			return nil, err
		}
		for i, a := range out {
			if p.Instrs[i].Keep {
				kept[b.Base+uint64(i)] = a
			}
		}
	}
	var got []tensor.Fetched
	for _, id := range b.Fetch {
		a := kept[id]
		if a == nil {
			a = r.values[id]
		}
		if a == nil {
			return nil, fmt.Errorf("%w: %d can't be fetched", tensor.ErrUnknown, id)
		}
		got = append(got, tensor.Fetched{DType: a.dt, Shape: a.sh, Bytes: a.encode(), Release: func() {}})
	}
	for id, a := range kept {
		r.values[id] = a
	}
	return got, nil
}

// Close drops every value.
func (r *reference) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.values = true, nil
	return nil
}

// interpret runs a program and returns the result of every instruction.
func interpret(p *tensor.Program, inputs []*array, scalars []float64, n *noise) ([]*array, error) {
	out := make([]*array, len(p.Instrs))
	for i := range p.Instrs {
		c := callOf(p, i, out, inputs, scalars)
		if c.sh.Elems() > maxResult/8 {
			return nil, &tensor.RunError{Instr: i, Op: c.op.String(), Inputs: c.inputs(),
				Err: fmt.Errorf("%w: a result of %v%v", tensor.ErrNoSpace, c.dt, c.sh)}
		}
		if n != nil {
			n.inputs(c)
		}
		a, err := c.eval()
		if err == nil && n != nil {
			err = n.output(c, a)
		}
		if err != nil {
			return nil, &tensor.RunError{Instr: i, Op: c.op.String(), Inputs: c.inputs(), Err: err}
		}
		a.settle()
		out[i] = a
	}
	return out, nil
}

// callOf returns instruction i with its arguments resolved. Shapes are copied: a program
// is only lent.
func callOf(p *tensor.Program, i int, results, inputs []*array, scalars []float64) *call {
	in := p.Instrs[i]
	c := &call{op: in.Op, dt: in.DType, sh: append(tensor.Shape{}, p.Shapes[in.Shape]...), ints: p.IntsOf(i)}
	for _, ref := range p.ArgsOf(i) {
		if k, ok := ref.Scalar(); ok {
			c.args = append(c.args, operand{x: scalars[k]})
		} else if k, ok := ref.External(); ok {
			c.args = append(c.args, operand{a: inputs[k]})
		} else {
			k, _ := ref.Instr()
			c.args = append(c.args, operand{a: results[k]})
		}
	}
	return c
}
