// Package compile turns a tensor.Program into a Plan: a list of steps over buffers with
// fixed places, which an engine can run again and again without further decisions. The
// package knows no engine and does no arithmetic.
//
// compile.go has Compile and its Options, plan.go the Plan, fused.go the kinds of steps.
//
// Compile works in three stages. First, build.go makes a step in SSA form of each live
// instruction. It drops instructions that no result depends on. Views (reshape, permute,
// expand, slice) become strides of the operands that read them (view.go, layout.go),
// and elementwise results may keep the order of dims of their operands (order.go).
//
// Second, passes make fewer and larger steps. rewrite.go calls them one after another;
// graph.go tells them which steps write and read a buffer. Each has a file and leaves a
// correct plan:
//
//	cse.go           computes once what several steps compute from the same operands
//	constants.go     replaces a tensor full of one number by the scalar
//	relu.go          lets the gradient of a ReLU read its result
//	joinpads.go      turns a sum of adjacent pads into one joined tensor (*)
//	attention.go     fuses attention and its gradient, without matrices of the
//	                 size of the sequence squared (*)
//	sink.go          lets attention write where its results would be copied
//	normgrad.go      computes all gradients of a norm in one pass over its rows (*)
//	lossgrad.go      computes a cross entropy and its gradient in one step (*)
//	adamwproduct.go  joins an AdamW update and the product that is its gradient (*)
//	adamw.go         joins all other AdamW updates (*)
//	halves.go        lets a matrix product read 16-bit operands as stored (*)
//	halfrows.go      lets reductions and operations on rows read 16-bit operands as
//	                 stored, and the latter write such results (*)
//	tilefold.go      joins a reduction over the last dims and the elementwise
//	                 operations that compute its operand (*)
//	tiles.go         joins elementwise operations, broadcasts and casts, to run
//	                 tile by tile
//	epilogue.go      joins a matrix product and the elementwise step that reads it:
//	                 bias, activation, residual
//
// Passes marked (*) may change the last bits of results. All others keep every bit, and
// so does the number of threads of an engine. Options.NoFuse leaves all passes out.
//
// A barrier (tensor.OpBarrier) divides a program into eras, so that a program can compute
// a value again instead of keeping it: cse.go does not reuse results of an earlier era,
// tiles.go moves no operation to an earlier era, and joinpads.go, normgrad.go,
// lossgrad.go, halfrows.go, tilefold.go, epilogue.go and adamwproduct.go join no steps of
// different eras. attention.go joins none forward and none backward.
//
// Third, memory.go assigns memory. A kept result gets a buffer of its own; a temporary
// gets a place in one arena, according to its lifetime. An elementwise step overwrites an
// operand that no later step reads, and a kept result takes the memory of a donated
// input. Stats has the size of the arena and its lower bound.
//
// Work (work.go) estimates what a plan takes to run, so that an engine can refuse a small
// program that would run for years. Compile's own time depends on the number of
// instructions and dims, never on the size of a dim.
package compile
