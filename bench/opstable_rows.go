package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// large and small are shapes of operands of 4 Mi and 64 elements, short and shortCube of
// about 4 Mi in short rows.
var (
	large     = []int{2048, 2048}
	small     = []int{8, 8}
	short     = []int{599186, shortElems}
	shortCube = []int{128, 4681, shortElems}
)

func of(d tensor.DType, shape ...int) operand { return operand{dtype: d, shape: shape} }

// ids are indices below n.
func ids(n int, shape ...int) operand {
	return operand{dtype: tensor.I64, below: n, shape: shape}
}

// tableRows are the rows of the scenario ops-table: every operation in every dtype that
// it takes, its operands in every layout. Rows whose operands are alike follow each
// other.
func tableRows() []tableRow {
	rows := slices.Concat(leafRows(), unaryRows(), castRows(), binaryRows(), updateRows(), reductionRows(), viewRows(), moveRows(), productRows(), convRows(), normRows(), imageRows())
	slices.SortStableFunc(rows, func(a, b tableRow) int { return strings.Compare(a.operands(), b.operands()) })
	return rows
}

// leafRows make tensors of nothing. The dtype, which is that of the result, is in a name.
func leafRows() (rows []tableRow) {
	for _, shape := range [][]int{large, small} {
		n := tensor.Shape(shape).Elems()
		dims := fmt.Sprintf("%d, %d", shape[0], shape[1])
		for _, d := range anyType {
			add := func(op tensor.Op, o operand, ints []int64, scalars []float64, torch string) {
				rows = append(rows, tableRow{op: op, note: o.String(), ints: append([]int64{int64(d)}, ints...), scalars: scalars, torch: torch + torchType(d) + ")"})
			}
			to := []int64{int64(shape[0]), int64(shape[1])}
			add(tensor.OpFull, of(d, shape...), to, []float64{1}, "torch.full(("+dims+"), 1, dtype=")
			if d == tensor.Bool {
				continue
			}
			if d != tensor.U8 { // 4 Mi are more than it can count
				add(tensor.OpArange, of(d, n), []int64{int64(n)}, []float64{0, 1}, fmt.Sprintf("torch.arange(%d, dtype=", n))
			}
			if d.IsFloat() {
				add(tensor.OpRand, of(d, shape...), append([]int64{0}, to...), []float64{1, 0}, "torch.rand("+dims+", dtype=")
				add(tensor.OpRandN, of(d, shape...), append([]int64{0}, to...), []float64{1, 0}, "torch.randn("+dims+", dtype=")
			}
		}
	}
	return rows
}

func unaryRows() (rows []tableRow) {
	for _, u := range []struct {
		op    tensor.Op
		torch string
		types []tensor.DType
	}{
		{tensor.OpNeg, "torch.neg(a)", numberTypes}, {tensor.OpAbs, "torch.abs(a)", numberTypes}, {tensor.OpSign, "torch.sign(a)", numberTypes},
		{tensor.OpSquare, "torch.square(a)", numberTypes}, {tensor.OpRelu, "torch.relu(a)", numberTypes},
		{tensor.OpExp, "torch.exp(a)", floatTypes}, {tensor.OpLog, "torch.log(a)", floatTypes}, {tensor.OpSqrt, "torch.sqrt(a)", floatTypes},
		{tensor.OpRsqrt, "torch.rsqrt(a)", floatTypes}, {tensor.OpRecip, "torch.reciprocal(a)", floatTypes}, {tensor.OpSin, "torch.sin(a)", floatTypes},
		{tensor.OpCos, "torch.cos(a)", floatTypes}, {tensor.OpTanh, "torch.tanh(a)", floatTypes}, {tensor.OpSigmoid, "torch.sigmoid(a)", floatTypes},
		{tensor.OpGelu, "F.gelu(a)", floatTypes}, {tensor.OpGeluTanh, "F.gelu(a, approximate='tanh')", floatTypes}, {tensor.OpSilu, "F.silu(a)", floatTypes},
		{tensor.OpErf, "torch.erf(a)", floatTypes}, {tensor.OpFloor, "torch.floor(a)", floatTypes}, {tensor.OpCeil, "torch.ceil(a)", floatTypes},
		{tensor.OpNot, "torch.logical_not(a)", boolTypes},
	} {
		rows = append(rows, alike(u.types, 1, tableRow{op: u.op, torch: u.torch})...)
	}
	rows = append(rows, alike(floatTypes, 1, tableRow{op: tensor.OpClamp, scalars: []float64{0.2, 0.8}, torch: "torch.clamp(a, 0.2, 0.8)"})...)
	rows = append(rows, alike(integerTypes, 1, tableRow{op: tensor.OpClamp, scalars: []float64{20, 80}, torch: "torch.clamp(a, 20, 80)"})...)
	return append(rows, alike(floatTypes, 1, tableRow{op: tensor.OpDropout, ints: []int64{0}, scalars: []float64{0.5, 1, 0}, torch: "F.dropout(a, 0.5, True)"})...)
}

// castRows have all pairs of dtypes, and the layouts and sizes of those to f32, and of
// f32 to f64.
func castRows() (rows []tableRow) {
	for _, from := range anyType {
		for _, to := range anyType {
			t := tableRow{op: tensor.OpCast, note: "to " + to.String(), ints: []int64{int64(to)}, torch: "a.to(" + torchType(to) + ")"}
			switch {
			case from == to:
			case to == tensor.F32, from == tensor.F32 && to == tensor.F64:
				rows = append(rows, alike([]tensor.DType{from}, 1, t)...)
			default:
				t.in = []operand{of(from, large...)}
				rows = append(rows, t)
			}
		}
	}
	return rows
}

// binaryRows have all broadcasts too.
func binaryRows() (rows []tableRow) {
	for _, b := range []struct {
		op    tensor.Op
		torch string
		types []tensor.DType
	}{
		{tensor.OpAdd, "a + b", anyType}, {tensor.OpSub, "a - b", numberTypes}, {tensor.OpMul, "a * b", anyType}, {tensor.OpDiv, "a / b", floatTypes},
		{tensor.OpPow, "torch.pow(a, b)", numberTypes}, {tensor.OpMax, "torch.maximum(a, b)", anyType}, {tensor.OpMin, "torch.minimum(a, b)", anyType},
		{tensor.OpEq, "a == b", anyType}, {tensor.OpNe, "a != b", anyType}, {tensor.OpLt, "a < b", anyType},
		{tensor.OpLe, "a <= b", anyType}, {tensor.OpGt, "a > b", anyType}, {tensor.OpGe, "a >= b", anyType},
		{tensor.OpAnd, "a & b", boolTypes}, {tensor.OpOr, "a | b", boolTypes}, {tensor.OpXor, "a ^ b", boolTypes},
	} {
		t := tableRow{op: b.op, torch: b.torch}
		rows = append(rows, alike(b.types, 2, t)...)
		x, row, column := of(tensor.F32, large...), of(tensor.F32, 1, 2048), of(tensor.F32, 2048, 1)
		inRows, shortRow, shortColumn := of(tensor.F32, short...), of(tensor.F32, 1, shortElems), of(tensor.F32, short[0], 1)
		for _, in := range [][]operand{{x, row}, {x, column}, {column, row}, {inRows, shortRow}, {inRows, shortColumn}} {
			t.in = in
			rows = append(rows, inTypes(b.types, t)...)
		}
	}
	rows = append(rows, alike(floatTypes, 1, tableRow{op: tensor.OpPow, note: "2.5", scalars: []float64{2.5}, torch: "torch.pow(a, 2.5)"})...)
	where := func(how layout, shape []int) tableRow {
		x := operand{dtype: tensor.F32, layout: how, shape: shape}
		return tableRow{op: tensor.OpWhere, in: []operand{{dtype: tensor.Bool, layout: how, shape: shape}, x, x}, torch: "torch.where(a, b, c)"}
	}
	rows = append(rows, whole(anyType, where(dense, large), where(dense, small), where(cut, short))...)
	for _, g := range []struct {
		op    tensor.Op
		torch string
	}{
		{tensor.OpTanhGrad, "torch.ops.aten.tanh_backward(a, b)"},
		{tensor.OpSigmoidGrad, "torch.ops.aten.sigmoid_backward(a, b)"},
		{tensor.OpReluGrad, "torch.ops.aten.threshold_backward(b, a, 0)"},
		{tensor.OpGeluGrad, "torch.ops.aten.gelu_backward(b, a)"},
		{tensor.OpGeluTanhGrad, "torch.ops.aten.gelu_backward(b, a, approximate='tanh')"},
		{tensor.OpSiluGrad, "torch.ops.aten.silu_backward(b, a)"},
	} {
		rows = append(rows, alike(floatTypes, 2, tableRow{op: g.op, torch: g.torch})...)
	}
	return rows
}

func updateRows() (rows []tableRow) {
	for _, u := range []struct {
		op      tensor.Op
		n       int
		scalars []float64
		torch   string
	}{
		{tensor.OpAdamM, 2, []float64{0.9}, "torch.lerp(a, b, 0.1)"},
		{tensor.OpAdamV, 2, []float64{0.99}, "(a * 0.99).addcmul_(b, b, value=0.01)"},
		{tensor.OpAdamW, 3, []float64{1e-3, 0.01, 1e-8, 0.1, 0.01}, "(a * 0.99999).addcdiv_(b, (c.sqrt() / 0.1).add_(1e-8), value=-1e-2)"},
		{tensor.OpSGD, 2, []float64{1e-2, 0.01}, "a.add(torch.add(b, a, alpha=0.01), alpha=-1e-2)"},
		{tensor.OpSGDM, 3, []float64{0.9, 0, 0.01}, "(a * 0.9).add_(torch.add(b, c, alpha=0.01))"},
	} {
		rows = append(rows, alike(floatTypes, u.n, tableRow{op: u.op, scalars: u.scalars, torch: u.torch})...)
	}
	return rows
}

// reductionRows reduce every dim of [128, 128, 256], and all. The last is reduced in all
// layouts, and the last two where rows are short.
func reductionRows() (rows []tableRow) {
	cube := of(tensor.F32, 128, 128, 256)
	dims := func(types []tensor.DType, t tableRow, attributes func(dim int) []int64) {
		torch := t.torch
		t.in = []operand{cube}
		for dim := range 3 {
			t.note, t.ints, t.torch = fmt.Sprint("dim ", dim), attributes(dim), fmt.Sprintf(torch, fmt.Sprint(", ", dim))
			onSmall, onShort := t, t
			onSmall.in, onShort.in = []operand{of(tensor.F32, 2, 4, 8)}, []operand{of(tensor.F32, shortCube...)}
			switch dim {
			case 0:
				rows = append(rows, inTypes(types, t)...)
			case 1:
				rows = append(append(rows, inTypes(types, t)...), inTypes(types, onShort)...)
			default:
				rows = append(rows, whole(types, t, onSmall, onShort)...)
			}
		}
	}
	for _, t := range []struct {
		op    tensor.Op
		torch string // of dim %s, without a comma where it is all
		types []tensor.DType
	}{
		{tensor.OpSum, "torch.sum(a%s)", anyType},
		{tensor.OpMean, "torch.mean(a%s)", floatTypes},
		{tensor.OpMean, "torch.mean(a%s, dtype=torch.float32)", append(slices.Clone(integerTypes), tensor.Bool)},
		{tensor.OpAmax, "torch.amax(a%s)", anyType},
		{tensor.OpAmin, "torch.amin(a%s)", anyType},
		{tensor.OpProd, "torch.prod(a%s)", anyType},
		{tensor.OpArgmax, "torch.argmax(a%s)", numberTypes},
		{tensor.OpArgmin, "torch.argmin(a%s)", numberTypes},
		{tensor.OpAny, "torch.any(a%s)", boolTypes},
		{tensor.OpAll, "torch.all(a%s)", boolTypes},
	} {
		dims(t.types, tableRow{op: t.op, torch: t.torch}, func(dim int) []int64 { return []int64{0, int64(dim)} })
		all := tableRow{op: t.op, in: []operand{cube}, ints: []int64{0}, torch: fmt.Sprintf(t.torch, "")}
		rows = append(rows, inTypes(t.types, all)...)
		all.in = []operand{of(tensor.F32, small...)}
		rows = append(rows, inTypes(t.types, all)...)
	}
	dims(anyType, tableRow{op: tensor.OpCumsum, torch: "torch.cumsum(a%s)"}, func(dim int) []int64 { return []int64{int64(dim), 0} })
	back := tableRow{op: tensor.OpProdGrad, note: "dim 1", in: []operand{of(tensor.F32, large...), of(tensor.F32, 2048, 1)}, ints: []int64{1}, torch: "b * torch.prod(a, 1, True) / a"}
	onSmall, onShort := back, back
	onSmall.in = []operand{of(tensor.F32, small...), of(tensor.F32, 8, 1)}
	onShort.in = []operand{of(tensor.F32, short...), of(tensor.F32, short[0], 1)}
	return append(rows, whole(floatTypes, back, onSmall, onShort)...)
}

// viewRows copy views of every dtype. Their own layouts take the place of others.
func viewRows() (rows []tableRow) {
	view := func(op tensor.Op, note string, in operand, ints []int64, torch string) {
		rows = append(rows, inTypes(anyType, tableRow{op: op, note: note, in: []operand{in}, ints: ints, torch: torch, dense: true})...)
	}
	x, cube := of(tensor.F32, large...), of(tensor.F32, 128, 128, 256)
	view(tensor.OpReshape, "to [4194304]", operand{dtype: tensor.F32, layout: transposed, shape: large}, []int64{1 << 22}, "a.reshape(-1).clone()")
	view(tensor.OpPermute, "1, 0", x, []int64{1, 0}, "a.permute(1, 0).contiguous()")
	view(tensor.OpPermute, "1, 0", of(tensor.F32, small...), []int64{1, 0}, "a.permute(1, 0).contiguous()")
	view(tensor.OpPermute, "0, 2, 1", cube, []int64{0, 2, 1}, "a.permute(0, 2, 1).contiguous()")
	view(tensor.OpPermute, "2, 1, 0", cube, []int64{2, 1, 0}, "a.permute(2, 1, 0).contiguous()")
	view(tensor.OpPermute, "1, 0, 2", cube, []int64{1, 0, 2}, "a.permute(1, 0, 2).contiguous()")
	view(tensor.OpExpand, "to [2048,2048]", of(tensor.F32, 2048, 1), []int64{2048, 2048}, "a.expand(2048, 2048).contiguous()")
	view(tensor.OpSlice, "every fourth row", of(tensor.F32, 4096, 2048), []int64{0, 4, 1024, 0, 1, 2048}, "a[::4].contiguous()")
	view(tensor.OpSlice, "every second column", of(tensor.F32, 2048, 4096), []int64{0, 1, 2048, 0, 2, 2048}, "a[:, ::2].contiguous()")
	view(tensor.OpPermute, "0, 2, 1", of(tensor.F32, shortCube...), []int64{0, 2, 1}, "a.permute(0, 2, 1).contiguous()")
	view(tensor.OpSlice, "columns backwards", of(tensor.F32, short...), []int64{0, 1, int64(short[0]), shortElems - 1, -1, shortElems}, "a.flip(1)")
	view(tensor.OpBarrier, "", x, nil, "a.clone()")
	return rows
}

func moveRows() (rows []tableRow) {
	add := func(types []tensor.DType, t tableRow, onLarge, onSmall, onShort []operand) {
		x, y, z := t, t, t
		x.in, y.in, z.in = onLarge, onSmall, onShort
		rows = append(rows, whole(types, x, y, z)...)
	}
	o := func(shape ...int) operand { return of(tensor.F32, shape...) }
	n := short[0]
	add(anyType, tableRow{op: tensor.OpConcat, note: "dim 0", ints: []int64{0}, torch: "torch.cat((a, b), 0)"}, []operand{o(1024, 2048), o(1024, 2048)}, []operand{o(4, 8), o(4, 8)}, []operand{o(n/2, shortElems), o(n/2, shortElems)})
	add(anyType, tableRow{op: tensor.OpConcat, note: "dim 1", ints: []int64{1}, torch: "torch.cat((a, b), 1)"}, []operand{o(2048, 1024), o(2048, 1024)}, []operand{o(8, 4), o(8, 4)}, []operand{o(n/2, shortElems), o(n/2, shortElems)})
	for _, m := range []tableRow{
		{op: tensor.OpPad, note: "1", ints: []int64{1, 1, 1, 1}, scalars: []float64{0}, torch: "F.pad(a, (1, 1, 1, 1))"},
		{op: tensor.OpTril, ints: []int64{0}, torch: "torch.tril(a)"},
		{op: tensor.OpTriu, ints: []int64{0}, torch: "torch.triu(a)"},
	} {
		rows = append(rows, alike(anyType, 1, m)...)
	}
	add(anyType, tableRow{op: tensor.OpIndexSelect, note: "dim 0", ints: []int64{0}, torch: "F.embedding(b, a)"}, []operand{o(8192, 512), ids(8192, 8192)}, []operand{o(small...), ids(8, 8)}, []operand{o(short...), ids(n, n)})
	add(numberTypes, tableRow{op: tensor.OpIndexAdd, note: "dim 0", ints: []int64{0}, torch: "torch.index_add(a, 0, b, c)"}, []operand{o(8192, 512), ids(8192, 8192), o(8192, 512)}, []operand{o(small...), ids(8, 8), o(small...)}, []operand{o(short...), ids(n, n), o(short...)})
	add(anyType, tableRow{op: tensor.OpGather, note: "dim 1", ints: []int64{1}, torch: "torch.gather(a, 1, b)"}, []operand{o(large...), ids(2048, 2048, 512)}, []operand{o(small...), ids(8, small...)}, []operand{o(short...), ids(shortElems, short...)})
	add(numberTypes, tableRow{op: tensor.OpScatterAdd, note: "dim 1", ints: []int64{1}, torch: "torch.scatter_add(a, 1, b, c)"}, []operand{o(large...), ids(2048, 2048, 512), o(2048, 512)}, []operand{o(small...), ids(8, small...), o(small...)}, []operand{o(short...), ids(shortElems, short...), o(short...)})
	for _, n := range []int{16384, 64} {
		hot := tableRow{op: tensor.OpOneHot, note: "i64 of 256", in: []operand{ids(256, n)}, ints: []int64{int64(tensor.I64), 256}, torch: "F.one_hot(a, 256)"}
		rows = append(rows, hot)
	}
	return rows
}

// productRows have products of squares and of a few rows, and the right operand
// transposed.
func productRows() (rows []tableRow) {
	product := func(types []tensor.DType, m, k, n int) (made []tableRow) {
		t := tableRow{op: tensor.OpMatmul, in: []operand{of(tensor.F32, m, k), of(tensor.F32, k, n)}, torch: "a @ b", flop: 2 * float64(m) * float64(n) * float64(k)}
		made = inTypes(types, t)
		t.in = []operand{of(tensor.F32, m, k), {dtype: tensor.F32, layout: transposed, shape: []int{k, n}}}
		return append(made, inTypes(types, t)...)
	}
	for _, m := range []int{1, 2, 4, 8} {
		rows = append(rows, product(numberTypes, m, 2048, 2048)...)
	}
	rows = append(rows, product(floatTypes, 512, 512, 512)...)
	rows = append(rows, product(floatTypes, 1024, 1024, 1024)...)
	square := func(n int) tableRow {
		return tableRow{op: tensor.OpMatmul, in: []operand{of(tensor.F32, n, n), of(tensor.F32, n, n)}, torch: "a @ b", flop: 2 * float64(n*n*n)}
	}
	return append(rows, whole(numberTypes, square(256), square(8))...)
}

// convRows have a full convolution, one of pixels, and one of each channel alone.
func convRows() (rows []tableRow) {
	for _, c := range []struct{ images, channels, size, kernel, groups int }{{8, 32, 32, 3, 1}, {8, 64, 32, 1, 1}, {8, 64, 32, 3, 64}, {1, 2, 8, 3, 1}} {
		per, pad, n := c.channels/c.groups, c.kernel/2, c.size
		x, w := of(tensor.F32, c.images, c.channels, n, n), of(tensor.F32, c.channels, per, c.kernel, c.kernel)
		ints := []int64{1, 1, int64(pad), int64(pad), 1, 1, int64(c.groups)}
		flop := 2 * float64(c.images*n*n) * float64(c.channels*per*c.kernel*c.kernel)
		back := func(a, x, w, mask string) string {
			return fmt.Sprintf("torch.ops.aten.convolution_backward(%s, %s, %s, None, [1, 1], [%d, %d], [1, 1], False, [0, 0], %d, %s)", a, x, w, pad, pad, c.groups, mask)
		}
		note := fmt.Sprint("groups ", c.groups)
		dims := strings.ReplaceAll(fmt.Sprint(w.shape), " ", ", ")
		for _, t := range []tableRow{
			{op: tensor.OpConv2D, note: note, in: []operand{x, w}, ints: ints, torch: fmt.Sprintf("F.conv2d(a, b, padding=%d, groups=%d)", pad, c.groups), flop: flop},
			{op: tensor.OpConv2DGradX, note: note, in: []operand{x, w}, ints: append(slices.Clone(ints), int64(n), int64(n)), torch: back("a", "a", "b", "[True, False, False]"), flop: flop},
			{op: tensor.OpConv2DGradW, note: note + fmt.Sprint(", kernel ", c.kernel), in: []operand{x, x}, ints: append(slices.Clone(ints), int64(c.kernel), int64(c.kernel)),
				torch: back("b", "a", "torch.empty("+dims+", dtype=a.dtype)", "[False, True, False]"), flop: flop},
		} {
			made := inTypes(floatTypes, t)
			if c.images > 1 {
				made = inLayouts(made)
			}
			rows = append(rows, made...)
		}
	}
	return rows
}

// normRows are those along a dim: softmax, norms and losses.
func normRows() (rows []tableRow) {
	along := func(op tensor.Op, n int, torch string) {
		for dim := range 3 {
			t := tableRow{op: op, note: fmt.Sprint("dim ", dim), ints: []int64{int64(dim)}, torch: fmt.Sprintf(torch, dim)}
			onSmall, onShort := t, t
			for range n {
				t.in, onSmall.in = append(t.in, of(tensor.F32, 128, 128, 256)), append(onSmall.in, of(tensor.F32, 2, 4, 8))
				onShort.in = append(onShort.in, of(tensor.F32, shortCube...))
			}
			if dim < 2 {
				rows = append(rows, inTypes(floatTypes, t)...)
			} else {
				rows = append(rows, whole(floatTypes, t, onSmall, onShort)...)
			}
		}
	}
	along(tensor.OpSoftmax, 1, "torch.softmax(a, %d)")
	along(tensor.OpLogSoftmax, 1, "torch.log_softmax(a, %d)")
	along(tensor.OpSoftmaxGrad, 2, "torch._softmax_backward_data(b, a, %d, a.dtype)")
	along(tensor.OpLogSoftmaxGrad, 2, "torch._log_softmax_backward_data(b, a, %d, a.dtype)")
	onLarge, onSmall, onShort := rowsOfNorms(2048, 2048), rowsOfNorms(8, 8), rowsOfNorms(short[0], shortElems)
	for i := range onLarge {
		rows = append(rows, whole(floatTypes, onLarge[i], onSmall[i], onShort[i])...)
	}
	rope := func(heads, length, size int) tableRow {
		half := of(tensor.F32, length, size/2)
		return tableRow{op: tensor.OpRope, in: []operand{of(tensor.F32, heads, length, size), half, half}, ints: []int64{0},
			torch: fmt.Sprintf("torch.cat((a[..., :%[1]d] * b - a[..., %[1]d:] * c, a[..., %[1]d:] * b + a[..., :%[1]d] * c), -1)", size/2)}
	}
	return append(rows, whole(floatTypes, rope(32, 1024, 128), rope(1, 8, 8), rope(32, 21845, 6))...)
}

// rowsOfNorms are operations on so many rows of n elements. Those that are causal are of
// matrices of n x n.
func rowsOfNorms(count, n int) []tableRow {
	const rms = "(a * torch.rsqrt((a * a).mean(-1, True) + 1e-5))"
	eps := []float64{1e-5}
	x, w, y := of(tensor.F32, count, n), of(tensor.F32, n), ids(n, count)
	square := x
	if count > n {
		square = of(tensor.F32, count/n, n, n)
	}
	layerNorm := fmt.Sprintf("F.layer_norm(a, [%d], b, c)", n)
	causal := fmt.Sprintf("torch.softmax(a.masked_fill(torch.ones(%[1]d, %[1]d, dtype=torch.bool).triu(1), float('-inf')), -1)", n)
	crossEntropyGrad := fmt.Sprintf("(torch.softmax(a, -1) - F.one_hot(b, %d)) * (c / %d)", n, count)
	back := func(mask string) string {
		ones := fmt.Sprintf("torch.ones(%d, dtype=a.dtype)", n)
		return fmt.Sprintf("torch.ops.aten.native_layer_norm_backward(b, a, [%d], a.mean(-1, True), a.var(-1, keepdim=True).rsqrt(), %s, %s, %s)", n, ones, ones, mask)
	}
	return []tableRow{
		{op: tensor.OpCausalSoftmax, in: []operand{square}, scalars: []float64{1}, torch: causal},
		{op: tensor.OpLayerNorm, in: []operand{x, w, w}, ints: []int64{1}, scalars: eps, torch: layerNorm},
		{op: tensor.OpLayerNormGradX, in: []operand{x, x}, ints: []int64{1}, scalars: eps, torch: back("[True, False, False]")},
		{op: tensor.OpLayerNormGradW, in: []operand{x, x}, ints: []int64{1}, scalars: eps, torch: back("[False, True, False]")},
		{op: tensor.OpRMSNorm, in: []operand{x, w}, ints: []int64{1}, scalars: eps, torch: rms + " * b"},
		{op: tensor.OpRMSNormGradX, in: []operand{x, x}, ints: []int64{1}, scalars: eps, torch: "b * torch.rsqrt((a * a).mean(-1, True) + 1e-5) - a * (a * b).mean(-1, True)"},
		{op: tensor.OpRMSNormGradW, in: []operand{x, x}, ints: []int64{1}, scalars: eps, torch: "(b * " + rms + ").sum(0)"},
		{op: tensor.OpCrossEntropy, in: []operand{x, y}, ints: []int64{tensor.IgnoreNone}, torch: "F.cross_entropy(a, b)"},
		{op: tensor.OpCrossEntropyGrad, in: []operand{x, y, of(tensor.F32)}, ints: []int64{tensor.IgnoreNone}, torch: crossEntropyGrad},
	}
}

func imageRows() (rows []tableRow) {
	pools := func(images, channels, n int) []tableRow {
		x, y := of(tensor.F32, images, channels, n, n), of(tensor.F32, images, channels, n/2, n/2)
		ints := []int64{2, 2, 2, 2, 0, 0}
		avgBack := fmt.Sprintf("torch.ops.aten.avg_pool2d_backward(a, torch.empty(%d, %d, %d, %d, dtype=a.dtype), [2, 2], [2, 2], [0, 0], False, True, None)", images, channels, n, n)
		return []tableRow{
			{op: tensor.OpMaxPool2D, in: []operand{x}, ints: ints, torch: "F.max_pool2d(a, 2)"},
			{op: tensor.OpMaxPool2DGrad, in: []operand{x, y}, ints: ints, torch: "torch.ops.aten.max_pool2d_with_indices_backward(b, a, [2, 2], [2, 2], [0, 0], [1, 1], False, F.max_pool2d(a, 2, return_indices=True)[1])"},
			{op: tensor.OpAvgPool2D, in: []operand{x}, ints: ints, torch: "F.avg_pool2d(a, 2)"},
			{op: tensor.OpAvgPool2DGrad, in: []operand{y}, ints: append(slices.Clone(ints), int64(n), int64(n)), torch: avgBack},
		}
	}
	onLarge, onSmall := pools(16, 64, 64), pools(1, 1, 8)
	for i := range onLarge {
		rows = append(rows, whole(floatTypes, onLarge[i], onSmall[i])...)
	}
	return rows
}
