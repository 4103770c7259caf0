package client

import "github.com/ringside-go/ringside/tensor/cluster/internal/wire"

// The answers of a dispatcher and its workers are the messages in which they come.
type (
	// Counters is a list of named numbers: "clients", "workers", "messages",
	// "worker.w0.runs".
	Counters = wire.Counters

	// Question is what [Monitor.Ask] asks workers. The dispatcher sets Ask.
	Question = wire.Watch

	// Training is how far a training run is: [Monitor.Tell] tells the dispatcher,
	// [Monitor.AskAll] asks for all.
	Training = wire.Training

	// TrainingPoint is a loss of a Training.
	TrainingPoint = wire.TrainingPoint

	// WorkerReport is a worker's answer to [Monitor.Ask].
	WorkerReport = wire.Watched

	// WorkerSession is a worker's record of one of its sessions.
	WorkerSession = wire.WatchedSession

	// Event is something that a worker did.
	Event = wire.Event
)

// Limits of a Training.
const (
	MaxPoints = wire.MaxPoints // points of its curve
	MaxText   = wire.MaxText   // bytes of its sample
)

// Kinds of event.
const (
	EventMessage    = wire.EventMessage
	EventProgram    = wire.EventProgram
	EventCollective = wire.EventCollective
	EventOverlapped = wire.EventOverlapped
	EventStep       = wire.EventStep
	EventCompile    = wire.EventCompile
	EventAside      = wire.EventAside
	EventSent       = wire.EventSent
	EventSubmit     = wire.EventSubmit
	EventWait       = wire.EventWait
	EventUpload     = wire.EventUpload
	EventRead       = wire.EventRead
	EventFree       = wire.EventFree
)
