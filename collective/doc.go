// Package collective lets a group of processes compute together: every rank makes the
// same call at the same point, and each returns with its part of the result. It has the
// operations of MPI and NCCL on Go slices (all-reduce, reduce, reduce-scatter,
// all-gather, broadcast, scatter, gather, all-to-all, send and receive; the barrier is
// the method [Group.Barrier]), blocking and started (the names that end in Async), and on
// encodable values. Package tensor/spmd has those on tensors. Sends and receives with a
// tag ([SendTag], [RecvTag]) run beside all of these, in lanes that do not wait for each
// other. A call that comes again and again with the same buffers may be made once and run
// ([Persistent]: the names that end in Init).
//
// [Init] makes the group of all processes of a launcher; [Local] makes one inside a
// process, for tests; [New] makes one over given conns. Ranks that share a host use
// shared memory, where [Alloc]'s slices are read in place. The others use TCP. With
// several hosts of several ranks a call runs inside the hosts and between them. Nothing
// of this is to be configured.
//
// # The same bits
//
// The result of a reduction does not depend on timing, on the transport, on the size of
// the call, on where a buffer lies, or on whether tensors are bucketed. The order is, for
// every element: the ranks of each host in rank order from the left, ((r0+r1)+r2)+r3;
// then the hosts from the left, in the order of their lowest rank. Float16 and BFloat16
// are folded in float32 over all ranks and rounded once. One rank computes an element and
// the others copy it, so all have the same. Means are sums that are multiplied by 1/Size
// before the rounding.
//
// So a world of two hosts with two ranks folds (r0+r1)+(r2+r3), and one of four ranks on
// one host ((r0+r1)+r2)+r3. Options.Layout gives one layout the bits of another. NaNs are
// equal as NaNs; their payload is not promised.
//
// The price: inside a host nothing, for each slice of the data is reduced by one rank,
// which reads the others' in order. Between hosts 16-bit floats travel as float32, twice
// the bytes, and a rank that folds waits for its neighbours in order.
//
// # Errors
//
// Wrong arguments are refused before anything is sent ([ErrLength], [ErrOverlap],
// [ErrRank], [ErrOp]), and the group works on. Everything else ends the group on every
// rank with an [Error] that names a rank and a cause:
//
//   - a process that dies or leaves: [ErrPeerLost], within tens of milliseconds
//   - a rank that does not come, or stops in a call: [ErrTimeout], after Options.Timeout
//   - ranks in different calls, or with another op, type, count or root: [ErrMismatch],
//     naming both calls
//   - a context that is done on one rank: its error there, [ErrAborted] on the others,
//     for they can't go on without it
//
// Errors number the calls of all ranks: a program's first one is #1.
//
// Data in destinations is undefined afterwards, which includes sources of calls in place.
// [Group.Shrink] makes a group of the ranks that are left.
//
// # Memory
//
// A call may be given any slice. Only [Alloc]'s memory is shared with other processes,
// those of the group on this host, which can write it. Between hosts peers prove the
// secret once, when a conn is opened; what they send then has checksums, and is encrypted
// only where the launcher says so (`ringside run --tls`, RINGSIDE_TLS).
//
// # Where things are
//
// Each file uses those before it:
//
//	dtype.go fold.go errors.go layout.go   element types, operations; which rank is where
//	comm.go                                the interface of a communicator
//	hosts.go hosts_parts.go                a communicator of hosts with several ranks
//	tap.go                                 a conn that calls and control share
//	control.go blame.go resolve.go         what ranks tell each other; the rank at fault
//	flight.go                              the last calls, written down when one fails
//	events.go                              every call, written to a file for a timeline
//	work.go lane.go run.go                 one call at a time, and calls that were started
//	tags.go                                sends and receives with tags, beside the calls
//	compose.go group.go                    groups
//	checks.go move.go reduce.go raw.go     the calls
//	tagged.go                              sends and receives with tags
//	persistent.go alloc.go                 calls made again and again; shared memory
//	bucket.go object.go                    several all-reduces in one; encodable values
//	local.go init.go over.go split.go      ways to make a group, and groups of some ranks
package collective
