package tensor

import (
	"fmt"
	"math"
)

// inference is what an operation's infer function sees and fills. Operands that are scalars in the place of a tensor
// have dtype Invalid and the scalar shape. The tensors of one instruction agree in dtype except where an operation
// says otherwise: the recorder inserts casts, so that engines and a receiver of programs need no promotion rules.
//
// One inference is reused for every instruction of a session: dt, sh and ints are only valid during the call.
type inference struct {
	op   Op
	dt   []DType
	sh   []Shape
	ints []int64

	outDT    DType
	outShape Shape
}

// infer fills in what op makes of its operands. Operations that compute take no halves: the recorder widens them.
func (c *inference) infer(op *OpInfo) error {
	native := movesHalves(c.op)
	for _, d := range c.dt {
		if d.IsHalf() && !native {
			return fmt.Errorf("%w: %v; expected f32, to which it is cast before", ErrDType, d)
		}
	}
	if err := op.infer(c); err != nil {
		return err
	}
	if c.outDT.IsHalf() && !native {
		return fmt.Errorf("%w: %v; expected f32, which is cast to it", ErrDType, c.outDT)
	}
	return nil
}

// movesHalves reports whether op takes and gives F16 and BF16 as they are.
func movesHalves(op Op) bool {
	switch op {
	case OpCast, OpConcat, OpPad, OpTril, OpTriu, OpIndexSelect, OpGather:
		return true
	}
	return op.Info().Class == ClassView
}

func (c *inference) give(d DType, s Shape) error {
	c.outDT, c.outShape = d, s
	return nil
}

func (c *inference) shapeErr(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrShape}, a...)...)
}

func (c *inference) dtypeErr(want string) error {
	return fmt.Errorf("%w: expected %s", ErrDType, want)
}

// wantInts checks the number of integer attributes.
func (c *inference) wantInts(n int) error {
	if len(c.ints) != n {
		return c.shapeErr("%d integer attributes, expected %d", len(c.ints), n)
	}
	return nil
}

// common is the one dtype of all tensor operands.
func (c *inference) common() (DType, error) {
	d := Invalid
	for _, x := range c.dt {
		switch {
		case x == Invalid:
		case d == Invalid:
			d = x
		case d != x:
			return d, fmt.Errorf("%w: %v and %v in one instruction", ErrDType, d, x)
		}
	}
	if d == Invalid {
		return d, c.dtypeErr("at least one tensor")
	}
	return d, nil
}

func (c *inference) broadcast() (Shape, error) {
	out := c.sh[0]
	for _, s := range c.sh[1:] {
		var err error
		if out, err = Broadcast(out, s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// elementwise gives the common dtype, mapped by f, and the broadcast shape.
func (c *inference) elementwise(f func(DType) (DType, error)) error {
	d, err := c.common()
	if err != nil {
		return err
	}
	s, err := c.broadcast()
	if err != nil {
		return err
	}
	if d, err = f(d); err != nil {
		return err
	}
	return c.give(d, s)
}

// shapeOf turns integer attributes into a checked shape.
func shapeOf(ints []int64, d DType) (Shape, error) {
	if len(ints) > MaxRank {
		return nil, fmt.Errorf("%w: %d dims, at most %d", ErrShape, len(ints), MaxRank)
	}
	s := make(Shape, len(ints))
	for i, n := range ints {
		if n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("%w: dim %d is %d; expected 0 to %d", ErrShape, i, n, math.MaxInt32)
		}
		s[i] = int(n)
	}
	return s, s.Check(d)
}

func inferLeaf(c *inference) error { return leaf(c, 1) }

// inferRandom's attributes begin with dtype and the offset of its counter.
func inferRandom(c *inference) error {
	if len(c.ints) > 0 && !DType(c.ints[0]).IsFloat() {
		return c.dtypeErr("a float")
	}
	return leaf(c, 2)
}

func leaf(c *inference, skip int) error {
	if len(c.ints) < skip || !validDType(c.ints[0]) {
		return c.dtypeErr("a dtype as first attribute")
	}
	d := DType(c.ints[0])
	s, err := shapeOf(c.ints[skip:], d)
	if err != nil {
		return err
	}
	if c.op == OpArange && (len(s) != 1 || d == Bool) {
		return c.shapeErr("arange makes one dim of numbers, not %v of %v", s, d)
	}
	return c.give(d, s)
}

func validDType(x int64) bool { return x > 0 && x < 256 && DType(x).Valid() }

func inferSame(c *inference) error {
	if c.dt[0] == Bool {
		return c.dtypeErr("a number, not bool (Cast first)")
	}
	return c.give(c.dt[0], c.sh[0])
}

func inferFloat(c *inference) error {
	if !c.dt[0].IsFloat() {
		return c.dtypeErr("a float")
	}
	return c.give(c.dt[0], c.sh[0])
}

func asFloat(d DType) (DType, error) {
	if !d.IsFloat() {
		return d, fmt.Errorf("%w: %v; expected a float", ErrDType, d)
	}
	return d, nil
}

func asNumber(d DType) (DType, error) {
	if d == Bool {
		return d, fmt.Errorf("%w: bool; expected a number (Cast first)", ErrDType)
	}
	return d, nil
}

func inferFloat2(c *inference) error { return c.elementwise(asFloat) }
func inferArith(c *inference) error  { return c.elementwise(asNumber) }
func inferBool(c *inference) error {
	return c.elementwise(func(d DType) (DType, error) {
		if d != Bool {
			return d, fmt.Errorf("%w: %v; expected bool", ErrDType, d)
		}
		return d, nil
	})
}

func inferCompare(c *inference) error {
	return c.elementwise(func(DType) (DType, error) { return Bool, nil })
}

func inferCast(c *inference) error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	if !validDType(c.ints[0]) {
		return c.dtypeErr("a dtype as attribute")
	}
	return c.give(DType(c.ints[0]), c.sh[0])
}

func inferWhere(c *inference) error {
	if c.dt[0] != Bool {
		return c.dtypeErr("a bool condition")
	}
	s, err := c.broadcast()
	if err != nil {
		return err
	}
	a, b := c.dt[1], c.dt[2]
	if a == Invalid {
		a = b
	}
	if b == Invalid {
		b = a
	}
	if a == Invalid || a != b {
		return fmt.Errorf("%w: branches of %v and %v; expected one dtype and at least one tensor", ErrDType, c.dt[1], c.dt[2])
	}
	return c.give(a, s)
}

func inferUpdate(c *inference) error {
	d, err := c.common()
	if err != nil {
		return err
	}
	for _, s := range c.sh[1:] {
		if !s.Equal(c.sh[0]) {
			return c.shapeErr("%v and %v; expected equal shapes", c.sh[0], s)
		}
	}
	if !d.IsFloat() {
		return c.dtypeErr("a float")
	}
	return c.give(d, c.sh[0])
}

func inferDropout(c *inference) error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	return inferFloat(c)
}

// dims reads a list of dims: distinct, 0..rank-1.
func (c *inference) dims(ints []int64, rank int) (mask uint, err error) {
	for _, d := range ints {
		if d < 0 || d >= int64(rank) {
			return 0, c.shapeErr("dim %d of a tensor with %d dims", d, rank)
		}
		if mask&(1<<d) != 0 {
			return 0, c.shapeErr("dim %d twice", d)
		}
		mask |= 1 << d
	}
	return mask, nil
}

// inferReduce: no dims listed means all.
func inferReduce(c *inference) error {
	if len(c.ints) < 1 || c.ints[0]&^1 != 0 {
		return c.shapeErr("keepdim must be 0 or 1")
	}
	x, d := c.sh[0], c.dt[0]
	mask, err := c.dims(c.ints[1:], len(x))
	if err != nil {
		return err
	}
	all := len(c.ints) == 1
	arg := c.op == OpArgmax || c.op == OpArgmin
	if arg && len(c.ints) > 2 {
		return c.shapeErr("%v takes one dim or none", c.op)
	}
	out, empty := make(Shape, 0, len(x)), false
	for i, n := range x {
		switch {
		case !all && mask&(1<<i) == 0:
			out = append(out, n)
			continue
		case c.ints[0] == 1:
			out = append(out, 1)
		}
		empty = empty || n == 0
	}
	switch c.op {
	case OpAny, OpAll:
		if d != Bool {
			return c.dtypeErr("bool")
		}
	case OpSum, OpProd:
		if !d.IsFloat() {
			d = I64
		}
	case OpMean:
		if !d.IsFloat() {
			d = F32
		}
	default:
		if d == Bool {
			return c.dtypeErr("a number, not bool (Cast first)")
		}
		if empty {
			return c.shapeErr("%v over a dim of 0", c.op)
		}
		if arg {
			d = I64
		}
	}
	return c.give(d, out)
}

func inferCumsum(c *inference) error {
	if err := c.wantInts(2); err != nil {
		return err
	}
	if _, err := c.dims(c.ints[:1], len(c.sh[0])); err != nil {
		return err
	}
	return inferSame(c)
}

func inferProdGrad(c *inference) error {
	mask, err := c.dims(c.ints, len(c.sh[0]))
	if err != nil {
		return err
	}
	want := make(Shape, len(c.sh[0]))
	for i, n := range c.sh[0] {
		want[i] = n
		if mask&(1<<i) != 0 || len(c.ints) == 0 {
			want[i] = 1
		}
	}
	if !c.sh[1].Equal(want) {
		return c.shapeErr("dy is %v, expected %v", c.sh[1], want)
	}
	if _, err := c.common(); err != nil {
		return err
	}
	return inferFloat(c)
}

func inferReshape(c *inference) error {
	s, err := shapeOf(c.ints, c.dt[0])
	if err != nil {
		return err
	}
	if s.Elems() != c.sh[0].Elems() {
		return c.shapeErr("%d elements of %v can't be %v, which has %d", c.sh[0].Elems(), c.sh[0], s, s.Elems())
	}
	return c.give(c.dt[0], s)
}

func inferBarrier(c *inference) error {
	if err := c.wantInts(0); err != nil {
		return err
	}
	return c.give(c.dt[0], c.sh[0])
}

func inferPermute(c *inference) error {
	x := c.sh[0]
	if err := c.wantInts(len(x)); err != nil {
		return err
	}
	if _, err := c.dims(c.ints, len(x)); err != nil {
		return err
	}
	out := make(Shape, len(x))
	for i, d := range c.ints {
		out[i] = x[d]
	}
	return c.give(c.dt[0], out)
}

func inferExpand(c *inference) error {
	s, err := shapeOf(c.ints, c.dt[0])
	if err != nil {
		return err
	}
	b, err := Broadcast(c.sh[0], s)
	if err != nil {
		return err
	}
	if !b.Equal(s) {
		return c.shapeErr("%v doesn't expand to %v", c.sh[0], s)
	}
	return c.give(c.dt[0], s)
}

func inferSlice(c *inference) error {
	x := c.sh[0]
	if err := c.wantInts(3 * len(x)); err != nil {
		return err
	}
	out := make(Shape, len(x))
	for i, n := range x {
		start, step, count := c.ints[3*i], c.ints[3*i+1], c.ints[3*i+2]
		if count < 0 || count > int64(n) || step == 0 || step > math.MaxInt32 || step < -math.MaxInt32 {
			return c.shapeErr("slice of dim %d (size %d): %d elements by step %d", i, n, count, step)
		}
		last := start + step*max(count-1, 0)
		if count > 0 && (start < 0 || start >= int64(n) || last < 0 || last >= int64(n)) {
			return c.shapeErr("slice of dim %d (size %d) reads %d to %d", i, n, start, last)
		}
		out[i] = int(count)
	}
	return c.give(c.dt[0], out)
}

func inferConcat(c *inference) error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	d, err := c.common()
	if err != nil {
		return err
	}
	x := c.sh[0]
	if _, err := c.dims(c.ints, len(x)); err != nil {
		return err
	}
	out := append(Shape(nil), x...)
	for k, s := range c.sh[1:] {
		if len(s) != len(x) {
			return c.shapeErr("operand %d is %v, operand 0 is %v", k+1, s, x)
		}
		for i := range s {
			if i == int(c.ints[0]) {
				out[i] += s[i]
			} else if s[i] != x[i] {
				return c.shapeErr("operand %d is %v, operand 0 is %v: dim %d must agree", k+1, s, x, i)
			}
		}
	}
	if err := out.Check(d); err != nil {
		return err
	}
	return c.give(d, out)
}

func inferPad(c *inference) error {
	x := c.sh[0]
	if err := c.wantInts(2 * len(x)); err != nil {
		return err
	}
	out := make(Shape, len(x))
	for i, n := range x {
		a, b := c.ints[2*i], c.ints[2*i+1]
		if a < 0 || b < 0 || a > math.MaxInt32 || b > math.MaxInt32 {
			return c.shapeErr("pad of dim %d by %d and %d; expected 0 or more", i, a, b)
		}
		out[i] = n + int(a) + int(b)
	}
	if err := out.Check(c.dt[0]); err != nil {
		return err
	}
	return c.give(c.dt[0], out)
}

func inferTri(c *inference) error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	if len(c.sh[0]) < 2 {
		return c.shapeErr("%v; expected two dims or more", c.sh[0])
	}
	return c.give(c.dt[0], c.sh[0])
}

// indexDType checks that operand i is an index tensor.
func (c *inference) indexDType(i int) error {
	if c.dt[i] != I32 && c.dt[i] != I64 {
		return fmt.Errorf("%w: indices of %v; expected i32 or i64", ErrDType, c.dt[i])
	}
	return nil
}

func (c *inference) indexed() error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	if _, err := c.dims(c.ints, len(c.sh[0])); err != nil {
		return err
	}
	if err := c.indexDType(1); err != nil {
		return err
	}
	if len(c.dt) == 3 && c.dt[2] != c.dt[0] {
		return fmt.Errorf("%w: source of %v into %v", ErrDType, c.dt[2], c.dt[0])
	}
	return nil
}

// selected is the shape of x with idx's dims in the place of dim.
func selected(x, idx Shape, dim int) Shape {
	s := make(Shape, 0, len(x)+len(idx))
	s = append(append(s, x[:dim]...), idx...)
	return append(s, x[dim+1:]...)
}

func inferIndexSelect(c *inference) error {
	if err := c.indexed(); err != nil {
		return err
	}
	s := selected(c.sh[0], c.sh[1], int(c.ints[0]))
	if err := s.Check(c.dt[0]); err != nil {
		return err
	}
	return c.give(c.dt[0], s)
}

func inferIndexAdd(c *inference) error {
	if err := c.indexed(); err != nil {
		return err
	}
	if want := selected(c.sh[0], c.sh[1], int(c.ints[0])); !c.sh[2].Equal(want) {
		return c.shapeErr("source is %v, expected %v", c.sh[2], want)
	}
	return inferSame(c)
}

// inferGather also serves scatter_add, whose source has the index's shape.
func (c *inference) sameButDim() error {
	x, idx := c.sh[0], c.sh[1]
	if len(x) != len(idx) {
		return c.shapeErr("indices are %v, expected as many dims as %v", idx, x)
	}
	for i := range x {
		if i != int(c.ints[0]) && idx[i] > x[i] {
			return c.shapeErr("indices %v reach beyond %v in dim %d", idx, x, i)
		}
	}
	return nil
}

func inferGather(c *inference) error {
	if err := c.indexed(); err != nil {
		return err
	}
	if err := c.sameButDim(); err != nil {
		return err
	}
	return c.give(c.dt[0], c.sh[1])
}

func inferScatterAdd(c *inference) error {
	if err := c.indexed(); err != nil {
		return err
	}
	if err := c.sameButDim(); err != nil {
		return err
	}
	if !c.sh[2].Equal(c.sh[1]) {
		return c.shapeErr("source is %v, indices are %v; expected equal shapes", c.sh[2], c.sh[1])
	}
	return inferSame(c)
}

func inferOneHot(c *inference) error {
	if err := c.wantInts(2); err != nil {
		return err
	}
	if err := c.indexDType(0); err != nil {
		return err
	}
	if !validDType(c.ints[0]) || c.ints[1] < 0 || c.ints[1] > math.MaxInt32 {
		return c.shapeErr("one_hot of %d classes", c.ints[1])
	}
	s := append(append(Shape(nil), c.sh[0]...), int(c.ints[1]))
	if err := s.Check(DType(c.ints[0])); err != nil {
		return err
	}
	return c.give(DType(c.ints[0]), s)
}
