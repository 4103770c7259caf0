// Package kernels holds the library of kernels as PTX for sm_80, which newer devices run
// as well. Clang of Debian's main makes it of the CUDA C beside it: `make ptx`. NVIDIA's
// toolkit is not needed.
//
// No kernel has atomics in a sum, and every fold has an order that depends on the shape
// alone: results have the same bits in every run. Arithmetic rounds as IEEE 754 says,
// without contraction and without approximate instructions, so they have the same bits on
// every device as well.
//
// Kernels of rows take a block of 256 threads for a row.
package kernels

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.ptx
var files embed.FS

// Modules are the files of PTX: their names, and the kernels in each.
var Modules = map[string][]string{
	"conv": {"conv2d_f32", "conv2d_grad_x_f32", "conv2d_grad_w_f32", "conv2d_f64", "conv2d_grad_x_f64", "conv2d_grad_w_f64"},
	"gemm": {
		"gemm_f32", "gemm_f64", "gemm_i32", "gemm_i64", "gemm_small_f32", "gemm_small_f64", "gemm_small_i32", "gemm_small_i64",
	},
	"index": {
		"gather_axis_b8", "gather_axis_b16", "gather_axis_b32", "gather_axis_b64",
		"scatter_add_f32", "scatter_add_f64", "scatter_add_i32", "scatter_add_i64", "scatter_add_u8",
		"index_add_f32", "index_add_f64", "index_add_i32", "index_add_i64", "index_add_u8",
		"index_chain", "index_check", "index_failed",
	},
	"loss": {"targets_count_f32", "cross_entropy_f32", "quotient_f32", "targets_count_f64", "cross_entropy_f64", "quotient_f64"},
	"move": {
		"transpose_b8", "transpose_b16", "transpose_b32", "transpose_b64",
		"transpose_any_b8", "transpose_any_b16", "transpose_any_b32", "transpose_any_b64", "gather_b8", "gather_b32",
	},
	"norm": {
		"layernorm_f32", "rmsnorm_f32", "layernorm_grad_f32", "rmsnorm_grad_f32",
		"layernorm_f64", "rmsnorm_f64", "layernorm_grad_f64", "rmsnorm_grad_f64",
	},
	"pool": {
		"maxpool2d_f32", "avgpool2d_f32", "maxpool2d_grad_f32", "avgpool2d_grad_f32",
		"maxpool2d_f64", "avgpool2d_f64", "maxpool2d_grad_f64", "avgpool2d_grad_f64",
	},
	"reduce": {
		"sum_f32", "sum_f64", "sum_i64", "prod_f32", "prod_f64", "prod_i64", "max_f32", "max_f64", "max_i64", "min_f32", "min_f64", "min_i64",
		"sum_columns_f32", "sum_columns_f64", "prod_grad_f32", "prod_grad_f64", "argmax_f32", "argmax_f64", "argmax_i64", "argmin_f32", "argmin_f64", "argmin_i64",
	},
	"scan": {"cumsum_f32", "cumsum_f64", "cumsum_i64"},
	"softmax": {
		"softmax_f32", "causal_softmax_f32", "log_softmax_f32", "softmax_grad_f32", "log_softmax_grad_f32",
		"softmax_f64", "causal_softmax_f64", "log_softmax_f64", "softmax_grad_f64", "log_softmax_grad_f64",
	},
}

// PTX returns the text of a module.
func PTX(module string) (string, error) {
	b, err := files.ReadFile(module + ".ptx")
	return string(b), err
}

// Kernel returns the text of a module with one kernel of it alone.
func Kernel(module, name string) (string, error) {
	text, err := PTX(module)
	if err != nil {
		return "", err
	}
	const entry, end = ".visible .entry ", "\n}\n"
	_, from, found := strings.Cut(text, entry+name+"(")
	body, _, ends := strings.Cut(from, end)
	if !found || !ends {
		return "", fmt.Errorf("module %s has no kernel %s", module, name)
	}
	at := strings.Index(text, ".version")
	head, _, _ := strings.Cut(text[at:], "\n\n")
	return head + "\n\n" + entry + name + "(" + body + end, nil
}
