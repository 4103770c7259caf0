package kernel

import "sync/atomic"

// Number is the set of element types that [Gemm] multiplies.
type Number interface {
	~float32 | ~float64 | ~int32 | ~int64 | ~uint8
}

// Float is the set of element types that there are tables for.
type Float interface{ float32 | float64 }

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
	Unary[T any] = func(dst, x []T)

	// Binary is one of the loops
	//
	//	for i := range dst {
	//		dst[i] = f(a[i], b[i])
	//	}
	Binary[T any] = func(dst, a, b []T)

	// Scalar is one of the loops
	//
	//	for i := range dst {
	//		dst[i] = f(x[i], s)
	//	}
	Scalar[T any] = func(dst, x []T, s T)

	// Reduction folds a slice into one number.
	Reduction[T any] = func(x []T) T
)

// Table is one set of kernels. [Select], [Best] and [Portable] set its fields, which are
// not to be changed afterwards; any number of goroutines may use a table. The comment of
// a field or method is the loop that it stands for, in real arithmetic: see the package
// comment for lengths and aliasing.
type Table[T Float] struct {
	Level Level

	Products[T]
	Arithmetic[T]
	Conversions[T]
	Functions[T]
	Gradients[T]
	Reductions[T]
	Packs
	parts[T]
	blocks blocks[T]

	// Philox fills dst, four words a block, with the blocks first, first+1 and so on of
	// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
	// 1, 2, 3", SC 2011). The upper half of the counter is number, the lower the block.
	Philox func(dst []uint32, first, number uint64, key [2]uint32)

	// Normals makes normal numbers of random words, as [Normal]: dst[2*i] and dst[2*i+1]
	// of words 2*i and 2*i+1. There is a word more than numbers where those are odd. All
	// levels give the same bits.
	Normals func(dst []float32, words []uint32)

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

	// Brain is nil on machines and levels without AVX512_BF16.
	Brain *BrainProducts
}

// Products are the kernels of matrices.
type Products[T Float] struct {
	// Gemm computes rows 0 ≤ i < m and columns 0 ≤ j < n of a matrix product,
	//
	//	c[i*ldc+j] = alpha * Σₖ a(i,k)*b(k,j)              // accumulate false
	//	c[i*ldc+j] = c[i*ldc+j] + alpha * Σₖ a(i,k)*b(k,j) // accumulate true
	//
	// for a of m×k and b of k×n. c is only read to accumulate, and must overlap neither a
	// nor b. scratch holds at least [GemmScratch](m, n, k) numbers; its contents are
	// undefined before and after. An element of c gets the same bits in whatever
	// rectangle it is computed, so a product may be split among threads by rows and
	// columns ([Split]), each with its own scratch, without changing the result. When
	// stop is set, Gemm soon returns, and c is undefined; nil is never set.
	Gemm func(m, n, k int, alpha T, a, b Matrix[T], accumulate bool, c []T, ldc int, scratch []T, stop *atomic.Bool)

	// GemmTaps computes a product with a b whose rows lie anywhere in one slice, as the
	// windows of a convolution do:
	//
	//	c[i*ldc+j] = Σ_q a(i,q)*b[at[q]+j]    (added to c if accumulate)
	//
	// for rows 0 ≤ i < m, columns 0 ≤ j < n and taps 0 ≤ q < k. b is read in whole
	// vectors: it holds at least [TapsPad] elements, of any value, after the last that
	// counts.
	GemmTaps func(m, n, k int, a Matrix[T], b []T, at []int, accumulate bool, c []T, ldc int)

	// Windows adds the products of windows of 3×3 and rows of b to c: for i, j < 3 and
	// o < n,
	//
	//	c[(3*i+j)*n+o] += Σ a[y*RowStep+x*ColStep+i*LineStep+j]*b[(y*Cols+x)*n+o]
	//
	// over the windows y < Rows, x < Cols of p. n is a multiple of [WindowUnit].
	Windows func(p Plane, a, b []T, n int, c []T)

	// WindowDots is Windows of n = 1 for windows of ColStep 1.
	WindowDots func(p Plane, a, b, c []T)

	// Transpose is dst[j*ds+i] = src[i*ss+j] for i < rows and j < cols. Transpose16 and
	// Transpose8 do the same with elements of other sizes.
	Transpose   func(dst []T, ds int, src []T, ss, rows, cols int)
	Transpose16 func(dst []uint16, ds int, src []uint16, ss, rows, cols int)
	Transpose8  func(dst []uint8, ds int, src []uint8, ss, rows, cols int)
}

// Arithmetic holds the operations of two operands and more.
type Arithmetic[T Float] struct {
	Add Binary[T] // a + b
	Sub Binary[T] // a - b
	Mul Binary[T] // a * b
	Div Binary[T] // a / b
	Max Binary[T] // the larger; NaN if either is NaN
	Min Binary[T] // the smaller; NaN if either is NaN
	Pow Binary[T] // a to the power of b; 0.501 ulp, of float64 2 ulp

	AddS  Scalar[T] // x + s
	RSubS Scalar[T] // s - x
	MulS  Scalar[T] // x * s
	RDivS Scalar[T] // s / x
	MaxS  Scalar[T] // as Max
	MinS  Scalar[T] // as Min
	PowS  Scalar[T] // as Pow

	// Keep is dst[i] = a[i]*scale where b[i] >= least, 0 elsewhere.
	Keep func(dst, a, b []T, least, scale T)
	// Axpy is dst[i] = a*x[i] + y[i], rounded once; dst is usually y.
	Axpy func(dst, x, y []T, a T)

	// AdamM is dst = m*keep + g*rest, AdamV dst = v*keep + g²*rest, and AdamP
	// dst = p*decay - m*rate/(√v*root+eps): the parts of AdamW, with its bits.
	AdamM func(dst, m, g []T, keep, rest T)
	AdamV func(dst, v, g []T, keep, rest T)
	AdamP func(dst, p, m, v []T, decay, rate, root, eps T)

	// Momentum is dst = b*keep + g*rest + p*decay: AdamM and then Axpy, with their bits.
	// dst may be any of the operands.
	Momentum func(dst, b, g, p []T, keep, rest, decay T)
}

// Conversions change element types and fill. The operands of all but
// Fill do not overlap.
type Conversions[T Float] struct {
	// WidenF16 and WidenBF16 are dst[i] = x[i] of numbers stored in 16 bits, see package
	// element.
	WidenF16  func(dst []T, x []uint16)
	WidenBF16 func(dst []T, x []uint16)
	// NarrowF16 and NarrowBF16 are dst[i] = x[i] rounded to nearest even.
	NarrowF16  func(dst []uint16, x []T)
	NarrowBF16 func(dst []uint16, x []T)
	// Double and Single are dst[i] = x[i], the second rounded to nearest even.
	Double func(dst []float64, x []float32)
	Single func(dst []float32, x []float64)
	// ToI32 and ToI64 are dst[i] = x[i] cut toward zero, clamped to the type's range; 0
	// of NaN.
	ToI32 func(dst []int32, x []T)
	ToI64 func(dst []int64, x []T)
	// Units is dst[i] = x[i]>>8 times 2⁻²⁴, exactly: random words become numbers from 0
	// to 1, without 1.
	Units func(dst []T, x []uint32)
	// Fill is dst[i] = s.
	Fill func(dst []T, s T)
}

// Functions are those of one number. The errors in the comments are the greatest of any
// level, in ulp of the exact result; functions without one are rounded once. GELU's are
// ulp of max(|result|, 1).
type Functions[T Float] struct {
	Neg      Unary[T] // -x
	Sign     Unary[T] // -1 or 1; x if that is 0 or NaN
	Floor    Unary[T] // rounded down
	Ceil     Unary[T] // rounded up
	Abs      Unary[T] // |x|
	Square   Unary[T] // x*x
	Sqrt     Unary[T] // √x, rounded correctly
	Rsqrt    Unary[T] // 1/√x; 1.5 ulp
	Recip    Unary[T] // 1/x, rounded correctly
	Exp      Unary[T] // eˣ; 1.5 ulp, subnormal results included
	Log      Unary[T] // natural logarithm; 1 ulp
	Sin      Unary[T] // 2 ulp
	Cos      Unary[T] // 2 ulp
	Erf      Unary[T] // the error function; 2 ulp
	Tanh     Unary[T] // 2 ulp
	Sigmoid  Unary[T] // 1/(1+e⁻ˣ); 2.5 ulp, 0 below about -89
	ReLU     Unary[T] // x, but 0 where x < 0: NaN and -0 stay
	SiLU     Unary[T] // x*sigmoid(x); 3 ulp, 0 below about -89
	GELU     Unary[T] // x*Φ(x) = x*(1+erf(x/√2))/2; 2 ulp
	GELUTanh Unary[T] // x*(1+tanh(√(2/π)*(x+0.044715x³)))/2; 2 ulp
}

// Gradients are those of the functions: a is the saved value that the comment names, b
// the gradient of the output, dst that of the input. Their errors are at most 6 ulp of
// max(|result|, 1) for |b| up to 10.
type Gradients[T Float] struct {
	SigmoidGrad  Binary[T] // a = sigmoid(x): b*a*(1-a)
	TanhGrad     Binary[T] // a = tanh(x): b*(1-a²)
	ReLUGrad     Binary[T] // a = x or relu(x): b, but 0 where a <= 0
	SiLUGrad     Binary[T] // a = x
	GELUGrad     Binary[T] // a = x
	GELUTanhGrad Binary[T] // a = x
}

// Reductions fold slices into one number.
type Reductions[T Float] struct {
	Sum    Reduction[T] // Σ x; 0 if empty
	RowMax Reduction[T] // the largest; NaN if one is NaN; -Inf if empty
	RowMin Reduction[T] // the smallest; NaN if one is NaN; +Inf if empty
	// Dot is Σ a[i]*b[i] over len(a).
	Dot func(a, b []T) T
	// SumSqDev is Σ (x[i]-s)².
	SumSqDev func(x []T, s T) T
	// ExpSum is dst[i] = e^(x[i]*scale+shift), and returns Σ dst[i].
	ExpSum func(dst, x []T, scale, shift T) T
}

// parts are the pieces that fused rows are made of.
type parts[T Float] struct {
	// expTotal is ExpSum without dst.
	expTotal func(x []T, scale, shift T) T
	// absMax is the largest |x|, or less where some are NaN.
	absMax Reduction[T]
	// dlogsm is dst = b - e^a*s.
	dlogsm func(dst, a, b []T, s T)
	// scaled is dst = (x+shift)*scale*w+b; shifted is dst = (x+shift)*scale*w; plain is
	// dst = (x+shift)*scale.
	scaled  func(dst, x, w, b []T, shift, scale T)
	shifted func(dst, x, w []T, shift, scale T)
	plain   func(dst, x []T, shift, scale T)
	// normSums returns Σh and Σh*x̂ for h = dy*w and x̂ = (x+shift)*scale; normSums1 has
	// w = 1.
	normSums  func(x, w, dy []T, shift, scale T) (s1, s2 T)
	normSums1 func(x, dy []T, shift, scale T) (s1, s2 T)
	// normGrad is dx = scale*(h + c1 + x̂*c2); normGrad1 has w = 1.
	normGrad  func(dx, x, w, dy []T, shift, scale, c1, c2 T)
	normGrad1 func(dx, x, dy []T, shift, scale, c1, c2 T)
	// addGrad is dst = dw + dy*x̂.
	addGrad func(dst, dw, x, dy []T, shift, scale T)
	// adamw is AdamW by the coefficients of AdamWStep.
	adamw func(pOut, mOut, vOut, p, m, v, g []T, beta1, rest1, beta2, rest2, root, eps, decay, rate T)
}
