package torch

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// maxDims bounds the dimensions of a tensor.
const maxDims = 16

// object is GLOBAL, BINPERSID and REDUCE: the three opcodes by which a tensor is made.
func (m *machine) object(op byte) error {
	if op == 'c' {
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		g := global(module + " " + name)
		if !globals[g] {
			return fmt.Errorf("the name %.80q is not allowed", string(g))
		}
		return m.push(g)
	}
	v, err := m.pop()
	if err != nil {
		return err
	}
	args, ok := v.(tuple)
	if !ok {
		return errStack
	}
	if op == 'Q' {
		s, err := newStorage(args)
		if err != nil {
			return err
		}
		return m.push(s)
	}
	callee, err := m.pop()
	if err != nil {
		return err
	}
	switch {
	case callee == global("collections OrderedDict") && len(args) == 0:
		return m.push(&dict{map[string]any{}})
	case callee == global("torch._utils _rebuild_tensor_v2"):
		t, err := newTensor(args)
		if err != nil {
			return err
		}
		return m.push(t)
	}
	return errors.New("only tensors and empty ordered dicts are made by a call")
}

// newStorage takes ("storage", type, key, device, elements).
func newStorage(args tuple) (s storage, err error) {
	if len(args) != 5 || args[0] != "storage" {
		return s, errors.New("the persistent id is not that of a storage")
	}
	kind, ok1 := args[1].(global)
	key, ok2 := args[2].(string)
	count, ok3 := args[4].(int64)
	name, ok4 := strings.CutSuffix(strings.TrimPrefix(string(kind), "torch "), "Storage")
	if !ok1 || !ok2 || !ok3 || !ok4 || count < 0 || count > math.MaxInt64/8 {
		return s, errors.New("the storage is not a type, a text, a device and a number of elements")
	}
	return storage{name, key, count}, nil
}

// newTensor takes (storage, offset, shape, stride, requires_grad, hooks). It checks that
// the tensor is contiguous and lies within its storage.
func newTensor(args tuple) (*tensor, error) {
	bad := errors.New("the tensor is not a storage, an offset, a shape and strides")
	if len(args) < 4 {
		return nil, bad
	}
	s, ok1 := args[0].(storage)
	offset, ok2 := args[1].(int64)
	shape, ok3 := args[2].(tuple)
	stride, ok4 := args[3].(tuple)
	if !ok1 || !ok2 || !ok3 || !ok4 || len(shape) != len(stride) || len(shape) > maxDims {
		return nil, bad
	}
	t := &tensor{storage: s, offset: offset, shape: make([]int64, len(shape))}
	next := int64(1) // elements of the dimensions behind
	for i := len(shape) - 1; i >= 0; i-- {
		d, ok1 := shape[i].(int64)
		by, ok2 := stride[i].(int64)
		if !ok1 || !ok2 || d < 1 || d > s.count/next {
			return nil, fmt.Errorf("dimension %d of the shape does not fit a storage of %d elements", i, s.count)
		}
		if d > 1 && by != next {
			return nil, fmt.Errorf("dimension %d has stride %d, expected %d of a contiguous tensor", i, by, next)
		}
		t.shape[i] = d
		next *= d
	}
	if offset < 0 || offset > s.count-next {
		return nil, fmt.Errorf("%d elements from %d on, expected them within %d", next, offset, s.count)
	}
	return t, nil
}

// elements returns the number of elements.
func (t *tensor) elements() int64 {
	n := int64(1)
	for _, d := range t.shape {
		n *= d
	}
	return n
}
