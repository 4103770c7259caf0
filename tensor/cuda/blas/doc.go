// Package blas is the interface to a library of matrix products on GPUs, which the engine
// uses where it has one. Package cublaslt implements it over NVIDIA's cuBLASLt. The
// project's own kernels compute what the library does not.
package blas
