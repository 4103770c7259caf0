package wire

import "fmt"

// Code says why a run or a session failed.
type Code uint32

const (
	CodeOK             Code = 0  // it did not
	CodeUnknownProgram Code = 1  // kept free: a Body goes ahead of the first Run, so nobody need ask
	CodeBadProgram     Code = 2  // the program does not pass the worker's checks
	CodeUnknownID      Code = 3  // an id that no run or upload of this session made, or freed already
	CodeNoMemory       Code = 4  // out of memory; the worker itself is well
	CodeQuota          Code = 5  // the session's own limit
	CodeEngine         Code = 6  // the engine failed while running
	CodeProtocol       Code = 7  // the peer broke the protocol
	CodeWorkerGone     Code = 8  // the worker died or was stopped
	CodeNoWorker       Code = 9  // nobody is there to run it
	CodeUnsupported    Code = 10 // op, dtype or placement that this engine has not
	CodeShutdown       Code = 11 // the dispatcher is going down
	CodeInternal       Code = 12 // a bug at the peer
	CodeIndex          Code = 13 // an index in a tensor is outside of what it indexes
	CodeShape          Code = 14 // shapes, dims or counts do not fit
	CodeDType          Code = 15 // an element type that the operation does not take
	CodeNameTaken      Code = 16 // another worker has that name
)

func (c Code) String() string {
	names := [...]string{"ok", "unknown program", "bad program", "unknown id", "out of memory", "quota exceeded",
		"engine failed", "protocol error", "worker gone", "no worker", "unsupported", "shutting down", "internal error", "index out of range",
		"wrong shape", "wrong dtype", "name taken"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("code %d", uint32(c))
}

// CutText shortens an error's text to what a message may carry.
func CutText(s string) string {
	if len(s) <= MaxText {
		return s
	}
	const mark = "…"
	n := MaxText - len(mark)
	for n > 0 && s[n]&0xC0 == 0x80 { // do not cut inside a character
		n--
	}
	return s[:n] + mark
}
