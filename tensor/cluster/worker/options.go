package worker

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// Options of a worker. The zero value and nil are the documented defaults.
type Options struct {
	// Name of the worker, unique among those of the dispatcher. Default worker-PID.
	Name string

	// Device runs the programs; the worker closes it at the end of Serve. Default the cpu
	// of this machine, see package tensor/cpu.
	Device device.Device

	// Transport dials the dispatcher. Default the first of route.Order that reaches its
	// address: TCP for host:port, and with Secret.
	Transport ipc.Transport

	// Secret is shared with a dispatcher on another host.
	Secret []byte

	// TLS is the one of ipc.Options, for conns to other hosts. nil: nothing is encrypted.
	TLS *ipc.TLS

	// Quota bounds the bytes of one session's values, and MaxMapped those of a client's
	// segments that are mapped here. 0: no limit but the machine's.
	Quota     uint64
	MaxMapped int64

	// KeepUnused is about how long memory is kept that no session uses: temporaries,
	// segments without a value, queues without a message. Default 10 s.
	KeepUnused time.Duration

	// Reconnect is how long the worker looks for another dispatcher at the same address
	// when one died, and longer while it has sessions that go on without one: those with
	// a connection of their own. 0: it ends with the dispatcher.
	Reconnect time.Duration

	// Batch is the number of messages of one session that the worker handles before it
	// looks whether another session has used less of its time. 0 is 1: sessions share as
	// fairly as they can. More have a session's plans and tensors stay in the caches, and
	// the others wait longer. Sessions of several workers keep their order.
	Batch int

	// Bind binds the worker's goroutine to one core, by its rank, while it has a session
	// whose workers are on this host and as many as there are cores. It is for a worker
	// that has a process of its own.
	Bind bool

	// Flight is the folder for the last collectives of a session that ends because one of
	// its workers died or was late, see collective.Options. Empty: none.
	Flight string

	// AllowUnsealed takes clients' segments that the client can still shrink, such as
	// those of a file system. A client that does so while the segment is read ends the
	// worker or, if the worker's own goroutine reads it, its session.
	AllowUnsealed bool

	// Logger receives sessions that are opened, closed and failed; nothing per message.
	// nil discards.
	Logger *slog.Logger
}

// withDefaults returns a copy of o with its defaults filled in. The caller owns the
// device.
func (o *Options) withDefaults() (Options, error) {
	out := *cmp.Or(o, &Options{})
	out.Name = cmp.Or(out.Name, fmt.Sprintf("worker-%d", os.Getpid()))
	out.KeepUnused = cmp.Or(out.KeepUnused, 10*time.Second)
	out.Batch = cmp.Or(out.Batch, 1)
	if len(out.Name) > wire.MaxName || out.MaxMapped < 0 || out.KeepUnused < 0 || out.Reconnect < 0 || out.Batch < 0 {
		return out, fmt.Errorf("%w: Name of %d bytes, at most %d; MaxMapped %d, KeepUnused %v, Reconnect %v and Batch %d, at least 0", ErrOption, len(out.Name), wire.MaxName, out.MaxMapped, out.KeepUnused, out.Reconnect, out.Batch)
	}
	out.Logger = cmp.Or(out.Logger, slog.New(slog.DiscardHandler))
	if out.Device == nil {
		dev, err := cpu.New(&cpu.Options{Arena: shm.ArenaOptions{Segment: Segments()}})
		if err != nil {
			return out, err
		}
		out.Device = dev
	}
	return out, nil
}

// Segments returns the options for the segments of a device's arena: clients can read
// their results in them, and neither write nor shrink them.
func Segments() shm.Options { return shm.Options{Backing: shm.Memfd, PeersRead: true} }

// Stats are a worker's counters.
type Stats struct {
	Sessions       int    // open
	Opened, Failed uint64 // sessions since the start; of these failed here
	Runs, Errors   uint64 // batches; of these failed
	Programs       uint64 // received
	Imports        uint64 // uploads read in place
	Results        uint64 // values handed out as handles
}
