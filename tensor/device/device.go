package device

import (
	"fmt"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
)

// Device compiles and runs programs and has the memory of their values. All methods may
// be called by any goroutine, also at the same time; programs of several spaces run one
// after another or together, as the device can.
type Device interface {
	// Info describes the device. It is the same at every call.
	Info() Info

	// Arena returns the host memory of the device: uploads are copied into its blocks,
	// Host returns blocks of it, and staging buffers come from it. Values of a device
	// that computes in host memory lie there too.
	Arena() *shm.Arena

	// Compile makes an encoded program ready to run, or finds it in the device's cache.
	// hash is the one of encoded, which is not kept. ErrProgram of package tensor is
	// returned when encoded is malformed or has another hash, and ErrWork when the
	// program has more work than the device takes.
	Compile(hash tensor.Hash, encoded []byte) (Program, error)

	// Open returns an empty space for the values of one session.
	Open() Space

	// Stats returns the device's counters.
	Stats() Stats

	// Trim gives the machine back what nothing has used since the call before it:
	// temporaries, scratch memory, and segments of Arena without a block in use, except
	// those for which keep returns true. It waits for a program that runs. keep must not
	// call the device.
	Trim(keep func(segment uint64) bool)

	// Close gives all memory back. The device's spaces are closed before. Blocks of Arena
	// that are still referenced stay mapped until their last Release.
	Close() error
}

// Program is a compiled program. The spaces of the device that compiled it run it, any
// number of times.
type Program interface {
	// Parsed returns the program that was compiled. It is read only.
	Parsed() *tensor.Program
}

// Info describes a device.
type Info struct {
	// Name says what the device is, for people: "cpu avx512 2 threads", "cuda0 NVIDIA
	// H100 80GB HBM3 sm_90".
	Name string

	Kind Kind

	// ID tells devices of one kind apart across processes: a GPU's UUID, zeros for cores.
	ID [16]byte

	// Bytes is how much memory values may take together; 0 means as much as the machine
	// has.
	Bytes uint64

	// Flops is the speed of f32 matrix products in floating-point operations a second,
	// and Bandwidth that of memory in bytes a second. 0 means that it is not known.
	// Placements are priced by both.
	Flops, Bandwidth float64
}

// Kind is a kind of device. A session runs on devices of one kind unless its client asks
// for several, because results of different kinds may differ in their last bits.
type Kind uint8

// The kinds of devices. Their numbers travel between processes. 0 is no kind: a request
// that holds it takes any.
const (
	CPU  Kind = 1
	CUDA Kind = 2
)

var kinds = [...]string{CPU: "cpu", CUDA: "cuda"}

// Valid reports whether k is one of the kinds above.
func (k Kind) Valid() bool { return k > 0 && int(k) < len(kinds) }

// String returns the kind's name, in lower case.
func (k Kind) String() string {
	if !k.Valid() {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kinds[k]
}

// ParseKind returns the kind with that name.
func ParseKind(name string) (Kind, error) {
	for k := CPU; k.Valid(); k++ {
		if kinds[k] == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("device: kind %q, expected one of %v", name, kinds[CPU:])
}

// Stats are a device's counters.
type Stats struct {
	Hits      uint64 // programs that Compile found in the cache
	Misses    uint64 // programs that it compiled
	Evicted   uint64 // programs that were dropped from the cache for others
	Plans     int    // programs in the cache
	PlanBytes int    // bytes of their encodings
	Runs      uint64 // programs that were run

	Work Work // of a device that is not the cores

	Arena  shm.ArenaStats // of Device.Arena
	Values shm.ArenaStats // of the memory of values: the same where that is Device.Arena
}

// Work counts what a device did that values and programs are copied to.
type Work struct {
	Launches  uint64 // of kernels, but for those in graphs
	Captures  uint64 // of graphs: kernels that are launched together from then on
	Replays   uint64 // launches of graphs
	HostSteps uint64 // steps of programs that ran on the host instead
	Up, Down  uint64 // bytes copied to the device and from it

	// Calls of the driver, but for those that say which context a thread has or ask
	// whether work is done. They are of all devices of the process.
	Calls uint64
	Opens uint64 // segments of other processes that were opened
}

// Losable is implemented by a Device that a process can lose for good, as a GPU is lost
// after an access to a bad address. The process has to end then.
type Losable interface {
	// Lost returns nil, or why the device is of no use to this process any more.
	Lost() error
}

// Prompt is implemented by a Device that computes during Run: the program has run when
// Run returns, so that Sync, Host and Read never wait.
type Prompt interface {
	// Prompt does nothing: it says that the above holds.
	Prompt()
}
