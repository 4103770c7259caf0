// Package encoding is what the messages of ringside are made of: the version that both
// ends of a connection must share, the greetings that open one, and [Walk], which visits
// the fields of a message. The messages of sessions are tensor/cluster/internal/wire.
//
// Everything is little endian. Counts and small numbers are unsigned varints
// (encoding/binary), differences zigzag varints. A constant limits every count and
// length, and a parser checks it against the bytes that are there before it allocates.
// Bytes behind the last field are an error.
package encoding

import "errors"

// Version is the version of all messages. Both ends of a connection must have the same.
//
// History:
//
//	1  first
//	2  sessions whose ends share no memory: OpenSession.Apart, SessionOpened.Apart,
//	   Data, Read
//	3  sessions of several workers: OpenSession.Workers, Rank, Key and Config,
//	   SessionOpened.Rank, Done.Rank and its counts, Result.Layout, values that are
//	   elsewhere, Meet; Save and Saved
//	4  tensors of ends that share no memory use a connection of their own:
//	   OpenSession.Token, Link, Push, Pushed and Pull; Watch and Watched; Data (14) and
//	   Read (15) are gone
//	5  client and worker of one host have a connection of their own: OpenSession.Direct,
//	   and a descriptor with SessionOpened; RunTurn
//	6  Done.Took and Hidden
//	7  workers of one host that run a session together have connections of their own:
//	   Turn, a descriptor with Meet; DropSegment (5) is gone
//	8  Upload.Layout and Own; a worker on another host receives its part of such an
//	   upload
//	9  Upload.Stage
//	10 Hello.Note; Device; OpenSession.Kind, Mixed, Flops and Bandwidth
//	11 CodeStopped and CodeWork
//	12 Stop; Device.Busy
//	13 Busy
//	14 SessionOpened.Bytes; Device.Sessions and Last
//	15 Held and Resume, SessionOpened.Token; Device.Sessions is gone
//	16 Training; Status.Trainings
//	17 Show and Shown
//	18 Event.Shape
//	19 Done.Base, Rest and More
const Version = 19

// Limits of fields that several messages have.
const (
	MaxName = 256  // bytes of a name
	MaxNote = 64   // bytes of a note
	MaxText = 4096 // bytes of an error's text, see CutText
)

// ErrMalformed is returned by every Parse function for bytes that are not such a message.
// Its text names the message, the field, the value and what was expected.
var ErrMalformed = errors.New("encoding: malformed message")

// ErrVersion is returned for a greeting of another version.
var ErrVersion = errors.New("encoding: version not supported")

// CutText returns s shortened to at most MaxText bytes.
func CutText(s string) string { return Cut(s, MaxText) }

// Cut returns s shortened to at most most bytes, of which there are enough for a mark.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const mark = "…"
	n := most - len(mark)
	for n > 0 && s[n]&0xC0 == 0x80 { // do not cut inside a character
		n--
	}
	return s[:n] + mark
}
