package tensor

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
)

// Tensor is a handle of a value in a session. Operations on it do no I/O: they record an
// instruction and return a handle of its result. Only Item, Data, View and the session's
// Sync wait.
//
// A tensor belongs to one session and must be used by one goroutine at a time, as the
// session.
type Tensor struct {
	v        *value
	node     *Node
	grad     *Tensor
	requires bool // a leaf that requires a gradient
	owns     bool // holds one of the value's refs
	place    int32
}

// Place returns a number of t that belongs to the package that computes gradients, which
// keeps there the place of t in a list, see Node.At. No other may write it.
func Place(t *Tensor) *int32 { return &t.place }

var errLeaf = errors.New("tensor: a leaf that requires a gradient can't be bound to a computed value with a graph: compute it in NoGrad (no_grad in Python)")

// Session returns the session t belongs to.
func (t *Tensor) Session() *Session { return t.v.s }

// DType returns the type of t's elements; Invalid if t stands for an error.
func (t *Tensor) DType() DType { return t.v.dtype }

// Shape returns the size of t's dims. It must not be changed.
func (t *Tensor) Shape() Shape { return t.v.shape }

// Dim returns the size of one dim, counted from the end if negative; 0 if there is no
// such dim.
func (t *Tensor) Dim(i int) int {
	d, err := axis(i, len(t.v.shape))
	if err != nil {
		return 0
	}
	return t.v.shape[d]
}

// Rank returns the number of dims.
func (t *Tensor) Rank() int { return len(t.v.shape) }

// Elems returns the number of elements.
func (t *Tensor) Elems() int { return t.v.shape.Elems() }

// Err returns the error that t stands for, or nil.
func (t *Tensor) Err() error { return t.v.failed() }

// String describes t without reading it: f32[2 3]. Show prints its content.
func (t *Tensor) String() string {
	if t.v.failed() != nil {
		return "error: " + t.v.err.Error()
	}
	return t.v.String()
}

// RequireGrad makes t a leaf for which gradients are computed, and returns it. t must be
// of a float type and must not be computed from another leaf.
func (t *Tensor) RequireGrad() *Tensor {
	if t.v.failed() != nil {
		return t
	}
	if !t.v.dtype.IsFloat() || t.node != nil {
		return poisoned(t.v.s, t.v.s.fail(&OpError{Op: "require_grad", Inputs: t.v.String(), Site: callSite(), Err: ErrNoGrad}))
	}
	t.requires = true
	return t
}

// RequiresGrad reports whether t is a leaf that requires a gradient.
func (t *Tensor) RequiresGrad() bool { return t.requires }

// Detach returns a handle of the same value outside the graph.
func (t *Tensor) Detach() *Tensor {
	if t.v.failed() == nil && t.owns {
		t.v.retain()
	}
	return &Tensor{v: t.v, owns: t.owns && t.v.failed() == nil}
}

// Named is a tensor and its name in a model or a file, such as "layers.0.weight".
type Named struct {
	Name string
	T    *Tensor
}

// Grad returns the gradient that Backward accumulated, or nil. The handle is valid until
// the next SetGrad.
func (t *Tensor) Grad() *Tensor { return t.grad }

// SetGrad replaces the accumulated gradient by g and releases the old one; nil clears it.
// t holds a reference to g's value, so a gradient that was computed in a Scope outlives
// the scope.
func (t *Tensor) SetGrad(g *Tensor) {
	old := t.grad
	t.grad = nil
	if g != nil {
		t.grad = &Tensor{v: g.v, node: g.node}
		if g.v.failed() == nil && g.v.refs > 0 {
			g.v.retain()
			t.grad.owns = true
		}
	}
	if old != nil {
		old.Free()
	}
}

// From makes a tensor of data in row-major order. It copies data once, into memory that
// the worker reads in place. Without a shape the tensor has one dim.
func From[E Element](s *Session, data []E, shape ...int) *Tensor {
	if len(shape) == 0 {
		shape = []int{len(data)}
	}
	return FromBytes(s, DTypeOf[E](), bytesOf(data), shape...)
}

// Scalar makes a tensor of no dims.
func Scalar[E Element](s *Session, x E) *Tensor {
	return FromBytes(s, DTypeOf[E](), bytesOf([]E{x}))
}

// copyChunked copies in pieces that stay in the cache. From 1 MiB on, Go's copy uses
// stores that bypass the cache, and the worker would read the bytes from memory. Data too
// large for any cache is better copied that way.
func copyChunked(dst, src []byte) {
	const chunk, large = 256 << 10, 16 << 20
	for len(src) > chunk && len(dst) <= large {
		copy(dst[:chunk], src)
		dst, src = dst[chunk:], src[chunk:]
	}
	copy(dst, src)
}

// View calls f with t's content in row-major order without a copy: on one host it is the
// worker's memory. The slice is valid only during f and must not be written.
func View[E Element](t *Tensor, f func([]E) error) error {
	s := t.v.s
	if s == nil && t.v.failed() != nil {
		return t.v.failed()
	}
	if err := s.enter("read"); err != nil {
		return err
	}
	if t.v.failed() == nil && t.v.dtype != DTypeOf[E]() {
		defer s.leave()
		return s.fail(&OpError{Op: "read", Inputs: t.v.String(), Site: callSite(), Err: fmt.Errorf("%w: asked for %v", ErrDType, DTypeOf[E]())})
	}
	s.leave()
	return t.ViewBytes(func(b []byte) error { return f(elements[E](b)) })
}

// Data returns a copy of t's content in row-major order.
func Data[E Element](t *Tensor) ([]E, error) {
	var out []E
	err := View(t, func(x []E) error {
		out = append(make([]E, 0, len(x)), x...)
		return nil
	})
	return out, err
}

// Item returns the single element of t as a float64; a bool is 0 or 1.
func (t *Tensor) Item() (float64, error) {
	if t.v.failed() == nil && t.v.shape.Elems() != 1 {
		return 0, t.v.s.fail(&OpError{Op: "item", Inputs: t.v.String(), Site: callSite(), Err: fmt.Errorf("%w: %d elements, expected 1", ErrShape, t.v.shape.Elems())})
	}
	var x float64
	err := t.ViewBytes(func(b []byte) error {
		x = first(t.v.dtype, b)
		return nil
	})
	return x, err
}

// first returns the first element of b, whose dtype is d.
func first(d DType, b []byte) float64 {
	switch d {
	case F32:
		return float64(elements[float32](b)[0])
	case F64:
		return elements[float64](b)[0]
	case I32:
		return float64(elements[int32](b)[0])
	case I64:
		return float64(elements[int64](b)[0])
	case F16:
		return float64(elements[element.Float16](b)[0].Float32())
	case BF16:
		return float64(elements[element.BFloat16](b)[0].Float32())
	}
	return float64(b[0]) // a bool is 0 or 1
}
