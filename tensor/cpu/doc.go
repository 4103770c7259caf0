// Package cpu is the engine on the cores of this machine. A Device has the memory, the kernels and the plans; a Space
// is one session's values on it, made by Device.Open; NewEngine of package device wraps one as a tensor.Engine for a session in the same
// process, and NewSession makes all of it. Workers use Device and Space for the sessions of others.
//
//	device.go space.go            a Device, the values of a session on it
//	lower.go run.go               a plan becomes functions, once, and is run
//	elementwise.go loops.go       elementwise operations: how tensors are walked; the loop of each operation and dtype
//	tiles.go chain.go tilefold.go chains of them, tile by tile; those that end in a reduction
//	reduce.go rows.go rows64.go   reductions; operations of whole rows
//	rows32.go normgrad.go loss.go rows in blocks; gradients of a norm in one pass; cross entropy
//	attention.go                  attention and its gradient, block by block
//	matmul.go matmulhalf.go       products; those of 16 bits
//	epilogue.go                   what stands behind a product
//	conv.go convdirect.go         convolutions: as products, and where they lie
//	pooling.go move.go            pools; what only moves elements
//	cast.go philox.go             conversions; random numbers
//	indexadd.go joinpads.go       gradients of an embedding, of slices that cut a tensor up
//	adamw.go sgd.go               the optimizers' updates: AdamW of all parameters in one pass
//	adamwproduct.go               AdamW of a parameter whose gradient is a product, with it
//	nest.go pool.go               loops over strided tensors; threads
package cpu
