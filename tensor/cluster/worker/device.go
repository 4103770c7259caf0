package worker

import (
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
)

// Device is what a worker runs programs on. It is used by one goroutine.
type Device interface {
	// Name says what it is: "cpu avx512".
	Name() string
	// Arena is where its values lie.
	Arena() *shm.Arena
	// Compile makes a program ready. encoded is not kept. tensor.ErrProgram if it is malformed.
	Compile(hash tensor.Hash, encoded []byte) (Program, error)
	// Open makes room for the values of one session.
	Open() Space
	// Close gives everything back.
	Close() error
}

// PlanCache is implemented by a Device that keeps what it compiled, for the sessions of all clients.
type PlanCache interface {
	PlanStats() PlanStats
}

// PlanStats are the counters of a device's cache of compiled programs. A session brings a program once: what it runs again
// needs no look into the cache.
type PlanStats struct {
	Hits, Misses, Evicted uint64 // found, compiled, given up for others
	Plans, Bytes          int    // that are there; of their programs, encoded
}

// Program is what a device made of a program; its own spaces take it.
type Program interface {
	// Parsed is the program.
	Parsed() *tensor.Program
}

// Space holds the values of one session on a device.
type Space interface {
	// Import makes a value of a block that somebody else filled, and takes over one reference,
	// also if it fails. The block may be a client's: read only, and changing under the reader's eyes.
	// Bools must be 0 or 1: tensor.ErrDType.
	Import(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block) error
	// Run runs a program over values that exist. After an error its results do not exist and its
	// inputs are as before; donated inputs are freed in any case.
	Run(p Program, base uint64, inputs []uint64, scalars []float64) error
	// Free frees a value. An unknown id is ignored.
	Free(id uint64)
	// Lookup finds a value; false when there is none.
	Lookup(id uint64) (Value, bool)
	// Close frees all values.
	Close()
}

// Value is where a value lies: at the start of Block, dense and in row-major order. Block is nil
// for a value of no bytes, and read only for one that lies in a client's memory.
type Value struct {
	DType tensor.DType
	Shape tensor.Shape
	Block *shm.Block
}

// bytes is how many the value has.
func (v *Value) bytes() int { return v.Shape.Elems() * v.DType.Size() }
