// Package plan is what the ranks of a group agree on before a byte moves: what a call is, how a buffer is cut, who sends
// what to whom in which order. It computes; it does no I/O, reads no clock and holds no state. The packages that move
// bytes (collective/internal/host within a host, collective/internal/wide between hosts) and the one above them share it.
//
// # Order of a reduction
//
// Floating-point addition is not associative, so an order belongs to the promise "the same bits on every rank, run after
// run, over every transport". It is this, for every element, size and path: within a host the ranks in order,
// from the left ((r0+r1)+r2)+r3; then the hosts in the order of their lowest rank, from the left. 16-bit floats
// are added in 32 bits from the first rank to the last and rounded once at the very end. [Fold] is that bracketing as
// data, for those who reduce without being cut up like that.
package plan
