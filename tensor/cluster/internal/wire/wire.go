// Package wire defines the messages of sessions: for each a type in a file of its own,
// with one function that lists its fields. [Parse] calls it, and the function by which
// [Append] encodes the message is generated from it, into appending.go (see ipc/encoding,
// whose version and limits hold here too).
//
// A message's body begins with the session's id:
//
//	offset 0   session uint64
//	offset 8   fields of the message, in the order its walk function states
//
// A client sends session 0; the dispatcher overwrites these eight bytes in place when it
// forwards ([SetSession]). In what it forwards it also sets one flag ([SetTurn]), counts
// the tensors' bytes ([Payload]) and reads addresses ([Link]).
//
// Parse fills a struct that the caller uses again: it overwrites the slices in it and
// grows them when needed, so that it allocates nothing in the steady state. Byte slices
// in a parsed message (inline values, program bytes) point into the bytes parsed and are
// valid as long as those. Append trusts its caller: the parser checks the limits.
package wire

import (
	"encoding/binary"
	"errors"

	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/shm"
)

// Kinds of message. A number is never used twice. Where a client and its worker have a
// connection of their own, messages between them use it instead of the dispatcher, except
// SessionOpened, Link, Stop and Fail. Of several workers that is the first: it passes
// Segment, Body, Run and Save on to the others, whose answers go through the dispatcher.
const (
	KindOpenSession   uint32 = 1 // client → dispatcher → worker
	KindCloseSession  uint32 = 2 // dispatcher → worker
	KindSessionOpened uint32 = 3 // worker → dispatcher → client; one descriptor or none
	// owner of a segment → receiver of handles into it; one descriptor
	KindSegment     uint32 = 4
	KindBody        uint32 = 6  // client → dispatcher → worker
	KindRun         uint32 = 7  // client → dispatcher → worker
	KindDone        uint32 = 8  // worker → dispatcher → client
	KindFail        uint32 = 9  // worker or dispatcher → client
	KindBye         uint32 = 10 // client → dispatcher
	KindStatus      uint32 = 11 // client, worker or control → dispatcher
	KindStatusReply uint32 = 12 // dispatcher → sender of the Status
	KindFlow        uint32 = 13 // worker → dispatcher
	// client → dispatcher → worker; a descriptor for each of the session's workers
	KindSave  uint32 = 16
	KindSaved uint32 = 17 // worker → dispatcher → client
	KindLink  uint32 = 18 // worker → dispatcher → client, and back
	// client → worker, on a connection of their own; a Transfer
	KindPush   uint32 = 19
	KindPull   uint32 = 20 // client → worker, likewise
	KindPushed uint32 = 21 // worker → client, likewise
	// worker → dispatcher → other workers of the session; a descriptor to the first alone
	KindMeet    uint32 = 24
	KindWatch   uint32 = 25 // control → dispatcher → all workers
	KindWatched uint32 = 26 // worker → dispatcher → sender of the Watch
	// dispatcher ↔ workers of a session, first of them → the others
	KindTurn   uint32 = 27
	KindDevice uint32 = 28 // worker → dispatcher
	KindStop   uint32 = 29 // client → dispatcher → worker
	KindHeld   uint32 = 30 // worker → dispatcher
	KindResume uint32 = 31 // client → dispatcher, and back
	// control → dispatcher, and dispatcher → sender of a Status that asks for them
	KindTraining uint32 = 32
	KindShow     uint32 = 33 // control → dispatcher → first worker of a session
	KindShown    uint32 = 34 // worker or dispatcher → sender of the Show
)

var kindNames = [...]string{
	KindOpenSession: "OpenSession", KindCloseSession: "CloseSession", KindSessionOpened: "SessionOpened",
	KindSegment: "Segment", KindBody: "Body", KindRun: "Run", KindDone: "Done", KindFail: "Fail", KindBye: "Bye",
	KindStatus: "Status", KindStatusReply: "StatusReply", KindFlow: "Flow", KindSave: "Save", KindSaved: "Saved",
	KindLink: "Link", KindPush: "Push", KindPull: "Pull", KindPushed: "Pushed", KindMeet: "Meet",
	KindWatch: "Watch", KindWatched: "Watched", KindTurn: "Turn", KindDevice: "Device", KindStop: "Stop",
	KindHeld: "Held", KindResume: "Resume", KindTraining: "Training",
	KindShow: "Show", KindShown: "Shown",
}

// KindName returns the name of a kind, for logs.
func KindName(kind uint32) string {
	if kind < uint32(len(kindNames)) && kindNames[kind] != "" {
		return kindNames[kind]
	}
	return "unknown kind"
}

// Limits. The parser refuses what is larger.
const (
	MaxName       = encoding.MaxName // bytes of a name
	MaxText       = encoding.MaxText // bytes of an error's text; senders cut theirs
	MaxRank       = 8                // dimensions of a tensor
	MaxInline     = 256              // bytes of a value within the message
	MaxScalars    = 8192             // scalars of a run
	MaxIDs        = 32768            // ids in one list of a run
	MaxUploads    = 4096             // uploads of a run
	MaxReturns    = 8192             // handles given back by one message
	MaxForget     = 1024             // program hashes forgotten by one run
	MaxResults    = 8192             // results of a run
	MaxProgram    = 1 << 24          // bytes of a program, over all its parts
	MaxExport     = 128              // bytes of a device's memory's name (CUDA: 64)
	MaxCounters   = 1024             // counters of a status reply
	MaxWorkers    = 1024             // workers of a session
	MaxSession    = 1 << 62          // number of a session that a worker tells
	MaxKey        = 64               // bytes of a key, and of a token
	MaxConfig     = 1 << 16          // bytes of a session's config
	MaxMeet       = 1 << 12          // bytes of a Meet's data
	MaxMeetGroups = 1 << 24          // groups that the workers of a session form
	MaxMeetRounds = 64               // Meets of a worker about one group
	MaxLink       = 1 << 13          // bytes of a Link's data
	MaxLinkRounds = 8                // Links of one end
	SessionBytes  = 8                // length of the session id that begins a body
	HandleBytes   = shm.HandleSize
	HashBytes     = 16      // length of a program hash
	maxDimProduct = 1 << 62 // elements of a tensor: their count fits an int64
)

// ErrMalformed is returned by Parse and ParseRun for bytes that are not such a message.
// Its text names the message, the field, the value and what was expected.
var ErrMalformed = encoding.ErrMalformed

// ErrHistory is returned by ParseRun when the sender predicted from a run that this end
// does not remember: one end missed a message or a Record. The session is lost.
var ErrHistory = errors.New("wire: run predicted from an unknown one")

// Handle names bytes in a segment; messages carry it instead of them.
type Handle = shm.Handle

// Hash identifies a program by its structure. The zero Hash means none.
type Hash [HashBytes]byte

// CutText returns s shortened to at most MaxText bytes.
func CutText(s string) string { return encoding.CutText(s) }

// CutMore returns s shortened to at most MaxMore bytes.
func CutMore(s string) string { return encoding.Cut(s, MaxMore) }

// Session returns the session id that body begins with; false for a body too short.
func Session(body []byte) (uint64, bool) {
	if len(body) < SessionBytes {
		return 0, false
	}
	return binary.LittleEndian.Uint64(body), true
}

// SetSession overwrites the session id that body begins with; false for a body too short.
func SetSession(body []byte, id uint64) bool {
	if len(body) < SessionBytes {
		return false
	}
	binary.LittleEndian.PutUint64(body, id)
	return true
}
