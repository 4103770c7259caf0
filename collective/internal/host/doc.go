// Package host makes every collective among the ranks of one host, over shared memory. It computes and waits in the goroutine
// that calls; it has none of its own.
//
// # What goes where
//
// n ranks, each of which has mapped a page of every other, and the registered memory (Alloc) of all of them. S is the
// bytes that a rank gives.
//
//	S                    how
//	up to 48             beside the flag, in one cache line: everybody reads it and folds. Of two ranks up to 8
//	up to Options.Flat   through a slot of the giver's page: copied in, one meeting, read by everybody
//	more, registered     in place. All-reduce: between two meetings every rank folds its slice of all sources, in one pass,
//	                     and stores it into all destinations, so every byte is read once and written once. A reduce
//	                     stores it into the root's. The others read what they want where it lies
//	more, shown          (Show) in place, too, but nobody stores into another's memory: in an all-reduce, of 1 MiB or more, every
//	                     rank folds a slice and takes the others' slices from those who folded them
//	more                 through two staging slots a rank, piece by piece: one is read while the other is filled
//
// Of two ranks, the one that has read a slot fills it next, so that its lines go from core to core only with something in them (slots.go).
// A call that is made again and again may be prepared: it then costs some 17 ns beside the meeting on Zen 4,
// where one that is not costs 45.
//
// Which it is depends on the size and on what all ranks said at the first meeting, so all choose alike; registered
// memory on some ranks and other slices on others go together.
//
// A broadcast is another thing: the root puts it on its board and goes on, see board.go. With more than two ranks it copies up to half of
// Options.Chunk for that; what is larger is read where it lies, and the root waits for its readers, who wait for nobody but the root.
//
// # Bits
//
// Every element is folded by one pass over the operands in the order of plan.Fold, whichever way they came: all
// ranks get the same bits, at every size, every time.
//
// # Trust
//
// Ranks of a group are one program, so they map each other's registered memory for writing: one that goes wild spoils
// the results of all. Memory that is shown they map for reading only. What it cannot do is crash the others: segments are sealed against shrinking, and every
// offset, length and number that comes from another rank is read once and checked.
//
// # Waiting and failing
//
// A rank waits by the policy of ring.Waiter: it spins for a microsecond, yields its core to who needs it, and sleeps
// after a millisecond; so more ranks than cores do not stand in each other's way. While it waits it looks at what the others
// have to say, at their conns, at its context and its timeout: see failing.go. A rank that dies, is late, is in another call or
// gives up is an error that names it, on all ranks.
package host
