package torch

import (
	"math"
	"strings"
)

// maxDims bounds the dimensions of a tensor.
const maxDims = 16

// object is GLOBAL, BINPERSID and REDUCE: the three opcodes by which a tensor is made.
func (m *machine) object(op byte) {
	if op == 'c' {
		g := global(m.line() + " " + m.line())
		if !globals[g] {
			fail("the name %.80q is not allowed", string(g))
		}
		m.push(g)
		return
	}
	args, ok := m.pop().(tuple)
	if !ok {
		failStack()
	}
	if op == 'Q' {
		m.push(newStorage(args))
		return
	}
	switch callee := m.pop(); {
	case callee == global("collections OrderedDict") && len(args) == 0:
		m.push(&dict{map[string]any{}})
	case callee == global("torch._utils _rebuild_tensor_v2"):
		m.push(newTensor(args))
	default:
		fail("only tensors and empty ordered dicts are made by a call")
	}
}

// newStorage takes ("storage", type, key, device, elements).
func newStorage(args tuple) storage {
	if len(args) != 5 || args[0] != "storage" {
		fail("the persistent id is not that of a storage")
	}
	kind, ok1 := args[1].(global)
	key, ok2 := args[2].(string)
	count, ok3 := args[4].(int64)
	name, ok4 := strings.CutSuffix(strings.TrimPrefix(string(kind), "torch "), "Storage")
	if !ok1 || !ok2 || !ok3 || !ok4 || count < 0 || count > math.MaxInt64/8 {
		fail("the storage is not a type, a text, a device and a number of elements")
	}
	return storage{name, key, count}
}

// newTensor takes (storage, offset, shape, stride, requires_grad, hooks). It checks that
// the tensor is contiguous and lies within its storage.
func newTensor(args tuple) *tensor {
	if len(args) < 4 {
		fail("a tensor of %d arguments, expected at least 4", len(args))
	}
	s, ok1 := args[0].(storage)
	offset, ok2 := args[1].(int64)
	shape, ok3 := args[2].(tuple)
	stride, ok4 := args[3].(tuple)
	if !ok1 || !ok2 || !ok3 || !ok4 || len(shape) != len(stride) || len(shape) > maxDims {
		fail("the tensor is not a storage, an offset, a shape and strides")
	}
	t := &tensor{storage: s, offset: offset, shape: make([]int64, len(shape))}
	next := int64(1) // elements of the dimensions behind
	for i := len(shape) - 1; i >= 0; i-- {
		d, ok1 := shape[i].(int64)
		by, ok2 := stride[i].(int64)
		if !ok1 || !ok2 { // other values are not printed: a nested tuple may be endless
			fail("dimension %d or its stride is no integer", i)
		}
		if d < 1 || d > s.count/next || d > 1 && by != next {
			fail("dimension %d is %d with stride %d, expected it within %d elements and stride %d", i, d, by, s.count, next)
		}
		t.shape[i] = d
		next *= d
	}
	if offset < 0 || offset > s.count-next {
		fail("%d elements from %d on, expected them within %d", next, offset, s.count)
	}
	return t
}

// elements returns the number of elements.
func (t *tensor) elements() int64 {
	n := int64(1)
	for _, d := range t.shape {
		n *= d
	}
	return n
}
