// Package cublaslt is blas.Library over libcublasLt.so, found when the program runs: no
// cgo, no headers, no toolkit.
//
//	open.go          finds and checks the library
//	symbols.go       the functions that it must have
//	abi.go           numbers of its interface, and where each comes from
//	status.go        its codes
//	handle_unsafe.go a handle: plans of products, and products
//	call_unsafe.go   makes a call
//
// # Layouts
//
// A matrix that lies row by row is its transpose column by column. So a product D = A B
// of rows is asked for as Dᵀ = Bᵀ Aᵀ of columns, with a transposition of each operand
// that lies the other way. All of cuBLASLt's types have algorithms for all four cases,
// without CUBLASLT_ORDER_ROW.
//
// # Bits
//
// COMPUTE_32F and COMPUTE_64F are asked for: no TF32, unless a product says so. Of the
// schemes that sum up parts of a sum only those are allowed that keep the parts in the
// workspace and add them in a step of its own. The library's search is asked once for
// each product, and the first algorithm that it names is kept. The search looks at the
// product, the device's kind and the version of the library: processes in which these
// are the same have the same algorithm.
package cublaslt
