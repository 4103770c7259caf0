package tensor

// MaxOperands bounds the operands of concat, the only operation with a variable number.
const MaxOperands = 4096

var opTable = [...]OpInfo{
	OpFull:   {Name: "full", Class: ClassLeaf, Scalars: []string{"value"}, Ints: "dtype, shape...", shape: leafShape, Doc: "every element is value"},
	OpArange: {Name: "arange", Class: ClassLeaf, Scalars: []string{"start", "step"}, Ints: "dtype, n", shape: leafShape, Doc: "start + i*step for i in 0..n-1"},
	OpRand:   {Name: "rand", Class: ClassLeaf, Scalars: []string{"seed", "counter"}, Ints: "dtype, offset, shape...", Random: true, shape: leafShape, Doc: "uniform in [0, 1), Philox4x32-10"},
	OpRandN:  {Name: "randn", Class: ClassLeaf, Scalars: []string{"seed", "counter"}, Ints: "dtype, offset, shape...", Random: true, shape: leafShape, Doc: "normal, mean 0 and deviation 1, Philox4x32-10 and Box-Muller"},

	OpNeg:      unaryOp("neg", "-x", Differentiable),
	OpAbs:      unaryOp("abs", "|x|", Differentiable),
	OpSign:     unaryOp("sign", "-1, 0 or 1", NoGradient),
	OpExp:      floatOp("exp", "e^x", Differentiable),
	OpLog:      floatOp("log", "natural logarithm", Differentiable),
	OpSqrt:     floatOp("sqrt", "square root", Differentiable),
	OpRsqrt:    floatOp("rsqrt", "1/sqrt(x)", Differentiable),
	OpRecip:    floatOp("recip", "1/x", Differentiable),
	OpSquare:   unaryOp("square", "x*x", Differentiable),
	OpSin:      floatOp("sin", "sine of radians", Differentiable),
	OpCos:      floatOp("cos", "cosine of radians", Differentiable),
	OpTanh:     floatOp("tanh", "hyperbolic tangent", Differentiable),
	OpSigmoid:  floatOp("sigmoid", "1/(1+e^-x)", Differentiable),
	OpRelu:     unaryOp("relu", "max(x, 0)", Differentiable),
	OpGelu:     floatOp("gelu", "x*(1+erf(x/sqrt 2))/2", Differentiable),
	OpGeluTanh: floatOp("gelu_tanh", "the tanh form of gelu", Differentiable),
	OpSilu:     floatOp("silu", "x*sigmoid(x)", Differentiable),
	OpErf:      floatOp("erf", "error function", Differentiable),
	OpFloor:    floatOp("floor", "largest integer not above x", NoGradient),
	OpCeil:     floatOp("ceil", "smallest integer not below x", NoGradient),
	OpNot:      logic("not", 1, "logical not of a bool"),
	OpCast:     {Name: "cast", Class: ClassElementwise, MinTensors: 1, MaxTensors: 1, Ints: "dtype", Gradient: Differentiable, shape: castShape, Doc: "the value in another dtype; a float is cut toward zero and clamped to an integer's range, NaN is 0; an integer keeps its low bits; a bool is x != 0"},
	OpClamp:    {Name: "clamp", Class: ClassElementwise, MinTensors: 1, MaxTensors: 1, Scalars: []string{"lo", "hi"}, Gradient: Differentiable, takes: numbers, shape: firstShape, Doc: "min(max(x, lo), hi)"},

	OpAdd:   binaryOp("add", "a+b", Differentiable),
	OpSub:   binaryOp("sub", "a-b", Differentiable),
	OpMul:   binaryOp("mul", "a*b", Differentiable),
	OpDiv:   {Name: "div", Class: ClassElementwise, MinTensors: 2, MaxTensors: 2, Weak: true, Float: true, Gradient: Differentiable, takes: floats, shape: broadcastShape, Doc: "a/b; of floats (integers are cast before)"},
	OpPow:   binaryOp("pow", "a^b", Differentiable),
	OpMax:   binaryOp("max", "the larger; NaN if either is", Differentiable),
	OpMin:   binaryOp("min", "the smaller; NaN if either is", Differentiable),
	OpEq:    comparison("eq", "a == b"),
	OpNe:    comparison("ne", "a != b"),
	OpLt:    comparison("lt", "a < b"),
	OpLe:    comparison("le", "a <= b"),
	OpGt:    comparison("gt", "a > b"),
	OpGe:    comparison("ge", "a >= b"),
	OpAnd:   logic("and", 2, "a and b of bools"),
	OpOr:    logic("or", 2, "a or b of bools"),
	OpXor:   logic("xor", 2, "a != b of bools"),
	OpWhere: {Name: "where", Class: ClassElementwise, MinTensors: 3, MaxTensors: 3, Weak: true, Gradient: Differentiable, apart: 1, shape: broadcastShape, Doc: "a where the bool c is true, b elsewhere"},

	OpTanhGrad:     gradOp("tanh_grad", "dy*(1-y*y) of y = tanh(x)"),
	OpSigmoidGrad:  gradOp("sigmoid_grad", "dy*y*(1-y) of y = sigmoid(x)"),
	OpReluGrad:     gradOp("relu_grad", "dy, but 0 where x <= 0, of (x, dy)"),
	OpGeluGrad:     gradOp("gelu_grad", "dy*gelu'(x) of (x, dy)"),
	OpGeluTanhGrad: gradOp("gelu_tanh_grad", "dy*gelu_tanh'(x) of (x, dy)"),
	OpSiluGrad:     gradOp("silu_grad", "dy*silu'(x) of (x, dy)"),

	OpAdamM:   update("adam_m", 2, "m*beta1 + g*(1-beta1) of (m, g)", "beta1"),
	OpAdamV:   update("adam_v", 2, "v*beta2 + g*g*(1-beta2) of (v, g)", "beta2"),
	OpAdamW:   update("adamw", 3, "p*(1-lr*wd) - lr/c1*m/(sqrt(v)/sqrt(c2)+eps) of (p, m, v); c1 = 1-beta1^t, c2 = 1-beta2^t (Loshchilov and Hutter 2019)", "lr", "wd", "eps", "c1", "c2"),
	OpSGD:     update("sgd", 2, "p - lr*(g + wd*p) of (p, g)", "lr", "wd"),
	OpSGDM:    update("sgd_momentum", 3, "b*mu + (g + wd*p)*(1-damp) of (b, g, p)", "mu", "damp", "wd"),
	OpDropout: {Name: "dropout", Class: ClassElementwise, MinTensors: 1, MaxTensors: 1, Scalars: []string{"p", "seed", "counter"}, Ints: "offset", Random: true, Gradient: Differentiable, takes: floats, shape: firstShape, Doc: "x/(1-p) with probability 1-p, else 0; the mask is a function of seed, counter and index"},

	OpSum:      reduction("sum", "sum; of integers and bools as i64", anyDType, Differentiable),
	OpMean:     reduction("mean", "mean; of integers and bools as f32, summed in f64", anyDType, Differentiable),
	OpAmax:     reduction("amax", "largest", anyDType, Differentiable),
	OpAmin:     reduction("amin", "smallest", anyDType, Differentiable),
	OpProd:     reduction("prod", "product; of integers and bools as i64", anyDType, Differentiable),
	OpArgmax:   reduction("argmax", "index of the first largest along one dim, or in the flat order over all; i64", numbers, NoGradient),
	OpArgmin:   reduction("argmin", "index of the first smallest, as argmax", numbers, NoGradient),
	OpAny:      reduction("any", "is any of the bools true", bools, NoGradient),
	OpAll:      reduction("all", "are all of the bools true", bools, NoGradient),
	OpCumsum:   {Name: "cumsum", Class: ClassRow, MinTensors: 1, MaxTensors: 1, Ints: "dim, reverse", Gradient: Differentiable, shape: cumsumShape, Doc: "running sum along dim, from its end if reverse; of integers and bools as i64"},
	OpProdGrad: {Name: "prod_grad", Class: ClassRow, MinTensors: 2, MaxTensors: 2, Ints: "dims...", Gradient: GradientOp, takes: floats, shape: prodGradShape, Doc: "dy times the product of all others, of (x, dy); dy has the kept dims"},

	OpReshape:     {Name: "reshape", Class: ClassView, MinTensors: 1, MaxTensors: 1, Ints: "shape...", Gradient: Differentiable, shape: reshapeShape, Doc: "the same elements in row-major order under another shape"},
	OpPermute:     {Name: "permute", Class: ClassView, MinTensors: 1, MaxTensors: 1, Ints: "dims...", Gradient: Differentiable, shape: permuteShape, Doc: "dim i of the result is dim dims[i] of x"},
	OpExpand:      {Name: "expand", Class: ClassView, MinTensors: 1, MaxTensors: 1, Ints: "shape...", Gradient: Differentiable, shape: expandShape, Doc: "dims of 1 repeated"},
	OpSlice:       {Name: "slice", Class: ClassView, MinTensors: 1, MaxTensors: 1, Ints: "(start, step, n) a dim", Gradient: Differentiable, shape: sliceShape, Doc: "n elements of every dim from start by step; step may be negative"},
	OpBarrier:     {Name: "barrier", Class: ClassView, MinTensors: 1, MaxTensors: 1, Gradient: Differentiable, shape: firstShape, Doc: "x; what is recorded after it is computed there, and not taken from the same computation before it"},
	OpConcat:      {Name: "concat", Class: ClassMovement, MinTensors: 1, MaxTensors: MaxOperands, Ints: "dim", Gradient: Differentiable, shape: concatShape, Doc: "one after another along dim"},
	OpPad:         {Name: "pad", Class: ClassMovement, MinTensors: 1, MaxTensors: 1, Scalars: []string{"value"}, Ints: "(before, after) a dim", Gradient: Differentiable, shape: padShape, Doc: "value around x"},
	OpTril:        {Name: "tril", Class: ClassMovement, MinTensors: 1, MaxTensors: 1, Ints: "k", Gradient: Differentiable, shape: triangleShape, Doc: "0 above the k-th diagonal of the last two dims"},
	OpTriu:        {Name: "triu", Class: ClassMovement, MinTensors: 1, MaxTensors: 1, Ints: "k", Gradient: Differentiable, shape: triangleShape, Doc: "0 below the k-th diagonal of the last two dims"},
	OpIndexSelect: {Name: "index_select", Class: ClassMovement, MinTensors: 2, MaxTensors: 2, Ints: "dim", Fallible: true, Gradient: Differentiable, apart: 2, shape: selected, Doc: "x at idx along dim; idx (i32, i64) of any shape takes the place of dim, negative ones count from the end; an embedding is dim 0"},
	OpIndexAdd:    {Name: "index_add", Class: ClassMovement, MinTensors: 3, MaxTensors: 3, Ints: "dim", Fallible: true, Gradient: Differentiable, takes: numbers, apart: 2, shape: indexAddShape, Doc: "x plus, for every j in order, src at j to idx[j] along dim, from the end if negative: (x, idx, src)"},
	OpGather:      {Name: "gather", Class: ClassMovement, MinTensors: 2, MaxTensors: 2, Ints: "dim", Fallible: true, Gradient: Differentiable, apart: 2, shape: gatherShape, Doc: "out[i][j] = x[i][idx[i][j]] for dim 1; as torch.gather"},
	OpScatterAdd:  {Name: "scatter_add", Class: ClassMovement, MinTensors: 3, MaxTensors: 3, Ints: "dim", Fallible: true, Gradient: Differentiable, takes: numbers, apart: 2, shape: scatterAddShape, Doc: "x plus src[i][j] at [i][idx[i][j]] for dim 1, in row-major order of src: (x, idx, src)"},
	OpOneHot:      {Name: "one_hot", Class: ClassMovement, MinTensors: 1, MaxTensors: 1, Ints: "dtype, classes", Fallible: true, apart: 1, shape: oneHotShape, Doc: "1 at [.., idx], 0 elsewhere; a last dim of classes is added"},

	OpMatmul:           {Name: "matmul", Class: ClassContraction, MinTensors: 2, MaxTensors: 2, Gradient: Differentiable, takes: numbers, shape: matmulShape, Doc: "[.., m, k] x [.., k, n]; the dims before broadcast"},
	OpSoftmax:          floatRow("softmax", "e^x / sum e^x along dim"),
	OpSoftmaxGrad:      row("softmax_grad", 2, "dim", nil, rowDimShape, GradientOp, "y*(dy - sum(y*dy)) of (y, dy)"),
	OpLogSoftmax:       floatRow("log_softmax", "x - log sum e^x along dim"),
	OpLogSoftmaxGrad:   row("log_softmax_grad", 2, "dim", nil, rowDimShape, GradientOp, "dy - e^y*sum(dy) of (y, dy)"),
	OpCausalSoftmax:    row("causal_softmax", 1, "", []string{"scale"}, causalShape, Differentiable, "softmax of x*scale over the last dim [.., s, t], for row i over columns j <= i+t-s; 0 beyond"),
	OpLayerNorm:        {Name: "layer_norm", Class: ClassRow, MinTensors: 1, MaxTensors: 3, Scalars: []string{"eps"}, Ints: "n", Gradient: Differentiable, takes: floats, shape: normShape, Doc: "(x-mean)/sqrt(var+eps) over the last n dims, then *w+b of (x), (x, w) or (x, w, b)"},
	OpLayerNormGradX:   {Name: "layer_norm_grad_x", Class: ClassRow, MinTensors: 2, MaxTensors: 3, Scalars: []string{"eps"}, Ints: "n", Gradient: GradientOp, takes: floats, shape: normGradXShape, Doc: "of (x, dy) or (x, dy, w)"},
	OpLayerNormGradW:   {Name: "layer_norm_grad_w", Class: ClassRow, MinTensors: 2, MaxTensors: 2, Scalars: []string{"eps"}, Ints: "n", Gradient: GradientOp, takes: floats, shape: normGradWShape, Doc: "sum over rows of dy*(x-mean)/sqrt(var+eps), of (x, dy)"},
	OpRMSNorm:          {Name: "rms_norm", Class: ClassRow, MinTensors: 1, MaxTensors: 2, Scalars: []string{"eps"}, Ints: "n", Gradient: Differentiable, takes: floats, shape: normShape, Doc: "x/sqrt(mean(x*x)+eps) over the last n dims, then *w of (x) or (x, w) (Zhang and Sennrich 2019)"},
	OpRMSNormGradX:     {Name: "rms_norm_grad_x", Class: ClassRow, MinTensors: 2, MaxTensors: 3, Scalars: []string{"eps"}, Ints: "n", Gradient: GradientOp, takes: floats, shape: normGradXShape, Doc: "of (x, dy) or (x, dy, w)"},
	OpRMSNormGradW:     {Name: "rms_norm_grad_w", Class: ClassRow, MinTensors: 2, MaxTensors: 2, Scalars: []string{"eps"}, Ints: "n", Gradient: GradientOp, takes: floats, shape: normGradWShape, Doc: "sum over rows of dy*x/sqrt(mean(x*x)+eps), of (x, dy)"},
	OpRope:             row("rope", 3, "back", nil, ropeShape, Differentiable, "rotary embedding, halves rotated: x [.., s, d], cos and sin [s, d/2]; back turns the other way (Su et al. 2021)"),
	OpCrossEntropy:     {Name: "cross_entropy", Class: ClassRow, MinTensors: 2, MaxTensors: 2, Ints: "ignore", Fallible: true, Gradient: Differentiable, takes: floats, apart: 2, shape: crossEntropyShape, Doc: "mean of -log softmax(x)[i, y[i]] over the rows whose target isn't ignore; x [n, c], y i32 or i64 [n]"},
	OpCrossEntropyGrad: {Name: "cross_entropy_grad", Class: ClassRow, MinTensors: 3, MaxTensors: 3, Ints: "ignore", Fallible: true, Gradient: GradientOp, takes: floats, apart: 2, shape: crossEntropyGradShape, Doc: "of (x, y, dy)"},
	OpConv2D:           {Name: "conv2d", Class: ClassContraction, MinTensors: 2, MaxTensors: 2, Ints: convInts, Gradient: Differentiable, takes: floats, shape: conv2DShape, Doc: "cross-correlation of x [n, c, h, w] with w [o, c/groups, kh, kw]"},
	OpConv2DGradX:      {Name: "conv2d_grad_x", Class: ClassContraction, MinTensors: 2, MaxTensors: 2, Ints: convInts + ", h, w", Gradient: GradientOp, takes: floats, shape: conv2DGradXShape, Doc: "of (dy, w)"},
	OpConv2DGradW:      {Name: "conv2d_grad_w", Class: ClassContraction, MinTensors: 2, MaxTensors: 2, Ints: convInts + ", kh, kw", Gradient: GradientOp, takes: floats, shape: conv2DGradWShape, Doc: "of (x, dy)"},
	OpMaxPool2D:        {Name: "max_pool2d", Class: ClassRow, MinTensors: 1, MaxTensors: 1, Ints: poolInts, Gradient: Differentiable, takes: floats, shape: poolShape, Doc: "largest of each window of x [n, c, h, w]; padding is -inf"},
	OpMaxPool2DGrad:    {Name: "max_pool2d_grad", Class: ClassRow, MinTensors: 2, MaxTensors: 2, Ints: poolInts, Gradient: GradientOp, takes: floats, shape: maxPoolGradShape, Doc: "dy to the first largest of each window, of (x, dy)"},
	OpAvgPool2D:        {Name: "avg_pool2d", Class: ClassRow, MinTensors: 1, MaxTensors: 1, Ints: poolInts, Gradient: Differentiable, takes: floats, shape: poolShape, Doc: "mean of each window of x [n, c, h, w]; padding counts as 0"},
	OpAvgPool2DGrad:    {Name: "avg_pool2d_grad", Class: ClassRow, MinTensors: 1, MaxTensors: 1, Ints: poolInts + ", h, w", Gradient: GradientOp, takes: floats, shape: avgPoolGradShape, Doc: "of dy"},
}

const (
	convInts = "stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups"
	poolInts = "kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w"
)

func floatOp(name, doc string, g Gradient) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, MinTensors: 1, MaxTensors: 1, Float: true, Gradient: g, takes: floats, shape: firstShape, Doc: doc}
}

func unaryOp(name, doc string, g Gradient) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, MinTensors: 1, MaxTensors: 1, Gradient: g, takes: numbers, shape: firstShape, Doc: doc}
}

func binaryOp(name, doc string, g Gradient) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, MinTensors: 2, MaxTensors: 2, Weak: true, Gradient: g, takes: numbers, shape: broadcastShape, Doc: doc}
}

func comparison(name, doc string) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, Kind: KindComparison, MinTensors: 2, MaxTensors: 2, Weak: true, shape: compareShape, Doc: doc}
}

func logic(name string, n int, doc string) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, Kind: KindLogic, MinTensors: n, MaxTensors: n, Weak: n == 2, takes: bools, shape: broadcastShape, Doc: doc}
}

func gradOp(name, doc string) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, Kind: KindGradient, MinTensors: 2, MaxTensors: 2, Gradient: GradientOp, takes: floats, shape: broadcastShape, Doc: doc}
}

func update(name string, n int, doc string, scalars ...string) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, Kind: KindUpdate, MinTensors: n, MaxTensors: n, Scalars: scalars, Gradient: GradientOp, takes: floats, shape: sameShapes, Doc: doc}
}

func reduction(name, doc string, takes dtypes, g Gradient) OpInfo {
	return OpInfo{Name: name, Class: ClassReduction, MinTensors: 1, MaxTensors: 1, Ints: "keepdim, dims...", Gradient: g, takes: takes, shape: reduceShape, Doc: doc}
}

func row(name string, n int, ints string, scalars []string, f func(*inference) (Shape, error), g Gradient, doc string) OpInfo {
	return OpInfo{Name: name, Class: ClassRow, MinTensors: n, MaxTensors: n, Scalars: scalars, Ints: ints, Gradient: g, takes: floats, shape: f, Doc: doc}
}

func floatRow(name, doc string) OpInfo {
	return OpInfo{Name: name, Class: ClassRow, MinTensors: 1, MaxTensors: 1, Ints: "dim", Float: true, Gradient: Differentiable, takes: floats, shape: rowDimShape, Doc: doc}
}
