// Package crosshost makes every collective among ranks that talk over conns with bulk
// transfers (ipc.Bulk): usually one rank a host, over TCP. It computes and waits in the
// goroutine that calls; it has none of its own.
//
// # What goes where
//
// n ranks, a conn between any two. S is the bytes of the buffer.
//
//	all-reduce      up to OneShot (Pair if n=2)  each to all, one step         cutting
//	                above                        a part to each owner, folded,
//	                                             to all                        cutting
//	reduce          up to OneShot, or n=2        all to the root, which folds  cutting
//	                above                        a part to each but the root,
//	                                             folded, to the root           cutting
//	reduce-scatter                               a part to each owner, folded  cutting
//	broadcast       above OneShot, if n>2        a part to each but the root,
//	                                             passed on                     relaying
//	the others                                   one transfer for each pair    moving
//
// Traffic of a rank in each direction: 2S(n-1)/n in an all-reduce above OneShot, S(n-1)/n
// in a reduce-scatter, S at most in a broadcast and a reduce; that is the least there can
// be. Steps: one or two.
//
// # Where things are
//
// Each file uses those before it:
//
//	clock.go scratch.go                         time, memory
//	peers.go transfers.go failing.go engine.go   the call under way
//	cutting.go moving.go relaying.go            the jobs
//	comm.go greeting.go calls.go              making a Comm, and its calls
//
// # Bits
//
// A rank that folds has all the operands and keeps to the order of protocol.Fold. So
// every rank gets the same bits, whatever the size, the transport, and the time at which
// data arrives. Options.Fold brackets the ranks of a comm as hosts would, so that a comm
// over TCP alone gives the bits of a hierarchical one.
//
// Ring and recursive halving move no byte less and are not used: a ring folds each part
// in another order, and halving in the order of a tree. The price of the order is n-1
// streams at a time from and to each rank (a ring has one) and memory for 2(n-1) chunks.
//
// # Waiting and failing
//
// A call waits on the Waiter that the conns were opened with, in the calling goroutine.
// Ranks talk about calls by messages on the same conns, beside the data: see failing.go.
// A rank that dies, is late, is in another call or gives up is an error that names it, on
// all ranks.
package crosshost
