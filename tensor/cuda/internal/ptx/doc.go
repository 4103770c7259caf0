// Package ptx writes kernels for the elementwise steps of a plan, as text that the driver
// compiles. A kernel is straight-line code: a thread computes four consecutive elements,
// two of 8 bytes, or one, and keeps all values between operations in registers.
//
// Every floating-point operation says how it rounds, and none is approximate or flushes
// subnormal numbers, so results have the same bits on every device. Functions such as exp
// are polynomials.
//
//	writer.go    instructions and registers
//	math.go      arithmetic of f32 and f64, and the functions made of exp and log
//	math32.go    exp, log, sin, cos and others of f32
//	math64.go    those of f64
//	ops.go       the code of each operation and dtype
//	cast.go      conversions between dtypes
//	numbered.go  random numbers, and others by the element's number
//	index.go     where the elements of strided operands lie
//	tiles.go     the kernel of a step
//	fold.go      the kernel of a collective that folds values of several ranks
package ptx
