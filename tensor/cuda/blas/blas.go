package blas

import (
	"errors"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// Type is the type of a matrix's elements.
type Type uint8

// The types. Products of F16 and BF16 are sums of F32.
const (
	F32 Type = iota + 1
	F64
	F16
	BF16
)

// Size returns the bytes of an element.
func (t Type) Size() int {
	switch t {
	case F32:
		return 4
	case F64:
		return 8
	}
	return 2
}

// Out returns the type of sums of products of t.
func (t Type) Out() Type {
	if t == F64 {
		return F64
	}
	return F32
}

// Matrix says how the operands of a batch lie in memory.
type Matrix struct {
	// Transposed matrices lie column by column, others row by row.
	Transposed bool

	// Lead is the elements from a row to the next, or from a column to the next of a
	// transposed matrix. Rows may not overlap.
	Lead int

	// Step is the elements from a matrix to the next, 0 if all are the same.
	Step int

	// Align is a power of two that the address of the first matrix is a multiple of, in
	// bytes. It is at least the size of an element.
	Align int
}

// Product is D = A B for Count pairs of matrices. A is M by K, B is K by N. The results
// are M by N, of type Type.Out, and lie row by row, one after another, at multiples of 16
// bytes.
type Product struct {
	Type           Type
	M, N, K, Count int
	A, B           Matrix

	// TF32 lets products of F32 round their operands to 10 bits of fraction.
	TF32 bool
}

// Info describes a library.
type Info struct {
	Name    string // "cuBLASLt 12.4.5"
	Path    string // its file
	Version int    // the library's own number
}

// ErrUnsupported is returned by Plan where the library has no algorithm for a product.
var ErrUnsupported = errors.New("no algorithm for the product")

// Library is a library of matrix products that is loaded.
type Library interface {
	// Info describes the library.
	Info() Info

	// Open prepares for products on the device of the current context.
	Open() (Handle, error)
}

// Handle computes products on a device. Its methods may be called concurrently, with the
// context current in which it was opened.
type Handle interface {
	// Plan chooses an algorithm for a product, with at most so many bytes of workspace.
	// It always chooses the same for the same product, also in other processes with the
	// same library on a device of the same kind. It waits for nothing, and is not to be
	// called while the thread captures a stream.
	Plan(p Product, workspace int) (Plan, error)

	// Run puts a product into a stream, which may be one that is captured. workspace is
	// the address of memory that Plan.Workspace asks for, at a multiple of 256. Equal
	// operands give equal bits.
	Run(p Plan, a, b, d, workspace driver.DevicePtr, s driver.Stream) error

	// Close gives the handle and its plans back. No product is on its way.
	Close() error
}

// Plan is a product with its algorithm.
type Plan interface {
	// Workspace returns the bytes of memory that the product needs beside its operands.
	Workspace() int
}
