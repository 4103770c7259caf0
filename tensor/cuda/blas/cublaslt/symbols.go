package cublaslt

// symbol is the index of a C function in the library.
type symbol int

const (
	getVersion symbol = iota
	create
	destroy
	matmul
	heuristic
	algoGet
	descCreate
	descDestroy
	descSet
	descGet
	layoutCreate
	layoutDestroy
	layoutSet
	layoutGet
	preferenceCreate
	preferenceDestroy
	preferenceSet
	preferenceGet
	symbolCount
)

// symbols are the functions that a library must export.
var symbols = [symbolCount]string{
	getVersion:        "cublasLtGetVersion",
	create:            "cublasLtCreate",
	destroy:           "cublasLtDestroy",
	matmul:            "cublasLtMatmul",
	heuristic:         "cublasLtMatmulAlgoGetHeuristic",
	algoGet:           "cublasLtMatmulAlgoConfigGetAttribute",
	descCreate:        "cublasLtMatmulDescCreate",
	descDestroy:       "cublasLtMatmulDescDestroy",
	descSet:           "cublasLtMatmulDescSetAttribute",
	descGet:           "cublasLtMatmulDescGetAttribute",
	layoutCreate:      "cublasLtMatrixLayoutCreate",
	layoutDestroy:     "cublasLtMatrixLayoutDestroy",
	layoutSet:         "cublasLtMatrixLayoutSetAttribute",
	layoutGet:         "cublasLtMatrixLayoutGetAttribute",
	preferenceCreate:  "cublasLtMatmulPreferenceCreate",
	preferenceDestroy: "cublasLtMatmulPreferenceDestroy",
	preferenceSet:     "cublasLtMatmulPreferenceSetAttribute",
	preferenceGet:     "cublasLtMatmulPreferenceGetAttribute",
}
