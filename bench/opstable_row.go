package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

const (
	// smallElems is how many elements the largest operand of a small row has at most.
	smallElems = 256
	// shortElems is how many elements the last dim of a short row's first operand has at
	// most.
	shortElems = 7
)

// The dtypes that operations take.
var (
	floatTypes   = []tensor.DType{tensor.F32, tensor.F64, tensor.BF16, tensor.F16}
	integerTypes = []tensor.DType{tensor.I32, tensor.I64, tensor.U8}
	numberTypes  = slices.Concat(floatTypes, integerTypes)
	anyType      = append(slices.Clone(numberTypes), tensor.Bool)
	boolTypes    = []tensor.DType{tensor.Bool}
)

// layout is how an operand lies in memory.
type layout int

const (
	dense      layout = iota
	transposed        // the last two dims exchanged
	strided           // every fourth row of another
	cut               // all but the last column of another
)

func (l layout) String() string { return [...]string{"", " transposed", " strided", " cut"}[l] }

// operand is an operand of a row, which both sides make.
type operand struct {
	dtype  tensor.DType
	layout layout
	below  int // of an integer, 0 for 100
	shape  []int
}

// String is a type and a shape: f32[64] transposed.
func (o operand) String() string {
	return o.dtype.String() + strings.ReplaceAll(fmt.Sprint(o.shape), " ", ",") + o.layout.String()
}

// base is the shape of what the operand is a view of.
func (o operand) base() []int {
	s := slices.Clone(o.shape)
	switch n := len(s); o.layout {
	case transposed:
		s[n-1], s[n-2] = s[n-2], s[n-1]
	case strided:
		s[0] *= 4
	case cut:
		s[n-1]++
	}
	return s
}

// make makes what the operand is a view of. Floats lie between 0 and 1.
func (o operand) make(s *tensor.Session) *tensor.Tensor {
	x := tensor.Rand(s, tensor.F32, o.base()...)
	switch {
	case o.dtype == tensor.Bool:
		return x.GtS(0.5)
	case !o.dtype.IsFloat():
		return x.MulS(float64(cmp.Or(o.below, 100))).Cast(o.dtype)
	}
	return x.Cast(o.dtype)
}

// view records the operand on what make made.
func (o operand) view(x *tensor.Tensor) *tensor.Tensor {
	switch o.layout {
	case transposed:
		return x.T()
	case strided:
		return x.Slice(tensor.By(0, o.shape[0]*4, 4))
	case cut:
		return x.Narrow(-1, 0, o.shape[len(o.shape)-1])
	}
	return x
}

// torch is the operand in PyTorch.
func (o operand) torch() string {
	shape := strings.ReplaceAll(fmt.Sprint(o.base()), " ", ",")
	x := fmt.Sprintf("torch.rand(%s).to(%s)", shape, torchType(o.dtype))
	switch {
	case o.dtype == tensor.Bool:
		x = fmt.Sprintf("(torch.rand(%s) > 0.5)", shape)
	case !o.dtype.IsFloat():
		x = fmt.Sprintf("torch.randint(0, %d, %s, dtype=%s)", cmp.Or(o.below, 100), shape, torchType(o.dtype))
	}
	switch o.layout {
	case transposed:
		x += ".transpose(-1, -2)"
	case strided:
		x += "[::4]"
	case cut:
		x += "[..., :-1]"
	}
	return x
}

func torchType(d tensor.DType) string {
	return map[tensor.DType]string{
		tensor.F32: "torch.float32", tensor.F64: "torch.float64", tensor.BF16: "torch.bfloat16", tensor.F16: "torch.float16",
		tensor.I32: "torch.int32", tensor.I64: "torch.int64", tensor.U8: "torch.uint8", tensor.Bool: "torch.bool",
	}[d]
}

// tableRow is one operation on some operands. In torch, which is the same in PyTorch, the
// operands are called a, b and c.
type tableRow struct {
	op      tensor.Op
	note    string // in the name, where the operands don't tell rows apart
	in      []operand
	ints    []int64
	scalars []float64
	torch   string
	dense   bool    // the result, a view, is copied
	flop    float64 // of products
}

// name tells the row from all others.
func (t *tableRow) name() string {
	s := t.op.String()
	for _, o := range t.in {
		s += " " + o.String()
	}
	if t.note != "" {
		s += " " + t.note
	}
	return s
}

// operands returns what they are, the same of rows whose operands are alike.
func (t *tableRow) operands() string { return fmt.Sprint(t.in) }

// dtypes returns the dtypes of the operands; of a row without any, that of the result.
func (t *tableRow) dtypes() (types []string) {
	if len(t.in) == 0 {
		return []string{tensor.DType(t.ints[0]).String()}
	}
	for _, o := range t.in {
		types = append(types, o.dtype.String())
	}
	return types
}

// TableLayouts lists the layouts that rows of the table of operations have.
func TableLayouts() []string {
	return []string{"dense", "transposed", "strided", "broadcast", "small", "short"}
}

// layout returns how the operands lie: short if the first has short rows, or as the first
// that is not dense does, small if no more than a call is measured.
func (t *tableRow) layout() string {
	if t.short() {
		return "short"
	}
	most := 0
	for _, o := range t.in {
		if o.layout != dense {
			return strings.TrimSpace(o.layout.String())
		}
		most = max(most, tensor.Shape(o.shape).Elems())
	}
	switch {
	case len(t.in) == 2 && t.op.Info().Class == tensor.ClassElementwise && !slices.Equal(t.in[0].shape, t.in[1].shape):
		return "broadcast"
	case most <= smallElems && len(t.in) > 0:
		return "small"
	}
	return "dense"
}

// short reports whether the first operand has many rows of a few elements.
func (t *tableRow) short() bool {
	if len(t.in) == 0 || len(t.in[0].shape) < 2 || tensor.Shape(t.in[0].shape).Elems() <= smallElems {
		return false
	}
	last := t.in[0].shape[len(t.in[0].shape)-1]
	return last > 1 && last <= shortElems
}

// record records the operation on what make made.
func (t *tableRow) record(s *tensor.Session, made []*tensor.Tensor) *tensor.Tensor {
	var args []tensor.Arg
	for i, o := range t.in {
		args = append(args, tensor.T(o.view(made[i])))
	}
	for _, x := range t.scalars {
		args = append(args, tensor.S(x))
	}
	y := s.Apply(t.op, t.ints, args...)
	if t.dense {
		y = s.Apply(tensor.OpCast, []int64{int64(y.DType())}, tensor.T(y))
	}
	return y
}

// inTypes returns the row in each of the dtypes, which its operands of f32 take.
func inTypes(types []tensor.DType, t tableRow) (rows []tableRow) {
	for _, d := range types {
		x := t
		x.in = slices.Clone(t.in)
		for i := range x.in {
			if x.in[i].dtype == tensor.F32 {
				x.in[i].dtype = d
			}
		}
		rows = append(rows, x)
	}
	return rows
}

// inLayouts returns the rows, whose operands are dense, and after each those in which the
// first operand lies in other ways.
func inLayouts(rows []tableRow) (all []tableRow) {
	for _, t := range rows {
		all = append(all, t)
		for _, how := range []layout{transposed, strided} {
			x := t
			x.in = slices.Clone(t.in)
			x.in[0].layout = how
			all = append(all, x)
		}
	}
	return all
}

// whole returns an operation in all dtypes: on large operands in all layouts, on small
// ones, and on those with short rows that there are.
func whole(types []tensor.DType, onLarge, onSmall tableRow, onShort ...tableRow) []tableRow {
	rows := append(inLayouts(inTypes(types, onLarge)), inTypes(types, onSmall)...)
	for _, t := range onShort {
		rows = append(rows, inTypes(types, t)...)
	}
	return rows
}

// alike returns whole of an operation whose n operands have one dtype and one shape.
// Short rows of an elementwise one lie apart: others would be one long row.
func alike(types []tensor.DType, n int, t tableRow) []tableRow {
	onLarge, onSmall, onShort := t, t, t
	onLarge.in, onSmall.in, onShort.in = nil, nil, nil
	inRows := of(tensor.F32, short...)
	if t.op.Info().Class == tensor.ClassElementwise {
		inRows.layout = cut
	}
	for range n {
		onLarge.in, onSmall.in, onShort.in = append(onLarge.in, of(tensor.F32, large...)), append(onSmall.in, of(tensor.F32, small...)), append(onShort.in, inRows)
	}
	return whole(types, onLarge, onSmall, onShort)
}
