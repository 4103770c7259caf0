// Package cpu is the engine on the cores of this machine. A Device has the memory, the
// kernels and the plans. A Space, which Device.Open makes, holds one session's values.
// NewEngine of package device wraps a Space as a tensor.Engine for a session in the same
// process, and NewSession makes all of it. Workers use Device and Space for the sessions
// of their clients.
//
// A program ends within milliseconds when its stop flag is set. Every loop reads the flag
// once for each piece of work of at most a few milliseconds: a tile, a panel of a matrix
// product, a block of queries, breath elements. Only two things are done whole: one row
// of a softmax or a norm, and the system's allocation of the results' memory. Compile
// refuses programs with more work than Options.MaxWork.
//
//	device.go space.go     a Device, the values of a session on it
//	lower.go run.go        turns a plan into functions, once, and runs it
//	rest.go                the rest of a program of which an instruction failed
//	told.go steps.go       tells of the steps that it runs; runs single steps for others
//	elementwise.go         single elementwise operations
//	loops.go plain.go      the loop of each elementwise operation and dtype; those in Go
//	tiles.go chain.go      chains of them, tile by tile
//	bands.go               transposed operands of chains
//	tilefold.go            chains that end in a reduction
//	reduce.go columns.go   reductions; those over columns, and softmax
//	place.go anyall.go     places of extremes; any and all of bools
//	foldrows.go cumsum.go  folds of contiguous rows; running sums
//	fold.go narrow.go      folding of elements into one; of few columns
//	prodgrad.go            the gradient of a product of all
//	rows.go halfrows.go    operations of whole rows; their operands of 16 bits
//	normgrad.go            gradients of a norm in one pass
//	loss.go                cross entropy
//	attention.go           attention and its gradient, block by block
//	matmul.go epilogue.go  products; operations behind a product
//	matmulhalf.go          products of 16 bits
//	matmulbrain.go         those of bfloat16 on processors that multiply it
//	conv.go pointwise.go   convolutions as products: of the window matrix, of pixels
//	convdirect.go          convolutions in place, by taps of a padded image,
//	convframe.go           which convframe.go holds
//	convgrad.go            their gradients
//	pooling.go move.go     pools; moves of elements
//	gather.go              moves of elements that indices name
//	cast.go philox.go      conversions; random numbers
//	indexadd.go            sums at indices: gradients of an embedding
//	joinpads.go            gradients of slices that cut a tensor up
//	adamw.go sgd.go        the optimizers' updates: AdamW of all parameters in one pass
//	adamwproduct.go        AdamW of a parameter whose gradient is a product
//	order.go               values in another order of dims than row-major
//	nest.go pool.go        loops over strided tensors; threads
//	kernels.go             single kernels, for benchmarks
package cpu
