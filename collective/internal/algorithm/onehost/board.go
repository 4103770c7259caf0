package onehost

import "github.com/ringside-go/ringside/collective/protocol"

// # The board of broadcasts
//
// A broadcast is no meeting. The root puts an entry on its board, with the bytes or with
// their location, and the others look for the entry when they come to that call. They
// wait for no rank but the root. There are three sizes:
//
//	bytes                    where they are        the root returns when
//	up to spread             entry, or the room    the entry is there
//	more, registered         where they lie        every other rank has acknowledged them
//	more, other memory       staging slots         the last piece is there (exchange.go)
//
// # When a place is free again
//
// A rank that comes to a meeting has taken every entry that came before it in the order
// of calls. So after a meeting the root may use all entries and all of the room again.
// Between two meetings there are at most entries broadcasts, of all roots together, and
// no more bytes than the room has. The broadcast that would be one too many begins with a
// meeting. All ranks count the same calls, so all know when that is and where in the room
// the bytes lie (window).
//
// # A rank in another call
//
// Every call has a position: the number of meetings before it, and its number among the
// broadcasts since. Two ranks at one position in different calls is what must be found.
// Marks show it at a meeting. A rank in a broadcast shows no mark, and a root may be far
// ahead. So an entry has the position and the hash of its call, and a rank that has
// waited for an entry for some time posts where it waits. A waiting rank compares those
// of all ranks with its own (inAnotherCall).
//
// This finds every such wait. Of the ranks that wait at the lowest position, take one,
// which waits for a rank p. p waits at that position or a later one, or it has ended or
// is late, which is found otherwise. It has not done what it is waited for. So p was in
// another call at that position, and shows that by its mark, its entry or its post.
//
// One case is left. Two ranks that both gave, each as the root at that position, have
// waited for no rank, and may both have gone on to one meeting. After it the entries that
// nothing took are still on the boards (taken).
//
// A root that returns before the others have come learns in its next call that waits that
// one of them is dead or in another call.
//
// # Layout
//
// The owner alone writes its board. It stores an entry's number last (release), and a
// post's position last (release).
//
//	  0  acknowledged u64: the position of the last call whose bytes the owner has read
//	     from a root's memory
//	128  post: position u64, hash u64, call
//	256  entries x entry
//	     room
//
// The entry with number k, counted from 1 for each root, lies in place k mod entries:
//
//	 0  number u64
//	 8  position u64 of the call
//	16  hash u64 of the call
//	24  seq u64 of the call
//	32  text: up to entryText bytes; of more than spread bytes their location u64,
//	    0 if staged
//	64  the rest of the call
const (
	entries   = 16 // at most 1<<positionShift - 2
	entrySize = 128
	entryText = 32

	offEntryPosition = 8
	offEntryHash     = 16
	offEntrySeq      = 24
	offEntryText     = 32
	offEntryCall     = 64

	offPosted  = apart
	offEntries = 2 * apart
	offRoom    = offEntries + entries*entrySize

	positionShift = 8
)

// defaultSpread returns the most bytes that the root of a broadcast copies in order not
// to wait. Of two ranks, the other begins only when the copy is made. More ranks would
// wait for each other at a meeting, which takes longer than the copy.
func defaultSpread(ranks, flat, chunk int) int {
	if ranks <= 2 {
		return flat
	}
	return max(flat, chunk/2)
}

// roomBytes returns the size of a board's room.
func roomBytes(spread int) int { return max(4*spread, 32<<10) }

// positionOf returns the position of a call after the meeting epoch; count is its number
// among the broadcasts since, itself included.
func positionOf(epoch, count uint64) uint64 { return epoch<<positionShift | count }

// entry returns the place of the number-th entry of the page's owner.
func (p *page) entry(number uint64) []byte {
	return stretch(p.mem, p.shape.board+offEntries+int(number%entries)*entrySize, entrySize)
}

// posted returns the place of the owner's post.
func (p *page) posted() []byte {
	return stretch(p.mem, p.shape.board+offPosted, 16+protocol.CallBytes)
}

// acknowledged returns the word by which the page's owner tells roots what it has read.
func (p *page) acknowledged() *uint64 { return word64(p.mem, p.shape.board) }

// inRoom returns n bytes of the board's room.
func (p *page) inRoom(at, n int) []byte { return stretch(p.mem, p.shape.board+offRoom+at, n) }
