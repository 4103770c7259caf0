package wire

import "fmt"

// Code is the reason for which a run or a session failed.
type Code uint32

const (
	CodeOK             Code = 0 // no failure
	CodeUnknownProgram Code = 1 // unused: a Body precedes the first Run
	CodeBadProgram     Code = 2 // the program does not pass the worker's checks
	// an id that no run or upload of this session made, or freed already
	CodeUnknownID  Code = 3
	CodeNoMemory   Code = 4 // out of memory; the worker itself is well
	CodeQuota      Code = 5 // the session's own limit
	CodeEngine     Code = 6 // the engine failed while running
	CodeProtocol   Code = 7 // the peer broke the protocol
	CodeWorkerGone Code = 8 // the worker died or was stopped
	CodeNoWorker   Code = 9 // there is no worker for the session
	// an op, dtype or placement that the engine does not have
	CodeUnsupported Code = 10
	CodeShutdown    Code = 11 // the dispatcher stops
	CodeInternal    Code = 12 // a bug at the peer
	CodeIndex       Code = 13 // an index in a tensor is out of range
	CodeShape       Code = 14 // shapes, dims or counts do not fit
	CodeDType       Code = 15 // an element type that the operation does not accept
	CodeNameTaken   Code = 16 // another worker has that name
	CodeStopped     Code = 17 // the program was stopped
	CodeWork        Code = 18 // the program has more work than the worker takes
)

// String returns the reason in words.
func (c Code) String() string {
	names := [...]string{"ok", "unknown program", "bad program", "unknown id", "out of memory",
		"quota exceeded", "engine failed", "protocol error", "worker gone", "no worker", "unsupported",
		"shutting down", "internal error", "index out of range", "wrong shape", "wrong dtype", "name taken",
		"stopped", "too much work"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("code %d", uint32(c))
}
