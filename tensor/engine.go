package tensor

import "context"

// Buffer is an engine's memory that the client fills with the bytes of an upload.
type Buffer interface {
	// Bytes returns the memory, of the requested length.
	Bytes() []byte
	// Release drops the caller's reference. An engine holds its own while it needs the
	// bytes.
	Release()
}

// Upload is a value made from the client's data.
type Upload struct {
	ID    uint64
	DType DType
	Shape Shape
	Buf   Buffer // nil for a value of no bytes

	// Signal is the signal of the tensor, or of the scope that it was made in; zero for
	// none.
	Signal Signal
	// Own marks a value that will be updated in place, so the engine should store it in
	// its own memory instead of the client's.
	Own bool
}

// Fetched is a value that a Batch requested. Bytes is its row-major content, valid until
// Release, which must be called exactly once, or until Close of an engine that is a
// Lender. On one host it is the worker's memory, so it must not be written. The worker
// does not write to it before Release: an in-place update of the value goes elsewhere.
type Fetched struct {
	DType   DType
	Shape   Shape
	Bytes   []byte
	Release func()
}

// Batch is the work that a session submits: first the engine stores the uploads, then it
// runs the program, then it frees ids. It may free ids that the program does not read
// earlier.
//
// The result of instruction i has the id Base+i if it is kept. Inputs are the ids of the
// program's external inputs in order; a donated one no longer exists afterwards. If the
// program fails, its inputs are as before, and its results do not exist except where the
// error is a *Failure with Rest. Uploads exist unless they failed themselves, and Frees
// are freed.
//
// The engine reads the batch only during Submit; it copies what it needs later.
type Batch struct {
	Program *Program // nil: nothing to run
	Encoded []byte   // the encoding of Program, whose hash is Hash
	Hash    Hash
	Base    uint64
	Scalars []float64
	Inputs  []uint64
	Uploads []Upload
	Frees   []uint64
	Fetch   []uint64 // values to return, in this order
	Sync    bool     // wait until the program has run, even if nothing is fetched
}

// Expecter is implemented by an Engine that benefits from notice of a batch before it is
// complete, for example to wake the process that will run it.
type Expecter interface {
	// Expect announces that a Submit with a program follows at once. It is called as
	// Submit is.
	Expect()
}

// Bounded is implemented by an Engine that knows how much its session may hold.
type Bounded interface {
	// MaxBytes returns how many bytes of values the session may hold; 0 if that is not
	// known. A new session asks once.
	MaxBytes() uint64
}

// Unfuser is implemented by an Engine whose user has some signals run without fusion.
type Unfuser interface {
	// Unfuses reports whether programs that have the signal are to be Unfused. A session
	// asks once for each signal.
	Unfuses(signal string) bool
}

// Lender is implemented by an Engine whose fetched bytes are another process's memory,
// which it may use for something else once Close was called.
type Lender interface {
	// Closed reports whether Close was called. Bytes that were read before a call that
	// returns false are those of the value. Any goroutine may call it.
	Closed() bool
}

// Engine runs programs for one session. Its methods are called by one goroutine at a
// time, except Close, which any goroutine may call.
//
// tensor/cpu implements it in this process, tensor/cluster/client by workers. Package
// enginetest tests every implementation.
type Engine interface {
	// Name describes the engine and its place: "cpu avx512 2 threads", "worker w0 by
	// /run/...".
	Name() string
	// Alloc returns n bytes for an upload, or ErrNoSpace.
	Alloc(n int) (Buffer, error)
	// Submit runs b after everything submitted before. Without Fetch and Sync it may
	// return before b has run; a later error is then returned by the next Submit with one
	// of them. With Fetch it returns that many values, in order. After an error that
	// unwraps to ErrClosed or names a dead peer the engine cannot be used any more; after
	// other errors it can.
	Submit(ctx context.Context, b *Batch) ([]Fetched, error)
	// Close frees everything the session held. It is safe to call twice.
	Close() error
}
