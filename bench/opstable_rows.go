package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// large and small are shapes of operands of 4 Mi and 64 elements.
var (
	large = []int{2048, 2048}
	small = []int{8, 8}
)

func of(d tensor.DType, shape ...int) operand { return operand{dtype: d, shape: shape} }

// ids are indices below n.
func ids(n int, shape ...int) operand {
	return operand{dtype: tensor.I64, below: n, shape: shape}
}

// tableRows are the rows of the scenario ops-table.
func tableRows() []tableRow {
	return slices.Concat(leafRows(), unaryRows(), binaryRows(), updateRows(), reductionRows(), viewRows(), moveRows(), productRows(), normRows(), imageRows())
}

func leafRows() []tableRow {
	n := []int64{2048, 2048}
	leaf := func(ints ...int64) []int64 { return append(append([]int64{int64(tensor.F32)}, ints...), n...) }
	return []tableRow{
		{op: tensor.OpFull, note: "f32[2048,2048]", ints: leaf(), scalars: []float64{1}, torch: "torch.full((2048, 2048), 1.0)"},
		{op: tensor.OpArange, note: "f32[4194304]", ints: []int64{int64(tensor.F32), 1 << 22}, scalars: []float64{0, 1}, torch: "torch.arange(1 << 22, dtype=torch.float32)"},
		{op: tensor.OpRand, note: "f32[2048,2048]", ints: leaf(0), scalars: []float64{1, 0}, torch: "torch.rand(2048, 2048)"},
		{op: tensor.OpRandN, note: "f32[2048,2048]", ints: leaf(0), scalars: []float64{1, 0}, torch: "torch.randn(2048, 2048)"},
	}
}

// unaryRows have the layouts of f32 and the other dtypes.
func unaryRows() (rows []tableRow) {
	add := func(op tensor.Op, o operand, torch string) {
		rows = append(rows, tableRow{op: op, in: []operand{o}, torch: torch})
	}
	for _, u := range []struct {
		op       tensor.Op
		torch    string
		integers bool
	}{
		{tensor.OpNeg, "torch.neg(a)", true}, {tensor.OpAbs, "torch.abs(a)", true}, {tensor.OpSign, "torch.sign(a)", true},
		{tensor.OpSquare, "torch.square(a)", true}, {tensor.OpRelu, "torch.relu(a)", true},
		{tensor.OpExp, "torch.exp(a)", false}, {tensor.OpLog, "torch.log(a)", false}, {tensor.OpSqrt, "torch.sqrt(a)", false},
		{tensor.OpRsqrt, "torch.rsqrt(a)", false}, {tensor.OpRecip, "torch.reciprocal(a)", false}, {tensor.OpSin, "torch.sin(a)", false},
		{tensor.OpCos, "torch.cos(a)", false}, {tensor.OpTanh, "torch.tanh(a)", false}, {tensor.OpSigmoid, "torch.sigmoid(a)", false},
		{tensor.OpGelu, "F.gelu(a)", false}, {tensor.OpGeluTanh, "F.gelu(a, approximate='tanh')", false}, {tensor.OpSilu, "F.silu(a)", false},
		{tensor.OpErf, "torch.erf(a)", false}, {tensor.OpFloor, "torch.floor(a)", false}, {tensor.OpCeil, "torch.ceil(a)", false},
	} {
		for _, o := range []operand{of(tensor.F32, large...), of(tensor.F32, small...), {dtype: tensor.F32, layout: transposed, shape: large}, {dtype: tensor.F32, layout: strided, shape: large}, of(tensor.F64, large...), of(tensor.BF16, large...)} {
			add(u.op, o, u.torch)
		}
		if u.integers {
			add(u.op, of(tensor.I64, large...), u.torch)
			add(u.op, of(tensor.I32, large...), u.torch)
		}
	}
	add(tensor.OpNot, of(tensor.Bool, large...), "torch.logical_not(a)")
	for _, from := range []tensor.DType{tensor.F32, tensor.F64, tensor.BF16, tensor.F16, tensor.I32, tensor.I64, tensor.U8} {
		for _, to := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16, tensor.I64} {
			if from != to {
				rows = append(rows, tableRow{op: tensor.OpCast, note: "to " + to.String(), in: []operand{of(from, large...)}, ints: []int64{int64(to)}, torch: "a.to(" + torchType(to) + ")"})
			}
		}
	}
	return append(rows,
		tableRow{op: tensor.OpClamp, in: []operand{of(tensor.F32, large...)}, scalars: []float64{0.2, 0.8}, torch: "torch.clamp(a, 0.2, 0.8)"},
		tableRow{op: tensor.OpDropout, in: []operand{of(tensor.F32, large...)}, ints: []int64{0}, scalars: []float64{0.5, 1, 0}, torch: "F.dropout(a, 0.5, True)"})
}

// binaryRows have the layouts and broadcasts of f32, and the other dtypes.
func binaryRows() (rows []tableRow) {
	pair := func(op tensor.Op, a, b operand, torch string) {
		rows = append(rows, tableRow{op: op, in: []operand{a, b}, torch: torch})
	}
	same := func(op tensor.Op, torch string, types ...tensor.DType) {
		for _, d := range types {
			pair(op, of(d, large...), of(d, large...), torch)
		}
	}
	for _, b := range []struct {
		op    tensor.Op
		torch string
	}{
		{tensor.OpAdd, "a + b"}, {tensor.OpSub, "a - b"}, {tensor.OpMul, "a * b"}, {tensor.OpDiv, "a / b"},
		{tensor.OpPow, "torch.pow(a, b)"}, {tensor.OpMax, "torch.maximum(a, b)"}, {tensor.OpMin, "torch.minimum(a, b)"},
	} {
		same(b.op, b.torch, tensor.F32, tensor.F64, tensor.BF16)
		if b.op != tensor.OpDiv && b.op != tensor.OpPow {
			same(b.op, b.torch, tensor.I32, tensor.I64, tensor.U8)
		}
		x := of(tensor.F32, large...)
		pair(b.op, of(tensor.F32, small...), of(tensor.F32, small...), b.torch)
		pair(b.op, operand{dtype: tensor.F32, layout: transposed, shape: large}, x, b.torch)
		pair(b.op, operand{dtype: tensor.F32, layout: strided, shape: large}, x, b.torch)
		pair(b.op, x, of(tensor.F32, 1, 2048), b.torch)
		pair(b.op, x, of(tensor.F32, 2048, 1), b.torch)
		pair(b.op, of(tensor.F32, 2048, 1), of(tensor.F32, 1, 2048), b.torch)
	}
	rows = append(rows, tableRow{op: tensor.OpPow, note: "2.5", in: []operand{of(tensor.F32, large...)}, scalars: []float64{2.5}, torch: "torch.pow(a, 2.5)"})
	for _, c := range []struct {
		op    tensor.Op
		torch string
	}{{tensor.OpEq, "a == b"}, {tensor.OpNe, "a != b"}, {tensor.OpLt, "a < b"}, {tensor.OpLe, "a <= b"}, {tensor.OpGt, "a > b"}, {tensor.OpGe, "a >= b"}} {
		same(c.op, c.torch, tensor.F32, tensor.I64)
	}
	same(tensor.OpAnd, "a & b", tensor.Bool)
	same(tensor.OpOr, "a | b", tensor.Bool)
	same(tensor.OpXor, "a ^ b", tensor.Bool)
	for _, d := range []tensor.DType{tensor.F32, tensor.I64} {
		rows = append(rows, tableRow{op: tensor.OpWhere, in: []operand{of(tensor.Bool, large...), of(d, large...), of(d, large...)}, torch: "torch.where(a, b, c)"})
	}
	same(tensor.OpTanhGrad, "torch.ops.aten.tanh_backward(a, b)", tensor.F32)
	same(tensor.OpSigmoidGrad, "torch.ops.aten.sigmoid_backward(a, b)", tensor.F32)
	same(tensor.OpReluGrad, "torch.ops.aten.threshold_backward(b, a, 0)", tensor.F32)
	same(tensor.OpGeluGrad, "torch.ops.aten.gelu_backward(b, a)", tensor.F32)
	same(tensor.OpGeluTanhGrad, "torch.ops.aten.gelu_backward(b, a, approximate='tanh')", tensor.F32)
	same(tensor.OpSiluGrad, "torch.ops.aten.silu_backward(b, a)", tensor.F32)
	return rows
}

func updateRows() []tableRow {
	x := of(tensor.F32, large...)
	two, three := []operand{x, x}, []operand{x, x, x}
	return []tableRow{
		{op: tensor.OpAdamM, in: two, scalars: []float64{0.9}, torch: "torch.lerp(a, b, 0.1)"},
		{op: tensor.OpAdamV, in: two, scalars: []float64{0.99}, torch: "(a * 0.99).addcmul_(b, b, value=0.01)"},
		{op: tensor.OpAdamW, in: three, scalars: []float64{1e-3, 0.01, 1e-8, 0.1, 0.01}, torch: "(a * 0.99999).addcdiv_(b, (c.sqrt() / 0.1).add_(1e-8), value=-1e-2)"},
		{op: tensor.OpSGD, in: two, scalars: []float64{1e-2, 0.01}, torch: "a.add(torch.add(b, a, alpha=0.01), alpha=-1e-2)"},
		{op: tensor.OpSGDM, in: three, scalars: []float64{0.9, 0, 0.01}, torch: "(a * 0.9).add_(torch.add(b, c, alpha=0.01))"},
	}
}

// reductionRows reduce every dim of [128, 128, 256], and all.
func reductionRows() (rows []tableRow) {
	cube := []int{128, 128, 256}
	for _, t := range []struct {
		op    tensor.Op
		torch string // of dim %s, without a comma where it is all
		types []tensor.DType
	}{
		{tensor.OpSum, "torch.sum(a%s)", []tensor.DType{tensor.F32, tensor.F64, tensor.BF16, tensor.I64}},
		{tensor.OpMean, "torch.mean(a%s)", []tensor.DType{tensor.F32, tensor.F64}},
		{tensor.OpAmax, "torch.amax(a%s)", []tensor.DType{tensor.F32, tensor.F64, tensor.I64}},
		{tensor.OpAmin, "torch.amin(a%s)", []tensor.DType{tensor.F32}},
		{tensor.OpProd, "torch.prod(a%s)", []tensor.DType{tensor.F32}},
		{tensor.OpArgmax, "torch.argmax(a%s)", []tensor.DType{tensor.F32, tensor.I64}},
		{tensor.OpArgmin, "torch.argmin(a%s)", []tensor.DType{tensor.F32}},
		{tensor.OpAny, "torch.any(a%s)", []tensor.DType{tensor.Bool}},
		{tensor.OpAll, "torch.all(a%s)", []tensor.DType{tensor.Bool}},
	} {
		for _, d := range t.types {
			for dim := range cube {
				rows = append(rows, tableRow{op: t.op, note: fmt.Sprint("dim ", dim), in: []operand{of(d, cube...)}, ints: []int64{0, int64(dim)}, torch: fmt.Sprintf(t.torch, fmt.Sprint(", ", dim))})
			}
			for _, shape := range [][]int{cube, small} {
				rows = append(rows, tableRow{op: t.op, in: []operand{of(d, shape...)}, ints: []int64{0}, torch: fmt.Sprintf(t.torch, "")})
			}
		}
	}
	for dim := range cube {
		rows = append(rows, tableRow{op: tensor.OpCumsum, note: fmt.Sprint("dim ", dim), in: []operand{of(tensor.F32, cube...)}, ints: []int64{int64(dim), 0}, torch: fmt.Sprintf("torch.cumsum(a, %d)", dim)})
	}
	return append(rows, tableRow{op: tensor.OpProdGrad, note: "dim 1", in: []operand{of(tensor.F32, large...), of(tensor.F32, 2048, 1)}, ints: []int64{1}, torch: "b * torch.prod(a, 1, True) / a"})
}

// viewRows copy views.
func viewRows() []tableRow {
	view := func(op tensor.Op, note string, in operand, ints []int64, torch string) tableRow {
		return tableRow{op: op, note: note, in: []operand{in}, ints: ints, torch: torch, dense: true}
	}
	x := of(tensor.F32, large...)
	return []tableRow{
		view(tensor.OpReshape, "to [4194304]", operand{dtype: tensor.F32, layout: transposed, shape: large}, []int64{1 << 22}, "a.reshape(-1).clone()"),
		view(tensor.OpPermute, "1, 0", x, []int64{1, 0}, "a.permute(1, 0).contiguous()"),
		view(tensor.OpPermute, "1, 0", of(tensor.F64, large...), []int64{1, 0}, "a.permute(1, 0).contiguous()"),
		view(tensor.OpPermute, "1, 0", of(tensor.BF16, large...), []int64{1, 0}, "a.permute(1, 0).contiguous()"),
		view(tensor.OpPermute, "0, 2, 1", of(tensor.F32, 128, 128, 256), []int64{0, 2, 1}, "a.permute(0, 2, 1).contiguous()"),
		view(tensor.OpPermute, "2, 1, 0", of(tensor.F32, 128, 128, 256), []int64{2, 1, 0}, "a.permute(2, 1, 0).contiguous()"),
		view(tensor.OpPermute, "1, 0, 2", of(tensor.F32, 128, 128, 256), []int64{1, 0, 2}, "a.permute(1, 0, 2).contiguous()"),
		view(tensor.OpExpand, "to [2048,2048]", of(tensor.F32, 2048, 1), []int64{2048, 2048}, "a.expand(2048, 2048).contiguous()"),
		view(tensor.OpSlice, "every fourth row", of(tensor.F32, 4096, 2048), []int64{0, 4, 1024, 0, 1, 2048}, "a[::4].contiguous()"),
		view(tensor.OpBarrier, "", x, nil, "a.clone()"),
	}
}

func moveRows() []tableRow {
	x, half := of(tensor.F32, large...), of(tensor.F32, 1024, 2048)
	return []tableRow{
		{op: tensor.OpConcat, note: "dim 0", in: []operand{half, half}, ints: []int64{0}, torch: "torch.cat((a, b), 0)"},
		{op: tensor.OpConcat, note: "dim 1", in: []operand{of(tensor.F32, 2048, 1024), of(tensor.F32, 2048, 1024)}, ints: []int64{1}, torch: "torch.cat((a, b), 1)"},
		{op: tensor.OpPad, note: "1", in: []operand{x}, ints: []int64{1, 1, 1, 1}, scalars: []float64{0}, torch: "F.pad(a, (1, 1, 1, 1))"},
		{op: tensor.OpTril, in: []operand{x}, ints: []int64{0}, torch: "torch.tril(a)"},
		{op: tensor.OpTriu, in: []operand{x}, ints: []int64{0}, torch: "torch.triu(a)"},
		{op: tensor.OpIndexSelect, note: "dim 0", in: []operand{of(tensor.F32, 8192, 512), ids(8192, 8192)}, ints: []int64{0}, torch: "F.embedding(b, a)"},
		{op: tensor.OpIndexAdd, note: "dim 0", in: []operand{of(tensor.F32, 8192, 512), ids(8192, 8192), of(tensor.F32, 8192, 512)}, ints: []int64{0}, torch: "torch.index_add(a, 0, b, c)"},
		{op: tensor.OpGather, note: "dim 1", in: []operand{x, ids(2048, 2048, 512)}, ints: []int64{1}, torch: "torch.gather(a, 1, b)"},
		{op: tensor.OpScatterAdd, note: "dim 1", in: []operand{x, ids(2048, 2048, 512), of(tensor.F32, 2048, 512)}, ints: []int64{1}, torch: "torch.scatter_add(a, 1, b, c)"},
		{op: tensor.OpOneHot, note: "i64 of 256", in: []operand{ids(256, 16384)}, ints: []int64{int64(tensor.I64), 256}, torch: "F.one_hot(a, 256)"},
	}
}

func productRows() (rows []tableRow) {
	product := func(a, b operand) {
		m, k, n := a.shape[0], a.shape[1], b.shape[1]
		rows = append(rows, tableRow{op: tensor.OpMatmul, in: []operand{a, b}, torch: "a @ b", flop: 2 * float64(m) * float64(n) * float64(k)})
	}
	for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.BF16} {
		product(of(d, 512, 512), of(d, 512, 512))
		product(of(d, 512, 512), operand{dtype: d, layout: transposed, shape: []int{512, 512}})
		product(of(d, 1, 2048), of(d, large...))
		product(of(d, 1, 2048), operand{dtype: d, layout: transposed, shape: large})
	}
	product(of(tensor.F32, 1024, 1024), of(tensor.F32, 1024, 1024))
	product(of(tensor.F32, small...), of(tensor.F32, small...))
	product(of(tensor.F32, 8, 2048), operand{dtype: tensor.F32, layout: transposed, shape: large})
	for _, c := range []struct{ channels, kernel, groups int }{{32, 3, 1}, {64, 1, 1}, {64, 3, 64}} {
		per, pad := c.channels/c.groups, c.kernel/2
		x, w := of(tensor.F32, 8, c.channels, 32, 32), of(tensor.F32, c.channels, per, c.kernel, c.kernel)
		ints := []int64{1, 1, int64(pad), int64(pad), 1, 1, int64(c.groups)}
		flop := 2 * 8 * 32 * 32 * float64(c.channels*per*c.kernel*c.kernel)
		back := func(a, x, w, mask string) string {
			return fmt.Sprintf("torch.ops.aten.convolution_backward(%s, %s, %s, None, [1, 1], [%d, %d], [1, 1], False, [0, 0], %d, %s)", a, x, w, pad, pad, c.groups, mask)
		}
		note := fmt.Sprint("groups ", c.groups)
		dims := strings.ReplaceAll(fmt.Sprint(w.shape), " ", ", ")
		rows = append(rows,
			tableRow{op: tensor.OpConv2D, note: note, in: []operand{x, w}, ints: ints, torch: fmt.Sprintf("F.conv2d(a, b, padding=%d, groups=%d)", pad, c.groups), flop: flop},
			tableRow{op: tensor.OpConv2DGradX, note: note, in: []operand{x, w}, ints: append(slices.Clone(ints), 32, 32), torch: back("a", "a", "b", "[True, False, False]"), flop: flop},
			tableRow{op: tensor.OpConv2DGradW, note: note + fmt.Sprint(", kernel ", c.kernel), in: []operand{x, x}, ints: append(slices.Clone(ints), int64(c.kernel), int64(c.kernel)),
				torch: back("b", "a", "torch.empty("+dims+")", "[False, True, False]"), flop: flop})
	}
	return rows
}

// normRows are those along a dim: softmax, norms and losses.
func normRows() (rows []tableRow) {
	x, cube := of(tensor.F32, large...), of(tensor.F32, 128, 128, 256)
	w := of(tensor.F32, 2048)
	for dim := range 3 {
		note, ints := fmt.Sprint("dim ", dim), []int64{int64(dim)}
		rows = append(rows,
			tableRow{op: tensor.OpSoftmax, note: note, in: []operand{cube}, ints: ints, torch: fmt.Sprintf("torch.softmax(a, %d)", dim)},
			tableRow{op: tensor.OpLogSoftmax, note: note, in: []operand{cube}, ints: ints, torch: fmt.Sprintf("torch.log_softmax(a, %d)", dim)},
			tableRow{op: tensor.OpSoftmaxGrad, note: note, in: []operand{cube, cube}, ints: ints, torch: fmt.Sprintf("torch._softmax_backward_data(b, a, %d, torch.float32)", dim)},
			tableRow{op: tensor.OpLogSoftmaxGrad, note: note, in: []operand{cube, cube}, ints: ints, torch: fmt.Sprintf("torch._log_softmax_backward_data(b, a, %d, torch.float32)", dim)})
	}
	const rms = "(a * torch.rsqrt((a * a).mean(-1, True) + 1e-5))"
	eps := []float64{1e-5}
	back := func(mask string) string {
		return "torch.ops.aten.native_layer_norm_backward(b, a, [2048], a.mean(-1, True), a.var(-1, keepdim=True).rsqrt(), torch.ones(2048), torch.ones(2048), " + mask + ")"
	}
	return append(rows,
		tableRow{op: tensor.OpCausalSoftmax, in: []operand{x}, scalars: []float64{1}, torch: "torch.softmax(a.masked_fill(torch.ones(2048, 2048, dtype=torch.bool).triu(1), float('-inf')), -1)"},
		tableRow{op: tensor.OpLayerNorm, in: []operand{x, w, w}, ints: []int64{1}, scalars: eps, torch: "F.layer_norm(a, [2048], b, c)"},
		tableRow{op: tensor.OpLayerNormGradX, in: []operand{x, x}, ints: []int64{1}, scalars: eps, torch: back("[True, False, False]")},
		tableRow{op: tensor.OpLayerNormGradW, in: []operand{x, x}, ints: []int64{1}, scalars: eps, torch: back("[False, True, False]")},
		tableRow{op: tensor.OpRMSNorm, in: []operand{x, w}, ints: []int64{1}, scalars: eps, torch: rms + " * b"},
		tableRow{op: tensor.OpRMSNormGradX, in: []operand{x, x}, ints: []int64{1}, scalars: eps, torch: "b * torch.rsqrt((a * a).mean(-1, True) + 1e-5) - a * (a * b).mean(-1, True)"},
		tableRow{op: tensor.OpRMSNormGradW, in: []operand{x, x}, ints: []int64{1}, scalars: eps, torch: "(b * " + rms + ").sum(0)"},
		tableRow{op: tensor.OpRope, in: []operand{of(tensor.F32, 32, 1024, 128), of(tensor.F32, 1024, 64), of(tensor.F32, 1024, 64)}, ints: []int64{0},
			torch: "torch.cat((a[..., :64] * b - a[..., 64:] * c, a[..., 64:] * b + a[..., :64] * c), -1)"},
		tableRow{op: tensor.OpCrossEntropy, in: []operand{x, ids(2048, 2048)}, ints: []int64{tensor.IgnoreNone}, torch: "F.cross_entropy(a, b)"},
		tableRow{op: tensor.OpCrossEntropyGrad, in: []operand{x, ids(2048, 2048), of(tensor.F32)}, ints: []int64{tensor.IgnoreNone},
			torch: "(torch.softmax(a, -1) - F.one_hot(b, 2048)) * (c / 2048)"})
}

func imageRows() []tableRow {
	x, y := of(tensor.F32, 16, 64, 64, 64), of(tensor.F32, 16, 64, 32, 32)
	ints := []int64{2, 2, 2, 2, 0, 0}
	return []tableRow{
		{op: tensor.OpMaxPool2D, in: []operand{x}, ints: ints, torch: "F.max_pool2d(a, 2)"},
		{op: tensor.OpMaxPool2DGrad, in: []operand{x, y}, ints: ints, torch: "torch.ops.aten.max_pool2d_with_indices_backward(b, a, [2, 2], [2, 2], [0, 0], [1, 1], False, F.max_pool2d(a, 2, return_indices=True)[1])"},
		{op: tensor.OpAvgPool2D, in: []operand{x}, ints: ints, torch: "F.avg_pool2d(a, 2)"},
		{op: tensor.OpAvgPool2DGrad, in: []operand{y}, ints: append(slices.Clone(ints), 64, 64), torch: "torch.ops.aten.avg_pool2d_backward(a, torch.empty(16, 64, 64, 64), [2, 2], [2, 2], [0, 0], False, True, None)"},
	}
}
