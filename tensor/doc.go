// Package tensor is what a user of ringside writes: tensors with the operations that NumPy and PyTorch have, recorded
// into programs that an Engine runs, here or in another process.
//
//	sess, err := client.Open(ctx, nil)         // a running dispatcher, else in this process
//	a := tensor.From(sess, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
//	b := tensor.RandN(sess, tensor.F32, 3, 4)
//	y := a.Matmul(b).ReLU().Mean(-1)           // nothing has run yet
//	v, err := tensor.Data[float32](y)          // one message there, one answer back
//
// # Recording
//
// An operation infers its result's dtype and shape, appends an instruction to the session's Program and returns a
// handle. It does no I/O and asks nobody. A sync point (Item, Data, View, Sync) sends the program; what only served as
// an intermediate (Scope, Free) never exists anywhere. A program is identified by its structure alone: the same step of
// a training loop is the same Hash each time, whatever its learning rate, and travels once.
//
// # Values and names
//
// A value never changes. Assign binds a handle to another value; whatever was computed from the old one is unaffected,
// and the engine reuses its memory when nobody else needs it.
//
// # Trying things out
//
// Nothing has to be planned as a program: an operation whose result is read at once is a program of one instruction, which
// is also compiled once for all times that it comes back. It costs a round trip to the worker, some microseconds on one host, and
// the operation itself; `ringside bench eager` times it beside the same in this process. What is only looked at
// belongs into a Scope, or is left to the garbage collector.
//
//	x := tensor.RandN(sess, tensor.F32, 1000)
//	m, _ := x.Mean().Item()                    // one round trip
//	v, _ := tensor.Data[float32](x.Narrow(0, 0, 5))
//
// # Numbers of 16 bits
//
// F16 and BF16 are for storage: what computes widens its operands to F32 and rounds its result, in instructions that the
// recorder adds and the engine fuses with their neighbours. Weights of an F16 or BF16 file can be used as they are, or cast
// where they are read (w.Cast(tensor.F32)), which autograd undoes.
//
// # Errors
//
// Shape and dtype errors are found while recording, with the file and line of the call. They travel with the tensor
// that they spoil, and the first of them sticks to the session until ClearErr, so one check at the end of a computation
// is enough. Errors while running come back at the next sync point in the same form, and a program that fails changes
// nothing.
//
// # Where things are
//
//	dtype.go shape.go      element types and shapes
//	op*.go infer*.go       the op table and its inference; docs/ops.md is made from it
//	program.go encode.go   programs, their bytes and their hash
//	session.go record.go   recording, lifetimes, flushing
//	scope.go node.go       Scope, Assign; the graph that package autograd walks
//	tensor.go bytes.go     handles, uploads, reads, gradients that Backward leaves
//	create.go fill.go      making tensors
//	signal.go              names on stretches of a program, for placements
//	saver.go lost.go       values that are written to files; what a lost session had
//	ops_*.go               the operations as methods
//	engine.go              what runs programs
package tensor
