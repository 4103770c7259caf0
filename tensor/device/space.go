package device

import (
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
)

// Space holds the values of one session on a device, each under an id that the caller
// chooses. One goroutine at a time uses a space; different spaces of one device may be
// used at the same time.
//
// A value is dense and in row-major order. Its dtype and shape never change; its bytes
// change only where Fill says so.
//
// The errors are those of package tensor. ErrUnknown is returned when an id that must
// exist does not, or when one that is to be made exists; ErrNoSpace when the device has
// no memory for a value.
type Space interface {
	// Import makes a value of a host block: its first bytes, as many as dtype and shape
	// need. b is nil for a value of no bytes. The space takes over one reference to b,
	// also when it returns an error, and releases it when it needs the bytes no longer:
	// in this or a later call of the space. No code writes to the block meanwhile except,
	// at its own risk, a peer that b is mapped from: the value is then made of some of
	// the bytes that the block had.
	//
	// own says that the value is going to be updated: the device puts it in memory that
	// it may write to. Without it the value may stay in b. ErrShape is returned when b is
	// too short, ErrDType when a byte of a bool is neither 0 nor 1.
	Import(id uint64, d tensor.DType, s tensor.Shape, b *shm.Block, own bool) error

	// Make makes a value whose bytes are undefined until Fill. All that can fail fails
	// here, so that a caller can make sure of a value's memory before it knows the value.
	Make(id uint64, d tensor.DType, s tensor.Shape) error

	// Fill copies src into a value that Make made and that nothing has read yet. src is
	// the caller's again when Fill returns. It fails only by a mistake of the caller:
	// ErrUnknown, ErrShape when the length of src is not that of the value, ErrDType when
	// a byte of a bool is neither 0 nor 1.
	Fill(id uint64, src []byte) error

	// Alias makes a second value of what id holds. Both may share memory until one of
	// them is updated.
	Alias(as, id uint64) error

	// Run runs a program. inputs are the ids of its external inputs, in their order;
	// scalars its numbers. The result of instruction i, if it is kept, has the id base+i.
	// Donated inputs are freed whether or not the program succeeds; all other inputs stay
	// as they are.
	//
	// Run may return before the program has run; its results exist for later calls at
	// once. Run itself returns ErrUnknown for an input that does not exist,
	// ErrProgram when the arguments are not as the program has them or the id of a
	// result exists, ErrNoSpace, or a *tensor.RunError that names the instruction
	// which failed. No result exists then, unless the error is a *Failure with Rest.
	// An error that is found after Run has returned is a *Failure of the next Sync,
	// Host or Read.
	//
	// Any goroutine may set stop while the program runs or waits to run. It then ends
	// within milliseconds with an error that is tensor.ErrStopped, unless it has ended
	// already. A nil stop is never set.
	Run(p Program, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool) error

	// Sync waits until everything before has run. It returns a *Failure if a program has
	// failed since the last call that reported one: the oldest of them, which has those
	// of the others up to the call in More. None is reported twice.
	Sync() error

	// Host returns the bytes of values in host memory, as they are after everything
	// before has run: for each id a block of the device's Arena with a reference for the
	// caller, whose first bytes are the value's, and nil for a value of no bytes. A value
	// that was imported and that the device left in place is in the block that was
	// imported, which is not of Arena then and may be ReadOnly. The slice is valid until
	// the space's next call other than Lookup.
	//
	// The bytes stay as they are until the caller's Release, whatever becomes of the
	// value. The caller may write to a block that it has alone: one that is not ReadOnly
	// and has no other reference, such as the space's own, which ends when the value is
	// freed.
	//
	// ErrUnknown is returned for an id that does not exist, and a *Failure as by Sync;
	// then no reference was taken.
	Host(ids ...uint64) ([]*shm.Block, error)

	// Read returns n bytes of a value from offset off on, as they are after everything
	// before has run. They are valid until the space's next call other than Lookup, and
	// only to be read. It serves writers of files, which need a value once and piece by
	// piece; its errors are those of Host, and ErrShape for a range that the value does
	// not have.
	Read(id uint64, off, n int) ([]byte, error)

	// Lookup returns what is known of a value without its bytes, and false for an id that
	// does not exist. It never waits: a result of a program that is yet to run exists.
	Lookup(id uint64) (Value, bool)

	// Free frees a value. An id that does not exist is ignored: it belonged to a program
	// that failed.
	Free(id uint64)

	// FreeUnread may free those of ids that are none of inputs, the inputs of the program
	// that runs next, so that its results find room where they were. The caller frees all
	// of ids with Free later.
	FreeUnread(ids, inputs []uint64)

	// Close frees all values. Programs that are still to run may be left out.
	Close()
}

// Value describes a value of a space.
type Value struct {
	DType tensor.DType
	Shape tensor.Shape // read only
}

// Bytes returns how many bytes the value has.
func (v Value) Bytes() int { return v.Shape.Elems() * v.DType.Size() }

// Failure is the error of a program that failed. If Run had accepted the program, the
// call that returns it waits for all programs before. From then on values that failures
// prevented are gone, and Lookup finds none of them: results of the program, as its Rest
// says, and those of later programs that read them. Until then calls that name them are
// accepted. Other values are as if nothing had failed, and the space goes on.
type Failure = tensor.Failure
