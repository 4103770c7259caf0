// Package kernel holds the inner loops of the CPU engine: matrix products, elementwise
// vectors, reductions and fused rows, all on slices of the caller.
//
// A [Table] is one set of them for one instruction set: AVX-512, with tiles (AMX) or
// without, or AVX2 of amd64, NEON of arm64, or portable Go.
// [Best] picks the highest that the machine runs, [Select] a named one, [Doubles] one for
// float64. All build the table, so call them once and keep it. There is no other state:
// nothing is read from the environment and nothing is detected twice.
//
// Rules that every function of a table keeps:
//
//   - It allocates nothing and keeps no reference to its arguments, so slices may lie
//     outside the Go heap.
//   - len(dst), or the length of the first slice, is the length of the operation. Other
//     slices must be at least as long; shorter ones panic before anything is written.
//     Nothing beyond the length is written, or read in a way that could fault.
//   - dst may be exactly one of the inputs (in place). A partial overlap is the caller's
//     bug and is not detected.
//   - Slices need only the natural alignment of their element. Results depend on the
//     values and the length alone, never on an address, so a given table gives the same
//     bits every time. Two tables agree within rounding.
//   - It may be called concurrently with anything that neither writes its inputs nor
//     touches its outputs.
//   - A call into assembly is bounded (about a hundred microseconds), so that a garbage
//     collection need not wait.
//
// The assembly, its constants and the Go code that calls it are generated: see the folder
// gen, and the go:generate line in generate.go.
package kernel
