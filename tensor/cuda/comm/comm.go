package comm

import (
	"errors"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// Type is the type of elements.
type Type uint8

// The types.
const (
	U8 Type = iota + 1
	I32
	I64
	F16
	BF16
	F32
	F64
)

// Op is how two elements become one. The order in which those of all ranks are folded is
// the library's, and sums of F16 and BF16 may be rounded after each step. All ranks have
// the same bits.
type Op uint8

// The operations.
const (
	Sum Op = iota + 1
	Prod
	Max
	Min
)

// Kind is what a call does.
type Kind uint8

// The kinds. Root and Peer are Call.Peer.
const (
	AllReduce     Kind = iota + 1 // folds Count elements of all ranks
	AllGather                     // Dst has Count elements of each rank, by rank
	ReduceScatter                 // folds; Src has Count elements for each rank, by rank
	Broadcast                     // Count elements of the root
	Reduce                        // folds Count elements of all ranks, for the root alone
	Send                          // Count elements to the peer, which makes a Recv
	Recv                          // Count elements of the peer, which makes a Send
)

// Call is a call of one rank. All ranks make the same calls in the same order, but for
// Send and Recv.
type Call struct {
	Kind     Kind
	Src, Dst driver.DevicePtr // of a fold they may be the same
	Count    int              // of elements, more than 0
	Type     Type
	Op       Op  // of those that fold
	Peer     int // a rank
}

// IDSize is the bytes of an ID.
const IDSize = 128

// ID names a communicator that is made. One rank makes it and gives it to the others.
type ID [IDSize]byte

// Info describes a library.
type Info struct {
	Name    string // "NCCL 2.21.5"
	Path    string // its file
	Version int    // the library's own number
}

// ErrBusy is returned by Ready while something that was begun goes on.
var ErrBusy = errors.New("the communicator is busy")

// ErrNoLibrary is returned where there is no library to load.
var ErrNoLibrary = errors.New("no library of collectives")

// Library is a library that is loaded.
type Library interface {
	// Info describes the library.
	Info() Info
	// NewID makes the ID of a communicator. It is of use while this process lives.
	NewID() (ID, error)
	// Join begins to make the communicator of an ID, of which this process becomes a
	// rank, with the device of the current context. It does not wait for the others:
	// Ready reports when they have joined.
	Join(id ID, rank, size int) (Comm, error)
}

// Comm is one rank of a communicator. No method waits for other ranks. One goroutine at a
// time calls them, with the context current in which Join was called.
type Comm interface {
	// Ready returns nil when all that was begun on the host is done, ErrBusy before, and
	// an error where it failed. Nothing but Abort is called before it returned nil.
	Ready() error
	// Do begins to put calls into a stream, as one piece of work, which runs when all
	// ranks have put theirs.
	Do(calls []Call, s driver.Stream) error
	// Finish begins to end the communicator. Nothing is on its way.
	Finish() error
	// Close gives the communicator back after Finish.
	Close() error
	// Abort ends work on its way, whose results are then of no use, and gives the
	// communicator back. The other ranks are not told.
	Abort() error
}
