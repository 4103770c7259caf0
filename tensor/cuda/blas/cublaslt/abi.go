package cublaslt

// Numbers of the binary interface. Each stands in NVIDIA's documentation of cuBLAS, under
// the name of its type. TestABI compares them with cublasLt.h, cublas_api.h and
// library_types.h of CUDA 12.4, and TestLibrary sets the attributes in NVIDIA's library
// 12.4.5 and reads them back. Those of CUDA 13 have the same numbers in NVIDIA's bindings
// for Python (nvmath.bindings.cublasLt).
const (
	// cublasComputeType_t
	compute32F     = 68
	compute32FTF32 = 77
	compute64F     = 70

	// cudaDataType
	r32F  = 0
	r64F  = 1
	r16F  = 2
	r16BF = 14

	// cublasOperation_t
	opT = 1

	// cublasLtMatmulDescAttributes_t
	descTransA = 3
	descTransB = 4

	// cublasLtMatrixLayoutAttribute_t
	layoutBatch = 5
	layoutStep  = 6

	// cublasLtMatmulPreferenceAttributes_t
	preferWorkspace = 1
	preferReduction = 3
	preferAlignA    = 5
	preferAlignB    = 6
	preferAlignC    = 7
	preferAlignD    = 8

	// cublasLtReductionScheme_t
	schemeComputeType = 2

	// cublasLtMatmulAlgoConfigAttributes_t
	algoSplits = 2
	algoScheme = 3
)

// algorithm is cublasLtMatmulAlgo_t.
type algorithm [8]uint64

// found is cublasLtMatmulHeuristicResult_t.
type found struct {
	algo      algorithm
	workspace uint64
	state     int32
	_         float32  // how far the device is used
	_         [4]int32 // reserved
}
