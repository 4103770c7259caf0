// Package element defines what arrays consist of, once for the whole module: the element
// types, the reductions that fold two elements into one, and the two 16-bit
// floating-point formats as they are stored.
//
// Package collective computes with these types between ranks, package tensor within
// programs. The numbers of [DType] and [Reduction] travel in programs and messages: a
// constant is appended, never renumbered.
package element
