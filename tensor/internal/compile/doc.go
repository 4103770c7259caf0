// Package compile turns a tensor.Program into a Plan: a list of steps over buffers whose places are settled, which an
// engine replays with nothing left to decide. It knows no engine and does no arithmetic.
//
// First every live instruction becomes a step of its own, in SSA form: nobody needs what is dropped, views (reshape,
// permute, expand, slice) are folded into the strides of those who read them. Then passes make fewer and larger steps,
// each in a file of its own and right by itself:
//
//	cse.go        what several steps compute from the same operands is computed once
//	constants.go  a tensor that is full of one number becomes that scalar
//	relu.go       the gradient of a ReLU looks at its result
//	joinpads.go   a sum of pads that lie beside each other becomes one tensor in pieces (*)
//	attention.go  attention, causal or not, and its gradient, without anything of the size of the sequence squared (*)
//	sink.go       attention writes where a copy or a joined piece would go
//	normgrad.go   the gradients of a norm by input, weight and bias go over its rows once (*)
//	lossgrad.go   a cross entropy and its gradient share their exponentials (*)
//	adamwproduct.go  an AdamW update is one step with the matrix product that its gradient is (*)
//	adamw.go      all other AdamW updates are one step (*)
//	halves.go     a matrix product reads operands of 16 bits as they are stored
//	tilefold.go   a reduction over the last dims and the elementwise operations that make its operand are one step (*)
//	tiles.go      elementwise chains, with broadcasts and casts, run tile by tile
//	epilogue.go   a matrix product goes on with the elementwise step that reads it: bias, activation, residual
//
// Those with (*) may change the last bits of results; all others keep every bit, and so does the number of threads that an
// engine uses. Options.NoFuse leaves all passes out.
//
// A barrier (tensor.OpBarrier) parts a program into eras: cse.go computes again what an earlier era has, tiles.go moves
// nothing to an earlier one, normgrad.go, tilefold.go, epilogue.go and adamwproduct.go move nothing across. So a program can
// recompute something and not keep it.
//
// Last comes memory: every kept result gets a buffer of its own and every other one a place in one arena, by lifetime;
// an elementwise step writes over an operand that dies there; a kept result takes the memory of a donated input. Stats
// say how large the arena is beside the most bytes that live at once.
package compile
