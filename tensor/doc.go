// Package tensor is the API of ringside: tensors with the operations of NumPy and
// PyTorch, recorded into programs that an Engine runs, in this process or another one.
//
//	sess, err := client.Open(ctx, nil)       // a running dispatcher, else in-process
//	a := tensor.From(sess, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
//	b := tensor.RandN(sess, tensor.F32, 3, 4)
//	y := a.Matmul(b).ReLU().Mean(-1)         // nothing has run yet
//	v, err := tensor.Data[float32](y)        // one message there, one answer back
//
// # Recording
//
// An operation infers the dtype and shape of its result, appends an instruction to the
// session's Program and returns a handle. It does no I/O. A sync point (Item, Data, View,
// Sync) sends the program. Intermediates that are released before (Scope, Free) are never
// stored. The identity of a program is its structure: the step of a training loop has the
// same Hash each time, whatever its learning rate, and is sent once.
//
// # Values and names
//
// A value never changes. Assign binds a handle to another value. Results computed from
// the old value are unaffected, and the engine reuses its memory when no handle keeps it.
//
// # Interactive use
//
// An operation whose result is read at once is a program of one instruction, which is
// compiled once however often it comes back. It costs a round trip to the worker and the
// operation itself; `ringside bench eager` measures it. Release such results with a
// Scope, or leave them to the garbage collector: the session runs it when the bytes of
// values that only the collector can free have doubled, or have grown by a quarter of
// what the session may hold, and are at least 64 MiB. Where there is no memory, it runs
// the collector and tries once more; the error names the largest tensors and the lines
// that made them. A program that updates tensors in place, or comes with new uploads, is
// not tried again.
//
//	x := tensor.RandN(sess, tensor.F32, 1000)
//	m, _ := x.Mean().Item()                    // one round trip
//	v, _ := tensor.Data[float32](x.Narrow(0, 0, 5))
//
// # Numbers of 16 bits
//
// F16 and BF16 are for storage. An operation that computes widens its operands to F32 and
// rounds its result. The recorder adds these casts as instructions, and the engine fuses
// them with their neighbours. Weights of an F16 or BF16 file can be used as stored, or
// cast where they are read (w.Cast(tensor.F32)), which autograd undoes.
//
// # Errors
//
// Shape and dtype errors are found while recording, with the file and line of the call.
// The result of such an operation is a tensor that stands for the error. The first error
// sticks to the session until ClearErr, so one check at the end of a computation is
// enough. Errors while running come back at the next sync point in the same form.
// Values that depend on the operation stand for its error then, also those that Assign
// bound; other values are as if it had not been recorded. A program that fails for
// another reason (no memory), or on a GPU, leaves none of its results. Assign gives a
// tensor that was lost a value again.
//
// # Files
//
//	dtype.go shape.go      element types and shapes; shapes.go those of a session, once
//	op*.go infer*.go       the op table and its inference; docs/ops.md is made from it
//	program.go encode*.go  programs, their bytes and their hash
//	recording.go           the program under construction; promote.go its casts
//	scalars.go             the table of its scalars
//	failures.go            values that do not exist because a program failed
//	session.go apply.go    flushing, errors; value.go the lifetime of results
//	callsite.go            where in the user's code an operation was called, for errors
//	scope.go node.go       Scope, Assign; the graph that package autograd walks
//	space.go               one more try without memory, and what an error says of it
//	tensor.go bytes.go     handles, uploads, reads, gradients that Backward leaves
//	show.go                content as text, as NumPy prints it
//	create.go fill.go      tensors of constants, of bytes; random.go of random numbers
//	signal.go              names for parts of a program, for placements
//	tape.go                the program being recorded, and where a tensor is
//	saver.go lost.go       values written to files; the names of lost tensors
//	ops_*.go               the operations as methods
//	engine.go              the interface of an engine
package tensor
