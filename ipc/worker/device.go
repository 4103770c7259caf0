package worker

import (
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
)

// Device is what a worker runs programs on. It is used by one goroutine.
type Device interface {
	// Name says what it is: "cpu avx512 2 threads".
	Name() string
	// Arena is where its results lie.
	Arena() *shm.Arena
	// Open makes room for the values of one session, of at most quota bytes; 0: no limit.
	Open(quota uint64) Space
	// Close gives everything back.
	Close() error
}

// Space holds the values of one session on a device.
type Space interface {
	// Import makes a value over memory that somebody else owns and that is only read. release
	// is called once when the value needs it no more; not when Import fails.
	Import(id uint64, d tensor.DType, shape tensor.Shape, mem []byte, release func()) error
	// Run runs a program, as a Batch says: after an error its results do not exist, its
	// inputs are as before, and donated inputs are freed.
	Run(p *Program, base uint64, inputs []uint64, scalars []float64) error
	// Free frees values. An unknown id is ignored.
	Free(ids []uint64)
	// Lookup finds a value: tensor.ErrUnknown, naming the id.
	Lookup(id uint64) (Value, error)
	// Close frees all values.
	Close() error
}

// Program is a program that a session sent.
type Program struct {
	Hash    tensor.Hash
	Encoded []byte
	Parsed  *tensor.Program
}

// Value is where a value lies.
type Value struct {
	DType tensor.DType
	Shape tensor.Shape
	Bytes []byte
	// Block holds Bytes when they are the arena's; nil for an imported value.
	Block *shm.Block
}
