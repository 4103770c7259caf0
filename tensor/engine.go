package tensor

import "context"

// Buffer is memory of an engine that the client fills: what an upload is made of.
type Buffer interface {
	// Bytes is the memory, of the length that was asked for.
	Bytes() []byte
	// Release gives up the caller's claim. An engine holds its own while it needs the bytes.
	Release()
}

// Upload is a value that the client made from its own data.
type Upload struct {
	ID    uint64
	DType DType
	Shape Shape
	Buf   Buffer // nil for a value of no bytes

	// Signal is the tensor's own, or that of the scope it was made in; the zero value for none.
	Signal Signal
	// Own says that the value is going to be updated in place: the engine wants it in memory of its own, not in the client's.
	Own bool
}

// Fetched is a value that a Batch asked for. Bytes is its row-major content; on one host it is the worker's own
// memory, so it is never written, and it is valid until Release, which must be called exactly once. The worker does
// not write to it while it is held: an in-place update of the value goes elsewhere.
type Fetched struct {
	DType   DType
	Shape   Shape
	Bytes   []byte
	Release func()
}

// Batch is what a session hands an engine: uploads come to exist, then the program runs, then ids are freed; those that the
// program doesn't read may be before.
//
// The result of instruction i has the id Base+i if it is kept. Inputs are the ids of the program's external inputs in
// their order; a donated one no longer exists afterwards. A batch that fails changes nothing else: its results don't exist,
// its inputs are as before, its uploads exist but for those that failed themselves, and what it meant to free is freed.
//
// The engine reads the batch during Submit only; what it keeps it copies.
type Batch struct {
	Program *Program // nil: nothing to run
	Encoded []byte   // the program's encoding, whose hash is Hash
	Hash    Hash
	Base    uint64
	Scalars []float64
	Inputs  []uint64
	Uploads []Upload
	Frees   []uint64
	Fetch   []uint64 // values to bring, in this order
	Sync    bool     // wait until it has run, also if nothing is fetched
}

// Expecter is implemented by an Engine that gains by knowing of a batch before it is complete: it may wake whoever is to run it.
type Expecter interface {
	// Expect says that a Submit with a program follows at once. It is called as Submit is.
	Expect()
}

// Engine runs programs for one session. Methods are called by one goroutine at a time; Close may be called from any.
//
// Implementations: tensor/cpu runs them here, tensor/cluster/client has others run them. enginetest holds what every one must do.
type Engine interface {
	// Name says what it is and where: "cpu avx512 2 threads", "worker w0 by /run/...".
	Name() string
	// Alloc returns n bytes for an upload. It fails with ErrNoSpace.
	Alloc(n int) (Buffer, error)
	// Submit runs b after everything submitted before. Without Fetch and Sync it may return before b has run; an error
	// found later is returned by the next Submit that has one of them. With Fetch it returns as many values, in order.
	// After an error that unwraps to ErrClosed or names a dead peer the engine is of no more use; after any other it goes on.
	Submit(ctx context.Context, b *Batch) ([]Fetched, error)
	// Close frees everything the session held. It is safe to call twice.
	Close() error
}
