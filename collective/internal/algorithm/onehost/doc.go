// Package onehost makes every collective among the ranks of one host, over shared memory.
// It computes and waits in the goroutine that calls; it has none of its own.
//
// # The three ways
//
// n ranks, each of which has mapped a page of every other (layout.go), and the memory
// that others reach in place (memory.go). S is the bytes that a rank gives.
//
//	way         S                    how
//	direct      up to 48, of two     in the line, beside the mark: one meeting, every
//	            ranks up to 8        rank reads all lines and folds
//	            up to Options.Flat   through a flat slot of the giver's page: copied in,
//	                                 one meeting, read by every rank
//	            more, registered     where it lies. All-reduce: between two meetings
//	                                 every rank folds its slice of all sources in one
//	                                 pass and stores it into all destinations
//	            from shownMin on,    where it lies, but only its owner stores there:
//	            shown                every rank folds a slice and takes the others'
//	staged      more, other memory   through two staging slots a rank, piece by piece:
//	                                 one is read while the other is filled
//	Persistent  any                  as above, without the checks and the lock of each
//	                                 call; barriers and sums of up to 8 bytes of two
//	                                 ranks are one exchange of words
//
// Memory is registered if a Comm gave it (Alloc), shown if its owner lets the others read
// it (Show). Less shown memory than shownMin (1 MiB) is staged.
//
// The way depends on the size and on what all ranks say at the first meeting, so all
// choose alike. Buffers that differ in kind from rank to rank go together.
//
// A broadcast is no meeting: the root puts it on its board and goes on (board.go).
//
// # Where things are
//
// Each file uses those before it:
//
//	layout.go board.go deaths.go    words of a page, and the order of their accesses
//	options.go cores.go             options; ranks on one core
//	ranks.go memory.go              ranks, how a call fails; memory reached in place
//	meeting.go late.go              where a rank is and what it waits for; late ranks
//	waiting.go meet.go              how it waits; meetings
//	slots.go exchange.go            moving of contributions
//	allreduce.go                    folding of contributions
//	broadcast.go messages.go        broadcasts; sends and receives
//	comm.go calls.go persistent.go  making a Comm, its calls, persistent calls
//
// # Bits
//
// Every element is folded by one pass over the operands in the order of protocol.Fold, on
// every way. So all ranks get the same bits, at every size, every time.
//
// # Trust
//
// Ranks of a group are one program, so they map each other's registered memory for
// writing: a rank that goes wild spoils the results of all. Memory that is shown they map
// for reading only. A rank cannot crash the others: segments are sealed against
// shrinking, and every offset, length and number that comes from another rank is read
// once and checked.
//
// # Waiting and failing
//
// A rank waits by the policy of ring.Waiter: it spins, yields its core, and sleeps after
// a millisecond; so more ranks than cores do not stand in each other's way. While it
// waits it looks at death notices, conns, its context and its timeout (late.go). A rank
// that dies, is late, is in another call or gives up is an error that names it, on all
// ranks.
package onehost
