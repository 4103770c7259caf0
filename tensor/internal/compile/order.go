package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// An elementwise operation whose operands all lie in one order of dims other than
// row-major writes its result in that order too, where every reader can take it: the step
// goes over contiguous memory, and the permutation is a view of its result.

// ordered finds the live instructions whose results may lie in any order of dims: those
// of elementwise operations whose readers are elementwise, products, or permutations of
// which the same is true. Every other reader would copy the result first.
func (b *builder) ordered() {
	p := b.p
	b.anyOrder = make([]bool, len(p.Instrs))
	for i := range b.anyOrder {
		b.anyOrder[i] = true
	}
	for i := len(p.Instrs) - 1; i >= 0; i-- {
		if !b.live[i] || b.readsAnyOrder(i) {
			continue
		}
		for _, r := range p.ArgsOf(i) {
			if j, ok := r.Instr(); ok {
				b.anyOrder[j] = false
			}
		}
	}
}

// readsAnyOrder reports whether instruction i reads an operand in any order of dims as
// fast as in row-major order.
func (b *builder) readsAnyOrder(i int) bool {
	in := &b.p.Instrs[i]
	switch {
	case in.Op == tensor.OpPermute:
		return in.Keep || b.anyOrder[i]
	case b.sameType(i):
		return b.anyOrder[i]
	}
	return in.Op == tensor.OpMatmul || keepsOrder(in.Op)
}

// sameType reports whether instruction i is a cast to the dtype that its operand has.
func (b *builder) sameType(i int) bool {
	in := &b.p.Instrs[i]
	if in.Op != tensor.OpCast {
		return false
	}
	d, _ := b.p.TypeOf(b.p.ArgsOf(i)[0])
	return d == in.DType
}

// keepsOrder reports whether op computes each element of its result from the elements at
// the same place, whatever the place is. Updates are left out: passes look for them in
// row-major order.
func keepsOrder(op tensor.Op) bool {
	info := op.Info()
	return info.Class == tensor.ClassElementwise && info.Kind != tensor.KindUpdate && !info.Random
}

// orderOf returns the dims of the result of s, of the given shape, in the order in which
// all operands of that shape lie in memory, outermost first; nil if they lie in more than
// one order, or in row-major order. Operands that are broadcast have none.
func orderOf(s *Step, shape tensor.Shape) []int {
	if shape.Elems() == 0 {
		return nil
	}
	var order []int
	for _, o := range s.In {
		if o.Scalar >= 0 || !o.Shape.Equal(shape) || repeats(o) {
			continue
		}
		mine, ok := memoryOrder(o)
		if !ok || order != nil && !slices.Equal(order, mine) {
			return nil
		}
		order = mine
	}
	if slices.IsSorted(order) {
		return nil
	}
	return order
}

// repeats reports whether elements of o lie at one place.
func repeats(o Operand) bool {
	for i, n := range o.Shape {
		if n > 1 && o.Strides[i] == 0 {
			return true
		}
	}
	return false
}

// memoryOrder returns the dims of o by falling strides. Dims of size 1, whose strides do
// not matter, stay before the dims that follow them. It returns false if elements of one
// dim lie between those of another, or in descending order.
func memoryOrder(o Operand) ([]int, bool) {
	strides := slices.Clone(o.Strides)
	for i, n := range slices.Backward(o.Shape) {
		switch {
		case n != 1:
		case i+1 == len(o.Shape):
			strides[i] = 1
		default:
			strides[i] = strides[i+1] * o.Shape[i+1]
		}
	}
	order := make([]int, len(strides))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return strides[j] - strides[i] })
	end := 1
	for _, i := range slices.Backward(order) {
		if strides[i] < end {
			return nil, false
		}
		end = strides[i] * o.Shape[i]
	}
	return order, true
}

// inOrder makes s, which computes instruction i, go over its operands in the given order
// of dims, adds its result in that order, and returns the result as the program sees it.
func (b *builder) inOrder(i int, s *Step, order []int) Operand {
	in := &b.p.Instrs[i]
	shape := b.p.Shapes[in.Shape]
	for k, o := range s.In {
		if o.Scalar < 0 {
			s.In[k] = permuted(spreadOver(o, shape), order)
		}
	}
	inMemory := make(tensor.Shape, len(order))
	for k, d := range order {
		inMemory[k] = shape[d]
	}
	s.Out = b.resultOf(i, inMemory)
	seen := s.Out
	seen.Shape, seen.Strides, seen.Dense = shape, make([]int, len(shape)), false
	for k, d := range order {
		seen.Strides[d] = s.Out.Strides[k]
	}
	if in.Keep {
		b.plan.Outputs[len(b.plan.Outputs)-1].Strides = seen.Strides
	}
	return seen
}

// permuted returns o with its dims in the given order.
func permuted(o Operand, order []int) Operand {
	shape, strides := make(tensor.Shape, len(order)), make([]int, len(order))
	for k, d := range order {
		shape[k], strides[k] = o.Shape[d], o.Strides[d]
	}
	o.Shape, o.Strides, o.Dense = shape, strides, dense(shape, strides)
	return o
}
