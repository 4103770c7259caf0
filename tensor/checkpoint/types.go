package checkpoint

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// fileTypes are the names of element types in files.
var fileTypes = [...]struct {
	d tensor.DType
	f safetensors.DType
}{
	{tensor.F32, safetensors.F32}, {tensor.F64, safetensors.F64}, {tensor.I32, safetensors.I32},
	{tensor.I64, safetensors.I64}, {tensor.U8, safetensors.U8}, {tensor.Bool, safetensors.Bool},
	{tensor.F16, safetensors.F16}, {tensor.BF16, safetensors.BF16},
}

// fileType returns the name of d in files, or "" if it has none.
func fileType(d tensor.DType) safetensors.DType {
	for _, t := range fileTypes {
		if t.d == d {
			return t.f
		}
	}
	return ""
}
