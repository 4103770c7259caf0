// Package cudatest runs PTX for tests: on the stand-in of package fakecuda, or on a real
// driver. It is what tests of kernels and of generated code have in common.
package cudatest
