package metrics

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// Counters of a dispatcher and of a worker.
const (
	Sessions = "sessions" // open now
	Opened   = "opened"   // sessions since the start
	Failed   = "failed"   // of these, not ended by their client
	Messages = "messages" // forwarded; of a worker, handled while it was watched
)

// Counters of a dispatcher. OfWorker makes its names for PID, Sessions, Messages, Bytes,
// Queued, Occupied and Far of a worker.
const (
	PID         = "pid"
	Clients     = "clients"
	Workers     = "workers"
	Waiting     = "waiting"      // open sessions that have no worker yet
	Bytes       = "bytes"        // forwarded
	TensorBytes = "tensor_bytes" // of these, bytes of tensors
	Descriptors = "descriptors"  // forwarded
	Blocked     = "blocked"      // times that a worker's queue had no room
	Queued      = "queued"       // messages kept for a client; bytes kept for a worker
	Paused      = "paused"       // times that a worker had enough to do for a session
	Refused     = "refused"      // peers that were refused
	Turns       = "turns"        // turns given to sessions of several workers
	Occupied    = "busy"         // 1 for a worker whose sessions wait for a long program
	Far         = "far"          // 1 for a worker that shares no memory with it
	DeviceBytes = "device_bytes" // memory of a worker's device; 0: not known
	DeviceUsed  = "device_used"  // of this, by values; a worker says more exactly
)

// Counters of a worker. Those of operations are made by OfOp.
const (
	Runs          = "runs"           // batches
	Errors        = "errors"         // of these, failed
	Programs      = "programs"       // received
	PlanHits      = "plan_hits"      // runs of programs that had been run before
	Imports       = "imports"        // uploads read in place
	Results       = "results"        // values handed out as handles
	Collectives   = "collectives"    // calls among the workers of a session
	MovedBytes    = "moved_bytes"    // sent in them
	TransfersPeer = "transfers_peer" // sends to a stage, by GPUs
	TransfersHost = "transfers_host" // and by host memory
	Rewritten     = "rewritten"      // programs rewritten for several workers
	BusyTime      = "busy_ns"        // spent on messages while the worker was watched
	WaitingTime   = "waiting_ns"     // of this, in collectives
	Backlog       = "backlog"        // messages whose session is not next
	BacklogBytes  = "backlog_bytes"
	ArenaBytes    = "arena_bytes" // memory of results
	ArenaInUse    = "arena_in_use"
	ProgramsKept  = "programs_kept" // held by sessions
	ProgramBytes  = "program_bytes" // of these, encoded
	Plans         = "plans"         // kept for later sessions too
	PlanBytes     = "plan_bytes"    // of their programs, encoded
	PlansShared   = "plans_shared"  // found in the cache
	PlansCompiled = "plans_compiled"
	PlansEvicted  = "plans_evicted" // dropped for others
	Launches      = "launches"      // of kernels on the device, but for those in graphs
	Captures      = "captures"      // of graphs
	Replays       = "replays"       // launches of graphs
	HostSteps     = "host_steps"    // steps that a device left to the host
	UpBytes       = "up_bytes"      // copied to the device
	DownBytes     = "down_bytes"    // copied from it
	DriverCalls   = "driver_calls"  // of the device's driver
	IPCOpens      = "ipc_opens"     // segments of other processes, on the device
)

const (
	workerPrefix = "worker."
	opPrefix     = "op."
	pathPrefix   = "path."
)

// OfWorker returns the name of a dispatcher's counter of one worker.
func OfWorker(worker, counter string) string {
	return workerPrefix + worker[:min(len(worker), wire.MaxName/2)] + "." + counter
}

// OfOp returns the name of a worker's counter of the instructions of one operation.
func OfOp(op string) string { return opPrefix + op }

// Path is how a worker reaches another worker of a session.
type Path struct {
	Session  uint64 // the dispatcher's number
	From, To int    // ranks in the session
	Reach
}

// Reach is how two workers reach each other.
type Reach struct {
	Shared bool // they share host memory; otherwise their bytes go by TCP
	Near   bool // each one's device reaches the memory of the other's

	// Obstacle is why two workers on GPUs are not Near.
	Obstacle device.Obstacle
}

// Value returns r as the value of a counter.
//
//	bit 0: Shared   bit 1: Near   bits 8 to 15: Obstacle
func (r Reach) Value() (v uint64) {
	if r.Shared {
		v |= 1
	}
	if r.Near {
		v |= 2
	}
	return v | uint64(r.Obstacle)<<8
}

// OfPath returns the name of a worker's counter of how it, of rank from, reaches rank to
// of a session. Its value is that of a Reach.
func OfPath(session uint64, from, to int) string {
	return fmt.Sprintf("%s%d.%d.%d", pathPrefix, session, from, to)
}

// PathsOf returns how a worker reaches the other workers of its sessions.
func PathsOf(c wire.Counters) (out []Path) {
	for _, x := range c {
		var p Path
		if n, _ := fmt.Sscanf(x.Name, pathPrefix+"%d.%d.%d", &p.Session, &p.From, &p.To); n == 3 {
			p.Reach = Reach{Shared: x.Value&1 != 0, Near: x.Value&2 != 0, Obstacle: device.Obstacle(x.Value >> 8)}
			out = append(out, p)
		}
	}
	return out
}

// WorkersOf returns the names of the workers that a dispatcher has.
func WorkersOf(c wire.Counters) []string {
	var names []string
	for _, x := range c {
		if name, ok := strings.CutPrefix(x.Name, workerPrefix); ok {
			if name, ok = strings.CutSuffix(name, "."+PID); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// The counter of a worker whose name holds that of its device.
const (
	devicePrefix = "device."
	deviceSuffix = ".name"
)

// OfDevice returns the name of the counter of a worker on a device of that name. Its
// value is the device's kind.
func OfDevice(worker, device string) string {
	return OfWorker(worker, devicePrefix+device[:min(len(device), wire.MaxName/4)]+deviceSuffix)
}

// DeviceOf returns the name of a worker's device, or nothing if no counter says it.
func DeviceOf(c wire.Counters, worker string) string {
	name, _ := FindDevice(c, worker)
	return name
}

// FindDevice is DeviceOf, and reports whether a counter says the name, as of every worker
// that takes sessions.
func FindDevice(c wire.Counters, worker string) (name string, ok bool) {
	for _, x := range c {
		if name, ok := strings.CutPrefix(x.Name, OfWorker(worker, devicePrefix)); ok {
			if name, ok = strings.CutSuffix(name, deviceSuffix); ok {
				return name, true
			}
		}
	}
	return "", false
}
