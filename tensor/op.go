package tensor

import "fmt"

// Op is the number of an operation. Numbers travel in programs: they are never changed or used again.
type Op uint16

// The operations. What each takes and gives stands in the table below (and in docs/ops.md, made from it).
const (
	OpInvalid Op = 0

	// leaves
	OpFull   Op = 1
	OpArange Op = 2
	OpRand   Op = 3
	OpRandN  Op = 4

	// elementwise, one operand
	OpNeg      Op = 20
	OpAbs      Op = 21
	OpSign     Op = 22
	OpExp      Op = 23
	OpLog      Op = 24
	OpSqrt     Op = 25
	OpRsqrt    Op = 26
	OpRecip    Op = 27
	OpSquare   Op = 28
	OpSin      Op = 29
	OpCos      Op = 30
	OpTanh     Op = 31
	OpSigmoid  Op = 32
	OpRelu     Op = 33
	OpGelu     Op = 34
	OpGeluTanh Op = 35
	OpSilu     Op = 36
	OpErf      Op = 37
	OpFloor    Op = 38
	OpCeil     Op = 39
	OpNot      Op = 40
	OpCast     Op = 41
	OpClamp    Op = 42

	// elementwise, two operands and more
	OpAdd   Op = 60
	OpSub   Op = 61
	OpMul   Op = 62
	OpDiv   Op = 63
	OpPow   Op = 64
	OpMax   Op = 65
	OpMin   Op = 66
	OpEq    Op = 67
	OpNe    Op = 68
	OpLt    Op = 69
	OpLe    Op = 70
	OpGt    Op = 71
	OpGe    Op = 72
	OpAnd   Op = 73
	OpOr    Op = 74
	OpXor   Op = 75
	OpWhere Op = 76

	// gradients of the elementwise ones that are worth a kernel
	OpTanhGrad     Op = 90
	OpSigmoidGrad  Op = 91
	OpReluGrad     Op = 92
	OpGeluGrad     Op = 93
	OpGeluTanhGrad Op = 94
	OpSiluGrad     Op = 95

	// updates of optimizers, and dropout: elementwise with scalars
	OpAdamM   Op = 100
	OpAdamV   Op = 101
	OpAdamW   Op = 102
	OpSGD     Op = 103
	OpSGDM    Op = 104
	OpDropout Op = 105

	// reductions
	OpSum      Op = 120
	OpMean     Op = 121
	OpAmax     Op = 122
	OpAmin     Op = 123
	OpProd     Op = 124
	OpArgmax   Op = 125
	OpArgmin   Op = 126
	OpAny      Op = 127
	OpAll      Op = 128
	OpCumsum   Op = 129
	OpProdGrad Op = 130

	// views and movement
	OpReshape     Op = 140
	OpPermute     Op = 141
	OpExpand      Op = 142
	OpSlice       Op = 143
	OpConcat      Op = 144
	OpPad         Op = 145
	OpTril        Op = 146
	OpTriu        Op = 147
	OpIndexSelect Op = 148
	OpIndexAdd    Op = 149
	OpGather      Op = 150
	OpScatterAdd  Op = 151
	OpOneHot      Op = 152
	OpBarrier     Op = 153

	// products and composites
	OpMatmul           Op = 170
	OpSoftmax          Op = 171
	OpSoftmaxGrad      Op = 172
	OpLogSoftmax       Op = 173
	OpLogSoftmaxGrad   Op = 174
	OpCausalSoftmax    Op = 175
	OpLayerNorm        Op = 176
	OpLayerNormGradX   Op = 177
	OpLayerNormGradW   Op = 178
	OpRMSNorm          Op = 179
	OpRMSNormGradX     Op = 180
	OpRMSNormGradW     Op = 181
	OpRope             Op = 182
	OpCrossEntropy     Op = 183
	OpCrossEntropyGrad Op = 184
	OpConv2D           Op = 185
	OpConv2DGradX      Op = 186
	OpConv2DGradW      Op = 187
	OpMaxPool2D        Op = 188
	OpMaxPool2DGrad    Op = 189
	OpAvgPool2D        Op = 190
	OpAvgPool2DGrad    Op = 191

	opLimit Op = 192
)

// Class says how an operation moves data; compilers and engines dispatch on it.
type Class uint8

// The classes.
const (
	ClassLeaf        Class = iota + 1 // makes a value from scalars
	ClassElementwise                  // out[i] depends on in[i] alone, operands broadcast
	ClassReduction                    // folds dims
	ClassView                         // names the same elements in another order
	ClassMovement                     // copies elements to other places
	ClassContraction                  // matrix products and convolutions
	ClassRow                          // works on whole rows (softmax, norms, losses)
)

func (c Class) String() string {
	return [...]string{"?", "leaf", "elementwise", "reduction", "view", "movement", "contraction", "row"}[c]
}

// Gradient says what autograd owes an operation.
type Gradient uint8

// The kinds of gradient.
const (
	NoGradient     Gradient = iota // piecewise constant or an integer: nothing flows back
	Differentiable                 // has an entry in autograd's table
	GradientOp                     // is itself part of a gradient or an update: not differentiated again
)

// OpInfo is a row of the op table: everything the rest of the system knows about an operation.
//
// An instruction's arguments are its tensors, MinTensors to MaxTensors of them, and then Scalars scalars. In an
// elementwise operation with Weak set a scalar may stand in the place of a tensor (2*x, where(c, x, 0)).
type OpInfo struct {
	Name       string
	Class      Class
	MinTensors int
	MaxTensors int
	Scalars    []string // names of the scalar arguments, in order
	Ints       string   // the integer attributes, for people
	Weak       bool     // scalars may stand in for tensors
	Fallible   bool     // can fail on the values (an index out of range)
	Random     bool     // takes its numbers from the counter-based generator
	Gradient   Gradient
	Doc        string
	infer      func(c *inference) error
}

// MaxOperands bounds the operands of concat, the only operation with a variable number.
const MaxOperands = 4096

var opTable = [...]OpInfo{
	OpFull:   {Name: "full", Class: ClassLeaf, Scalars: []string{"value"}, Ints: "dtype, shape...", infer: inferLeaf, Doc: "every element is value"},
	OpArange: {Name: "arange", Class: ClassLeaf, Scalars: []string{"start", "step"}, Ints: "dtype, n", infer: inferLeaf, Doc: "start + i*step for i in 0..n-1"},
	OpRand:   {Name: "rand", Class: ClassLeaf, Scalars: []string{"seed", "counter"}, Ints: "dtype, offset, shape...", Random: true, infer: inferRandom, Doc: "uniform in [0, 1), Philox4x32-10"},
	OpRandN:  {Name: "randn", Class: ClassLeaf, Scalars: []string{"seed", "counter"}, Ints: "dtype, offset, shape...", Random: true, infer: inferRandom, Doc: "normal, mean 0 and deviation 1, Philox4x32-10 and Box-Muller"},

	OpNeg:      unaryOp("neg", "-x", inferSame, Differentiable),
	OpAbs:      unaryOp("abs", "|x|", inferSame, Differentiable),
	OpSign:     unaryOp("sign", "-1, 0 or 1", inferSame, NoGradient),
	OpExp:      unaryOp("exp", "e^x", inferFloat, Differentiable),
	OpLog:      unaryOp("log", "natural logarithm", inferFloat, Differentiable),
	OpSqrt:     unaryOp("sqrt", "square root", inferFloat, Differentiable),
	OpRsqrt:    unaryOp("rsqrt", "1/sqrt(x)", inferFloat, Differentiable),
	OpRecip:    unaryOp("recip", "1/x", inferFloat, Differentiable),
	OpSquare:   unaryOp("square", "x*x", inferSame, Differentiable),
	OpSin:      unaryOp("sin", "sine of radians", inferFloat, Differentiable),
	OpCos:      unaryOp("cos", "cosine of radians", inferFloat, Differentiable),
	OpTanh:     unaryOp("tanh", "hyperbolic tangent", inferFloat, Differentiable),
	OpSigmoid:  unaryOp("sigmoid", "1/(1+e^-x)", inferFloat, Differentiable),
	OpRelu:     unaryOp("relu", "max(x, 0)", inferSame, Differentiable),
	OpGelu:     unaryOp("gelu", "x*(1+erf(x/sqrt 2))/2", inferFloat, Differentiable),
	OpGeluTanh: unaryOp("gelu_tanh", "the tanh form of gelu", inferFloat, Differentiable),
	OpSilu:     unaryOp("silu", "x*sigmoid(x)", inferFloat, Differentiable),
	OpErf:      unaryOp("erf", "error function", inferFloat, Differentiable),
	OpFloor:    unaryOp("floor", "largest integer not above x", inferFloat, NoGradient),
	OpCeil:     unaryOp("ceil", "smallest integer not below x", inferFloat, NoGradient),
	OpNot:      unaryOp("not", "logical not of a bool", inferBool, NoGradient),
	OpCast:     {Name: "cast", Class: ClassElementwise, MinTensors: 1, MaxTensors: 1, Ints: "dtype", Gradient: Differentiable, infer: inferCast, Doc: "the value in another dtype; a float is cut toward zero and clamped to an integer's range, NaN is 0; an integer keeps its low bits; a bool is x != 0"},
	OpClamp:    {Name: "clamp", Class: ClassElementwise, MinTensors: 1, MaxTensors: 1, Scalars: []string{"lo", "hi"}, Gradient: Differentiable, infer: inferSame, Doc: "min(max(x, lo), hi)"},

	OpAdd:   binaryOp("add", "a+b", inferArith, Differentiable),
	OpSub:   binaryOp("sub", "a-b", inferArith, Differentiable),
	OpMul:   binaryOp("mul", "a*b", inferArith, Differentiable),
	OpDiv:   binaryOp("div", "a/b; of floats (integers are cast before)", inferFloat2, Differentiable),
	OpPow:   binaryOp("pow", "a^b", inferArith, Differentiable),
	OpMax:   binaryOp("max", "the larger; NaN if either is", inferArith, Differentiable),
	OpMin:   binaryOp("min", "the smaller; NaN if either is", inferArith, Differentiable),
	OpEq:    binaryOp("eq", "a == b", inferCompare, NoGradient),
	OpNe:    binaryOp("ne", "a != b", inferCompare, NoGradient),
	OpLt:    binaryOp("lt", "a < b", inferCompare, NoGradient),
	OpLe:    binaryOp("le", "a <= b", inferCompare, NoGradient),
	OpGt:    binaryOp("gt", "a > b", inferCompare, NoGradient),
	OpGe:    binaryOp("ge", "a >= b", inferCompare, NoGradient),
	OpAnd:   binaryOp("and", "a and b of bools", inferBool, NoGradient),
	OpOr:    binaryOp("or", "a or b of bools", inferBool, NoGradient),
	OpXor:   binaryOp("xor", "a != b of bools", inferBool, NoGradient),
	OpWhere: {Name: "where", Class: ClassElementwise, MinTensors: 3, MaxTensors: 3, Weak: true, Gradient: Differentiable, infer: inferWhere, Doc: "a where the bool c is true, b elsewhere"},

	OpTanhGrad:     gradOp("tanh_grad", "dy*(1-y*y) of y = tanh(x)"),
	OpSigmoidGrad:  gradOp("sigmoid_grad", "dy*y*(1-y) of y = sigmoid(x)"),
	OpReluGrad:     gradOp("relu_grad", "dy where x > 0, else 0, of (x, dy)"),
	OpGeluGrad:     gradOp("gelu_grad", "dy*gelu'(x) of (x, dy)"),
	OpGeluTanhGrad: gradOp("gelu_tanh_grad", "dy*gelu_tanh'(x) of (x, dy)"),
	OpSiluGrad:     gradOp("silu_grad", "dy*silu'(x) of (x, dy)"),

	OpAdamM:   update("adam_m", 2, "m*beta1 + g*(1-beta1) of (m, g)", "beta1"),
	OpAdamV:   update("adam_v", 2, "v*beta2 + g*g*(1-beta2) of (v, g)", "beta2"),
	OpAdamW:   update("adamw", 3, "p*(1-lr*wd) - lr/c1*m/(sqrt(v)/sqrt(c2)+eps) of (p, m, v); c1 = 1-beta1^t, c2 = 1-beta2^t (Loshchilov and Hutter 2019)", "lr", "wd", "eps", "c1", "c2"),
	OpSGD:     update("sgd", 2, "p - lr*(g + wd*p) of (p, g)", "lr", "wd"),
	OpSGDM:    update("sgd_momentum", 3, "b*mu + (g + wd*p)*(1-damp) of (b, g, p)", "mu", "damp", "wd"),
	OpDropout: {Name: "dropout", Class: ClassElementwise, MinTensors: 1, MaxTensors: 1, Scalars: []string{"p", "seed", "counter"}, Ints: "offset", Random: true, Gradient: Differentiable, infer: inferDropout, Doc: "x/(1-p) with probability 1-p, else 0; the mask is a function of seed, counter and index"},

	OpSum:      reduction("sum", "sum; of integers and bools as i64", Differentiable),
	OpMean:     reduction("mean", "mean; of integers and bools as f32", Differentiable),
	OpAmax:     reduction("amax", "largest", Differentiable),
	OpAmin:     reduction("amin", "smallest", Differentiable),
	OpProd:     reduction("prod", "product; of integers and bools as i64", Differentiable),
	OpArgmax:   reduction("argmax", "index of the first largest along one dim, or in the flat order over all; i64", NoGradient),
	OpArgmin:   reduction("argmin", "index of the first smallest, as argmax", NoGradient),
	OpAny:      reduction("any", "is any of the bools true", NoGradient),
	OpAll:      reduction("all", "are all of the bools true", NoGradient),
	OpCumsum:   {Name: "cumsum", Class: ClassRow, MinTensors: 1, MaxTensors: 1, Ints: "dim, reverse", Gradient: Differentiable, infer: inferCumsum, Doc: "running sum along dim, from its end if reverse"},
	OpProdGrad: {Name: "prod_grad", Class: ClassRow, MinTensors: 2, MaxTensors: 2, Ints: "dims...", Gradient: GradientOp, infer: inferProdGrad, Doc: "dy times the product of all others, of (x, dy); dy has the kept dims"},

	OpReshape:     {Name: "reshape", Class: ClassView, MinTensors: 1, MaxTensors: 1, Ints: "shape...", Gradient: Differentiable, infer: inferReshape, Doc: "the same elements in row-major order under another shape"},
	OpPermute:     {Name: "permute", Class: ClassView, MinTensors: 1, MaxTensors: 1, Ints: "dims...", Gradient: Differentiable, infer: inferPermute, Doc: "dim i of the result is dim dims[i] of x"},
	OpExpand:      {Name: "expand", Class: ClassView, MinTensors: 1, MaxTensors: 1, Ints: "shape...", Gradient: Differentiable, infer: inferExpand, Doc: "dims of 1 repeated"},
	OpSlice:       {Name: "slice", Class: ClassView, MinTensors: 1, MaxTensors: 1, Ints: "(start, step, n) a dim", Gradient: Differentiable, infer: inferSlice, Doc: "n elements of every dim from start by step; step may be negative"},
	OpBarrier:     {Name: "barrier", Class: ClassView, MinTensors: 1, MaxTensors: 1, Gradient: Differentiable, infer: inferBarrier, Doc: "x; what is recorded after it is computed there, and not taken from the same computation before it"},
	OpConcat:      {Name: "concat", Class: ClassMovement, MinTensors: 1, MaxTensors: MaxOperands, Ints: "dim", Gradient: Differentiable, infer: inferConcat, Doc: "one after another along dim"},
	OpPad:         {Name: "pad", Class: ClassMovement, MinTensors: 1, MaxTensors: 1, Scalars: []string{"value"}, Ints: "(before, after) a dim", Gradient: Differentiable, infer: inferPad, Doc: "value around x"},
	OpTril:        {Name: "tril", Class: ClassMovement, MinTensors: 1, MaxTensors: 1, Ints: "k", Gradient: Differentiable, infer: inferTri, Doc: "0 above the k-th diagonal of the last two dims"},
	OpTriu:        {Name: "triu", Class: ClassMovement, MinTensors: 1, MaxTensors: 1, Ints: "k", Gradient: Differentiable, infer: inferTri, Doc: "0 below the k-th diagonal of the last two dims"},
	OpIndexSelect: {Name: "index_select", Class: ClassMovement, MinTensors: 2, MaxTensors: 2, Ints: "dim", Fallible: true, Gradient: Differentiable, infer: inferIndexSelect, Doc: "x at idx along dim; idx (i32, i64) of any shape takes the place of dim; an embedding is dim 0"},
	OpIndexAdd:    {Name: "index_add", Class: ClassMovement, MinTensors: 3, MaxTensors: 3, Ints: "dim", Fallible: true, Gradient: Differentiable, infer: inferIndexAdd, Doc: "x plus, for every j in order, src at j to idx[j] along dim: (x, idx, src)"},
	OpGather:      {Name: "gather", Class: ClassMovement, MinTensors: 2, MaxTensors: 2, Ints: "dim", Fallible: true, Gradient: Differentiable, infer: inferGather, Doc: "out[i][j] = x[i][idx[i][j]] for dim 1; as torch.gather"},
	OpScatterAdd:  {Name: "scatter_add", Class: ClassMovement, MinTensors: 3, MaxTensors: 3, Ints: "dim", Fallible: true, Gradient: Differentiable, infer: inferScatterAdd, Doc: "x plus src[i][j] at [i][idx[i][j]] for dim 1, in row-major order of src: (x, idx, src)"},
	OpOneHot:      {Name: "one_hot", Class: ClassMovement, MinTensors: 1, MaxTensors: 1, Ints: "dtype, classes", Fallible: true, infer: inferOneHot, Doc: "1 at [.., idx], 0 elsewhere; a last dim of classes is added"},

	OpMatmul:           {Name: "matmul", Class: ClassContraction, MinTensors: 2, MaxTensors: 2, Gradient: Differentiable, infer: inferMatmul, Doc: "[.., m, k] x [.., k, n]; the dims before broadcast"},
	OpSoftmax:          row("softmax", 1, "dim", nil, inferRowDim, Differentiable, "e^x / sum e^x along dim"),
	OpSoftmaxGrad:      row("softmax_grad", 2, "dim", nil, inferRowDim, GradientOp, "y*(dy - sum(y*dy)) of (y, dy)"),
	OpLogSoftmax:       row("log_softmax", 1, "dim", nil, inferRowDim, Differentiable, "x - log sum e^x along dim"),
	OpLogSoftmaxGrad:   row("log_softmax_grad", 2, "dim", nil, inferRowDim, GradientOp, "dy - e^y*sum(dy) of (y, dy)"),
	OpCausalSoftmax:    row("causal_softmax", 1, "", []string{"scale"}, inferCausal, Differentiable, "softmax of x*scale over the last dim [.., s, t], for row i over columns j <= i+t-s; 0 beyond"),
	OpLayerNorm:        {Name: "layer_norm", Class: ClassRow, MinTensors: 1, MaxTensors: 3, Scalars: []string{"eps"}, Ints: "n", Gradient: Differentiable, infer: inferNorm, Doc: "(x-mean)/sqrt(var+eps) over the last n dims, then *w+b of (x), (x, w) or (x, w, b)"},
	OpLayerNormGradX:   {Name: "layer_norm_grad_x", Class: ClassRow, MinTensors: 2, MaxTensors: 3, Scalars: []string{"eps"}, Ints: "n", Gradient: GradientOp, infer: inferNormGradX, Doc: "of (x, dy) or (x, dy, w)"},
	OpLayerNormGradW:   {Name: "layer_norm_grad_w", Class: ClassRow, MinTensors: 2, MaxTensors: 2, Scalars: []string{"eps"}, Ints: "n", Gradient: GradientOp, infer: inferNormGradW, Doc: "sum over rows of dy*(x-mean)/sqrt(var+eps), of (x, dy)"},
	OpRMSNorm:          {Name: "rms_norm", Class: ClassRow, MinTensors: 1, MaxTensors: 2, Scalars: []string{"eps"}, Ints: "n", Gradient: Differentiable, infer: inferNorm, Doc: "x/sqrt(mean(x*x)+eps) over the last n dims, then *w of (x) or (x, w) (Zhang and Sennrich 2019)"},
	OpRMSNormGradX:     {Name: "rms_norm_grad_x", Class: ClassRow, MinTensors: 2, MaxTensors: 3, Scalars: []string{"eps"}, Ints: "n", Gradient: GradientOp, infer: inferNormGradX, Doc: "of (x, dy) or (x, dy, w)"},
	OpRMSNormGradW:     {Name: "rms_norm_grad_w", Class: ClassRow, MinTensors: 2, MaxTensors: 2, Scalars: []string{"eps"}, Ints: "n", Gradient: GradientOp, infer: inferNormGradW, Doc: "sum over rows of dy*x/sqrt(mean(x*x)+eps), of (x, dy)"},
	OpRope:             row("rope", 3, "back", nil, inferRope, Differentiable, "rotary embedding, halves rotated: x [.., s, d], cos and sin [s, d/2]; back turns the other way (Su et al. 2021)"),
	OpCrossEntropy:     {Name: "cross_entropy", Class: ClassRow, MinTensors: 2, MaxTensors: 2, Ints: "ignore", Fallible: true, Gradient: Differentiable, infer: inferCrossEntropy, Doc: "mean of -log softmax(x)[i, y[i]] over the rows whose target isn't ignore; x [n, c], y i32 or i64 [n]"},
	OpCrossEntropyGrad: {Name: "cross_entropy_grad", Class: ClassRow, MinTensors: 3, MaxTensors: 3, Ints: "ignore", Fallible: true, Gradient: GradientOp, infer: inferCrossEntropyGrad, Doc: "of (x, y, dy)"},
	OpConv2D:           {Name: "conv2d", Class: ClassContraction, MinTensors: 2, MaxTensors: 2, Ints: convInts, Gradient: Differentiable, infer: inferConv2D, Doc: "cross-correlation of x [n, c, h, w] with w [o, c/groups, kh, kw]"},
	OpConv2DGradX:      {Name: "conv2d_grad_x", Class: ClassContraction, MinTensors: 2, MaxTensors: 2, Ints: convInts + ", h, w", Gradient: GradientOp, infer: inferConv2DGradX, Doc: "of (dy, w)"},
	OpConv2DGradW:      {Name: "conv2d_grad_w", Class: ClassContraction, MinTensors: 2, MaxTensors: 2, Ints: convInts + ", kh, kw", Gradient: GradientOp, infer: inferConv2DGradW, Doc: "of (x, dy)"},
	OpMaxPool2D:        {Name: "max_pool2d", Class: ClassRow, MinTensors: 1, MaxTensors: 1, Ints: poolInts, Gradient: Differentiable, infer: inferPool, Doc: "largest of each window of x [n, c, h, w]; padding is -inf"},
	OpMaxPool2DGrad:    {Name: "max_pool2d_grad", Class: ClassRow, MinTensors: 2, MaxTensors: 2, Ints: poolInts, Gradient: GradientOp, infer: inferMaxPoolGrad, Doc: "dy to the first largest of each window, of (x, dy)"},
	OpAvgPool2D:        {Name: "avg_pool2d", Class: ClassRow, MinTensors: 1, MaxTensors: 1, Ints: poolInts, Gradient: Differentiable, infer: inferPool, Doc: "mean of each window of x [n, c, h, w]; padding counts as 0"},
	OpAvgPool2DGrad:    {Name: "avg_pool2d_grad", Class: ClassRow, MinTensors: 1, MaxTensors: 1, Ints: poolInts + ", h, w", Gradient: GradientOp, infer: inferAvgPoolGrad, Doc: "of dy"},
}

const (
	convInts = "stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups"
	poolInts = "kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w"
)

func unaryOp(name, doc string, f func(*inference) error, g Gradient) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, MinTensors: 1, MaxTensors: 1, Gradient: g, infer: f, Doc: doc}
}

func binaryOp(name, doc string, f func(*inference) error, g Gradient) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, MinTensors: 2, MaxTensors: 2, Weak: true, Gradient: g, infer: f, Doc: doc}
}

func gradOp(name, doc string) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, MinTensors: 2, MaxTensors: 2, Gradient: GradientOp, infer: inferFloat2, Doc: doc}
}

func update(name string, n int, doc string, scalars ...string) OpInfo {
	return OpInfo{Name: name, Class: ClassElementwise, MinTensors: n, MaxTensors: n, Scalars: scalars, Gradient: GradientOp, infer: inferUpdate, Doc: doc}
}

func reduction(name, doc string, g Gradient) OpInfo {
	return OpInfo{Name: name, Class: ClassReduction, MinTensors: 1, MaxTensors: 1, Ints: "keepdim, dims...", Gradient: g, infer: inferReduce, Doc: doc}
}

func row(name string, n int, ints string, scalars []string, f func(*inference) error, g Gradient, doc string) OpInfo {
	return OpInfo{Name: name, Class: ClassRow, MinTensors: n, MaxTensors: n, Scalars: scalars, Ints: ints, Gradient: g, infer: f, Doc: doc}
}

// Valid reports whether o is an operation of the table.
func (o Op) Valid() bool { return o < opLimit && opTable[o].Name != "" }

// Info is the operation's row of the table. It must be valid.
func (o Op) Info() *OpInfo { return &opTable[o] }

func (o Op) String() string {
	if !o.Valid() {
		return fmt.Sprintf("op(%d)", uint16(o))
	}
	return opTable[o].Name
}

// Ops lists the table in the order of the numbers.
func Ops() []Op {
	var l []Op
	for o := Op(0); o < opLimit; o++ {
		if o.Valid() {
			l = append(l, o)
		}
	}
	return l
}
