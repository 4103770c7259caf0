package kernel

// Number is the set of element types that [Gemm] multiplies.
type Number interface {
	~float32 | ~float64 | ~int32 | ~int64
}

// Matrix is a strided view: element (i, j) is Data[i*RS+j*CS]. Strides are in elements
// and not negative, so a transposed matrix is the same data with RS and CS exchanged.
// Zero strides repeat a row or a column.
type Matrix[T Number] struct {
	Data   []T
	RS, CS int
}

// Sub returns the view whose element (0, 0) is element (i, j) of m.
func (m Matrix[T]) Sub(i, j int) Matrix[T] {
	return Matrix[T]{Data: m.Data[i*m.RS+j*m.CS:], RS: m.RS, CS: m.CS}
}

// T returns the transposed view.
func (m Matrix[T]) T() Matrix[T] {
	return Matrix[T]{Data: m.Data, RS: m.CS, CS: m.RS}
}

// The shapes of most kernels.
type (
	// Unary is one of the loops
	//
	//	for i := range dst {
	//		dst[i] = f(x[i])
	//	}
	Unary = func(dst, x []float32)

	// Binary is one of the loops
	//
	//	for i := range dst {
	//		dst[i] = f(a[i], b[i])
	//	}
	Binary = func(dst, a, b []float32)

	// Scalar is one of the loops
	//
	//	for i := range dst {
	//		dst[i] = f(x[i], s)
	//	}
	Scalar = func(dst, x []float32, s float32)

	// Reduction folds a slice into one number.
	Reduction = func(x []float32) float32
)

// Table is one set of kernels. [Select] and [Best] set its fields, which are not to be
// changed afterwards; any number of goroutines may use a table. The comment of a field is
// the loop that it stands for, in real arithmetic: see the package comment for lengths
// and aliasing.
type Table struct {
	Level Level

	Products
	Arithmetic
	Conversions
	Functions
	Gradients
	Reductions
	FusedRows
	Blocks
	parts

	// AdamW makes one step of the optimizer over len(p) elements, from p, m, v and the
	// gradient g into pOut, mOut and vOut, which may be p, m and v.
	AdamW func(pOut, mOut, vOut, p, m, v, g []float32, s AdamWStep)

	// Chain runs operations one after another on each of the first done of n numbers.
	// Between operations the numbers stay in registers:
	//
	//	for i := range done {
	//		var acc float32
	//		for _, o := range ops { acc = o(acc, o.P[i]) }
	//	}
	//
	// done is n rounded down to a multiple of ChainBlock, or 0 where there is no such
	// kernel; the caller computes the rest. Every ChainOp's P has n numbers, or one. A
	// store may overwrite memory that an earlier operation reads, but none that a later
	// one reads.
	Chain func(n int, ops []ChainOp) (done int)
	// ChainBlock is a power of 2, or 0.
	ChainBlock int
}

// Products are the kernels of matrices.
type Products struct {
	// Gemm computes rows 0 ≤ i < m and columns 0 ≤ j < n of a matrix product,
	//
	//	c[i*ldc+j] = alpha * Σₖ a(i,k)*b(k,j)              // accumulate false
	//	c[i*ldc+j] = c[i*ldc+j] + alpha * Σₖ a(i,k)*b(k,j) // accumulate true
	//
	// for a of m×k and b of k×n. c is only read to accumulate, and must overlap neither a
	// nor b. scratch holds at least [GemmScratch](m, n, k) bytes; its contents are
	// undefined before and after. An element of c gets the same bits in whatever
	// rectangle it is computed, so a product may be split among threads by rows and
	// columns ([Split]), each with its own scratch, without changing the result.
	Gemm func(m, n, k int, alpha float32, a, b Matrix[float32], accumulate bool, c []float32, ldc int, scratch []float32)

	// GemmTaps computes a product with a b whose rows lie anywhere in one slice, as the
	// windows of a convolution do:
	//
	//	c[i*ldc+j] = Σ_q a(i,q)*b[at[q]+j]    (added to c if accumulate)
	//
	// for rows 0 ≤ i < m, columns 0 ≤ j < n and taps 0 ≤ q < k. b is read in whole
	// vectors: it holds at least [TapsPad] elements, of any value, after the last that
	// counts.
	GemmTaps func(m, n, k int, a Matrix[float32], b []float32, at []int, accumulate bool, c []float32, ldc int)

	// Transpose is dst[j*ds+i] = src[i*ss+j] for i < rows and j < cols.
	Transpose func(dst []float32, ds int, src []float32, ss, rows, cols int)
}

// Arithmetic holds the operations of two operands and more.
type Arithmetic struct {
	Add Binary // a + b
	Sub Binary // a - b
	Mul Binary // a * b
	Div Binary // a / b
	Max Binary // the larger; NaN if either is NaN
	Min Binary // the smaller; NaN if either is NaN
	Pow Binary // math.Pow(a, b)

	AddS  Scalar // x + s
	RSubS Scalar // s - x
	MulS  Scalar // x * s
	RDivS Scalar // s / x
	MaxS  Scalar // as Max
	MinS  Scalar // as Min
	PowS  Scalar // math.Pow(x, s)

	// Axpy is dst[i] = a*x[i] + y[i], rounded once; dst is usually y.
	Axpy func(dst, x, y []float32, a float32)
	// MulAdd is dst[i] = x[i]*y[i] + z[i], rounded once.
	MulAdd func(dst, x, y, z []float32)
}

// Conversions change element types, copy and fill. The operands of the first four do not
// overlap.
type Conversions struct {
	// WidenF16 and WidenBF16 are dst[i] = x[i] of numbers stored in 16 bits, see package
	// element.
	WidenF16  func(dst []float32, x []uint16)
	WidenBF16 func(dst []float32, x []uint16)
	// NarrowF16 and NarrowBF16 are dst[i] = x[i] rounded to nearest even.
	NarrowF16  func(dst []uint16, x []float32)
	NarrowBF16 func(dst []uint16, x []float32)
	// Fill is dst[i] = s.
	Fill func(dst []float32, s float32)
	// Copy is dst[i] = x[i].
	Copy Unary
}

// Functions are those of one number. The errors in the comments are the greatest of any
// level, in ulp of the exact result; functions without one are rounded once. GELU's are
// ulp of max(|result|, 1). Log, Sin, Cos and Pow are portable Go on all levels.
type Functions struct {
	Neg      Unary // -x
	Abs      Unary // |x|
	Square   Unary // x*x
	Sqrt     Unary // √x, rounded correctly
	Rsqrt    Unary // 1/√x; 1.5 ulp
	Recip    Unary // 1/x, rounded correctly
	Exp      Unary // eˣ; 1.5 ulp, subnormal results included
	Log      Unary // natural logarithm
	Sin      Unary
	Cos      Unary
	Erf      Unary // the error function; 2 ulp
	Tanh     Unary // 2 ulp
	Sigmoid  Unary // 1/(1+e⁻ˣ); 2.5 ulp, 0 below about -89
	ReLU     Unary // max(x, 0); NaN stays NaN
	SiLU     Unary // x*sigmoid(x); 3 ulp, 0 below about -89
	GELU     Unary // x*Φ(x) = x*(1+erf(x/√2))/2; 2 ulp
	GELUTanh Unary // x*(1+tanh(√(2/π)*(x+0.044715x³)))/2; 2 ulp
}

// Gradients are those of the functions, and SwiGLU: a is the saved value that the comment
// names, b the gradient of the output, dst that of the input. Their errors are at most 6
// ulp of max(|result|, 1) for |b| up to 10.
type Gradients struct {
	SigmoidGrad  Binary // a = sigmoid(x): b*a*(1-a)
	TanhGrad     Binary // a = tanh(x): b*(1-a²)
	ReLUGrad     Binary // a = x or relu(x): b where a > 0, else 0
	SiLUGrad     Binary // a = x
	GELUGrad     Binary // a = x
	GELUTanhGrad Binary // a = x

	// SwiGLU is dst[i] = silu(gate[i]) * up[i].
	SwiGLU func(dst, gate, up []float32)
	// SwiGLUGrad is the gradient of SwiGLU: dgate and dup from gate, up and the output's
	// gradient dy. dgate and dup may be any two different ones of the inputs.
	SwiGLUGrad func(dgate, dup, gate, up, dy []float32)
}

// Reductions fold slices into one number.
type Reductions struct {
	Sum    Reduction // Σ x; 0 if empty
	RowMax Reduction // the largest; NaN if one is NaN; -Inf if empty
	RowMin Reduction // the smallest; NaN if one is NaN; +Inf if empty
	// Dot is Σ a[i]*b[i] over len(a).
	Dot func(a, b []float32) float32
	// SumSqDev is Σ (x[i]-s)².
	SumSqDev func(x []float32, s float32) float32
	// ExpSum is dst[i] = e^(x[i]*scale+shift), and returns Σ dst[i].
	ExpSum func(dst, x []float32, scale, shift float32) float32
}

// FusedRows are the kernels of one row each that are made of others.
type FusedRows struct {
	// Softmax is dst[i] = e^(scale*x[i]) / Σⱼ e^(scale*x[j]), shifted by the largest so
	// that it cannot overflow. scale is positive.
	Softmax func(dst, x []float32, scale float32)
	// SoftmaxGrad is dst[i] = scale * p[i] * (dp[i] - Σⱼ p[j]*dp[j]), where Softmax
	// returned p.
	SoftmaxGrad func(dst, p, dp []float32, scale float32)
	// LogSumExp is log Σ e^x[i], shifted so that it cannot overflow.
	LogSumExp Reduction
	// LogSoftmax is dst[i] = x[i] - log Σⱼ e^x[j].
	LogSoftmax Unary
	// LogSoftmaxGrad is dst[i] = b[i] - e^a[i] * Σⱼ b[j], where LogSoftmax returned a,
	// and b is its gradient.
	LogSoftmaxGrad Binary
	// CrossEntropy returns LogSumExp(x) - x[target], and unless dx is nil stores its
	// gradient times scale, dx[i] = scale * (softmax(x)[i] - [i == target]). dx may be x.
	// It panics unless 0 ≤ target < len(x).
	CrossEntropy func(dx, x []float32, target int, scale float32) float32

	// LayerNorm is dst[i] = (x[i]-mean)*rstd*w[i] + b[i] over len(x), where mean is that
	// of x and rstd is 1/√(variance+eps), with the biased variance. w and b may each be
	// nil: ones and zeros.
	LayerNorm func(dst, x, w, b []float32, eps float32) (mean, rstd float32)
	// LayerNormGrad is the gradient of LayerNorm for one row: with x̂ = (x-mean)*rstd and
	// h = dy*w,
	//
	//	dw[i] += dy[i]*x̂[i]; db[i] += dy[i]
	//	dx[i] = rstd * (h[i] - Σh/n - x̂[i]*Σ(h*x̂)/n)
	//
	// w, dw and db may each be nil. dx may be x or dy.
	LayerNormGrad func(dx, dw, db, x, w, dy []float32, mean, rstd float32)
	// RMSNorm is dst[i] = x[i]*rstd*w[i] with rstd = 1/√(Σx²/n+eps). w may be nil: ones.
	RMSNorm func(dst, x, w []float32, eps float32) (rstd float32)
	// RMSNormGrad is the gradient of RMSNorm for one row: with x̂ = x*rstd and h = dy*w,
	//
	//	dw[i] += dy[i]*x̂[i]
	//	dx[i] = rstd * (h[i] - x̂[i]*Σ(h*x̂)/n)
	//
	// w and dw may each be nil. dx may be x or dy.
	RMSNormGrad func(dx, dw, x, w, dy []float32, rstd float32)

	// RoPE rotates the pairs (x[i], x[h+i]), h = len(dst)/2, by the angles whose cosines
	// and sines are given:
	//
	//	dst[i]   = x[i]*cos[i] - x[h+i]*sin[i]*sign
	//	dst[h+i] = x[h+i]*cos[i] + x[i]*sin[i]*sign
	//
	// ("rotate half", Su et al. 2021, arXiv:2104.09864). sign is 1; -1 is the inverse and
	// so the gradient.
	RoPE func(dst, x, cos, sin []float32, sign float32)
}

// Blocks compute rows rows of n elements as the kernels of one row do, whose letters they
// use; the two agree within rounding. Results of one row are the same in whatever block
// the row is.
type Blocks struct {
	RMSNormRows func(dst, x Rows, w []float32, rows, n int, eps float32)
	// RMSNormGradRows recomputes 1/√(Σx²/n+eps). dw may be nil, dx may be x or dy.
	RMSNormGradRows func(dx, x, dy Rows, dw, w []float32, rows, n int, eps float32)
	LayerNormRows   func(dst, x Rows, w, b []float32, rows, n int, eps float32)
	// LayerNormGradRows recomputes mean and deviation. dw and db may be nil, dx may be x
	// or dy.
	LayerNormGradRows func(dx, x, dy Rows, dw, db, w []float32, rows, n int, eps float32)
	// SoftmaxRows is Softmax of the first min(first+i*grow, n) elements of row i, at
	// least 1, and 0 after them up to n: with grow 1 it is causal.
	SoftmaxRows func(dst, x Rows, rows, n, first, grow int, scale float32)
	// SoftmaxGradRows is SoftmaxGrad of the same elements.
	SoftmaxGradRows func(dst, p, dp Rows, rows, n, first, grow int, scale float32)
	// RoPERows turns rows of 2h elements by tables of h.
	RoPERows func(dst, x, cos, sin Rows, rows, h int, sign float32)
}

// parts are the pieces that fused rows are made of.
type parts struct {
	// expTotal is ExpSum without dst.
	expTotal func(x []float32, scale, shift float32) float32
	// dlogsm is dst = b - e^a*s.
	dlogsm func(dst, a, b []float32, s float32)
	// scaled is dst = (x+shift)*scale*w+b; shifted is dst = (x+shift)*scale*w; plain is
	// dst = (x+shift)*scale.
	scaled  func(dst, x, w, b []float32, shift, scale float32)
	shifted func(dst, x, w []float32, shift, scale float32)
	plain   func(dst, x []float32, shift, scale float32)
	// normSums returns Σh and Σh*x̂ for h = dy*w and x̂ = (x+shift)*scale; normSums1 has
	// w = 1.
	normSums  func(x, w, dy []float32, shift, scale float32) (s1, s2 float32)
	normSums1 func(x, dy []float32, shift, scale float32) (s1, s2 float32)
	// normGrad is dx = scale*(h + c1 + x̂*c2); normGrad1 has w = 1.
	normGrad  func(dx, x, w, dy []float32, shift, scale, c1, c2 float32)
	normGrad1 func(dx, x, dy []float32, shift, scale, c1, c2 float32)
	// addGrad is dw += dy*x̂.
	addGrad func(dw, x, dy []float32, shift, scale float32)
	// rope is one half-row pair: lo, hi outputs from a, b.
	rope func(lo, hi, a, b, cos, sin []float32, sign float32)
}
