// Package wire is every message of ringside, once: a type, Append, Parse and Size, one
// file a message.
//
// Everything is little endian. A message's body begins with the session's id
//
//	offset 0   session uint64
//	offset 8   fields of the message, in the order its Append function states
//
// except for the handshake (Hello, Welcome, Refuse), which begins with [Magic] and the
// version. A client sends session 0 or whatever it likes; the dispatcher overwrites these
// eight bytes in place when it forwards ([SetSession]). In what it forwards it sets one flag
// more ([SetTurn]), counts the tensors' bytes ([Payload]) and reads addresses (Link).
//
// Counts and small numbers are unsigned varints (encoding/binary), signed ones zigzag.
// Every count and length is limited by a constant of this package and checked against the
// bytes that are there before anything is allocated. Trailing bytes are an error.
//
// Parse functions fill a struct that the caller uses again: slices in it are overwritten and
// grown when needed, so that in the steady state nothing is allocated. Byte slices in
// a parsed message (inline values, program bytes) point into the bytes parsed and are valid as
// long as those. Append functions trust their caller: limits are checked by the parser, and
// by Check functions where a sender can run into one.
package wire

import (
	"encoding/binary"
	"errors"

	"github.com/ringside-go/ringside/shm"
)

// Version of all messages. Both ends of a conn must have the same.
//
// History:
//
//	1  first
//	2  sessions whose ends share no memory: OpenSession.Apart, SessionOpened.Apart, Data and Read
//	3  sessions of several workers: OpenSession.Workers, Rank, Key and Config, SessionOpened.Rank, Done.Rank and its counts,
//	   Result.Layout, values that are elsewhere, Meet; Save and Saved
//	4  tensors of ends that share no memory go over a conn of their own: OpenSession.Token, Link, Push, Pushed and Pull; Data
//	   and Read (14 and 15), which took them through the dispatcher, are no more; Watch and Watched
//	5  client and worker of one host have a conn of their own: OpenSession.Direct, and a descriptor that may come with
//	   SessionOpened; a session's messages go over either; RunTurn
//	6  Done.Took and Hidden
//	7  workers of one host that run a session together have conns of their own: Turn, a descriptor that may come with Meet;
//	   DropSegment (5), which nobody sent, is no more
//	8  Upload.Layout and Own; of an upload whose layout is said a worker on another host is sent its part
//	9  Upload.Stage
const Version = 9

// Kinds of message. A number is never used twice. What goes from a client through the dispatcher to its worker, and back, goes
// over a conn of their own where they have one; but not SessionOpened, Link and Fail.
const (
	KindOpenSession   uint32 = 1  // client → dispatcher → worker
	KindCloseSession  uint32 = 2  // dispatcher → worker
	KindSessionOpened uint32 = 3  // worker → dispatcher → client; one descriptor or none
	KindSegment       uint32 = 4  // owner of a segment → who is given handles into it; one descriptor
	KindBody          uint32 = 6  // client → dispatcher → worker
	KindRun           uint32 = 7  // client → dispatcher → worker
	KindDone          uint32 = 8  // worker → dispatcher → client
	KindFail          uint32 = 9  // worker or dispatcher → client
	KindBye           uint32 = 10 // client → dispatcher
	KindStatus        uint32 = 11 // anybody → dispatcher
	KindStatusReply   uint32 = 12 // dispatcher → who asked
	KindFlow          uint32 = 13 // worker → dispatcher
	KindSave          uint32 = 16 // client → dispatcher → worker; a descriptor for each of the session's workers
	KindSaved         uint32 = 17 // worker → dispatcher → client
	KindLink          uint32 = 18 // worker → dispatcher → client, and back
	KindPush          uint32 = 19 // client → worker, on a conn of their own; a Transfer
	KindPull          uint32 = 20 // the same
	KindPushed        uint32 = 21 // worker → client, the same
	KindMeet          uint32 = 24 // worker → dispatcher → the session's other workers; with a descriptor to the first alone
	KindWatch         uint32 = 25 // control → dispatcher → all workers
	KindWatched       uint32 = 26 // worker → dispatcher → who asked
	KindTurn          uint32 = 27 // dispatcher → a session's workers, first of them → dispatcher, and → the others on conns of their own
)

// Limits. What is larger is refused by the parser, whoever sent it.
const (
	MaxName       = 256     // bytes of a name
	MaxText       = 4096    // bytes of an error's text; senders cut theirs
	MaxRank       = 8       // dimensions of a tensor
	MaxInline     = 256     // bytes of a value that travels in the message instead of by handle
	MaxScalars    = 8192    // scalars of a run
	MaxIDs        = 32768   // ids in one list of a run
	MaxUploads    = 4096    // uploads of a run
	MaxReturns    = 8192    // handles given back by one message
	MaxForget     = 1024    // program hashes forgotten by one run
	MaxResults    = 8192    // results of a run
	MaxProgram    = 1 << 24 // bytes of a program, over all its parts
	MaxExport     = 128     // bytes of a device's name for its memory (CUDA has 64)
	MaxCounters   = 1024    // counters of a status reply
	MaxWorkers    = 1024    // of a session
	MaxKey        = 64      // bytes of a key, and of a token
	MaxConfig     = 1 << 16 // bytes of a session's config
	MaxMeet       = 1 << 12 // bytes that a worker says to the others of its session at a time
	MaxMeetGroups = 1 << 24 // groups that the workers of a session form
	MaxMeetRounds = 64      // times that a worker says something about one of them
	MaxLink       = 1 << 13 // bytes that a client and a worker say to each other at a time
	MaxLinkRounds = 8       // times that they do
	SessionBytes  = 8       // length of the session id that begins a body
	HandleBytes   = shm.HandleSize
	HashBytes     = 16      // length of a program hash
	maxDimProduct = 1 << 62 // elements of a tensor: their count fits an int64, with room
)

// ErrMalformed is returned by every Parse function for bytes that are not such a message;
// the text names the message, the field, the value and what was expected.
var ErrMalformed = errors.New("wire: malformed message")

// ErrHistory is returned by ParseRun when the sender predicted from a run that this end
// does not remember: one end missed a message or a Record. The session is lost.
var ErrHistory = errors.New("wire: run predicted from an unknown one")

// ErrVersion is returned by the handshake's parsers for another version than this one.
var ErrVersion = errors.New("wire: version not supported")

// Handle names bytes in a segment: what travels instead of them.
type Handle = shm.Handle

// Hash identifies a program by its structure. The zero Hash means none.
type Hash [HashBytes]byte

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

// KindName is the name of a kind, for logs.
func KindName(kind uint32) string {
	switch kind {
	case KindOpenSession:
		return "OpenSession"
	case KindCloseSession:
		return "CloseSession"
	case KindSessionOpened:
		return "SessionOpened"
	case KindSegment:
		return "Segment"
	case KindBody:
		return "Body"
	case KindRun:
		return "Run"
	case KindDone:
		return "Done"
	case KindFail:
		return "Fail"
	case KindBye:
		return "Bye"
	case KindStatus:
		return "Status"
	case KindStatusReply:
		return "StatusReply"
	case KindFlow:
		return "Flow"
	case KindSave:
		return "Save"
	case KindSaved:
		return "Saved"
	case KindLink:
		return "Link"
	case KindPush:
		return "Push"
	case KindPull:
		return "Pull"
	case KindPushed:
		return "Pushed"
	case KindMeet:
		return "Meet"
	case KindWatch:
		return "Watch"
	case KindWatched:
		return "Watched"
	case KindTurn:
		return "Turn"
	}
	return "unknown kind"
}
