// Package protocol defines what the ranks of a group agree on before a byte moves: what a
// call is, how a buffer is cut, which rank sends what to which other rank in which order,
// and in which words ranks greet each other and say that a call failed. It computes; it
// does no I/O, reads no clock and holds no state.
// collective/internal/algorithm has the algorithms: onehost moves bytes within a host,
// crosshost between hosts. Both and collective use this package.
//
// # Order of a reduction
//
// Floating-point addition is not associative. So the promise "the same bits on every
// rank, run after run, over every transport" needs an order. For every element, size and
// path it is: within a host the ranks in order, from the left ((r0+r1)+r2)+r3; then the
// hosts in the order of their lowest rank, from the left. 16-bit floats are added in 32
// bits from the first rank to the last and rounded once at the end. [Fold] is this
// bracketing as data, for a communicator whose ranks are on one host or on one host each.
package protocol
