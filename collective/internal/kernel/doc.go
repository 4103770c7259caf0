// Package kernel holds the inner loops of collectives: it folds several buffers into one
// in a single pass, converts 16-bit floats, and copies. Buffers are bytes, which may lie
// in memory shared with other processes.
//
// [Reduce], [Widen], [Narrow] and [Copy] use the best instruction set of this machine; a
// [Set] is one named set, for tests and comparisons: AVX-512, AVX2 or portable Go.
// AVX-512 rounds to bf16 by AVX512_BF16 where the processor has it, except for subnormal
// numbers and NaN. There is no state: every call reads the processor's features anew.
//
// Rules that every function keeps:
//
//   - Elements are little-endian, as on every machine that Go's linux ports of this
//     module run on. They need no alignment: a slice may start at any byte. Results
//     depend on the values alone, never on an address or a length.
//   - The order of a fold is the order of the sources, for every element:
//     ((s0+s1)+s2)+s3. All sets give the same bits, except for the payload of a NaN,
//     which is undefined.
//   - A destination may be exactly one of the sources (in place). A partial overlap is
//     the caller's bug and is not detected.
//   - Slices of unequal lengths, or of a length that is no multiple of the element, panic
//     before anything is written: lengths are the caller's arithmetic, never a peer's
//     data. A peer that writes while a kernel reads spoils the values that the kernel
//     computes, and nothing else.
//   - Nothing is allocated and no argument is kept, but by a [Folder]. A function may be
//     called concurrently with anything that neither writes its sources nor touches its
//     destinations.
//   - Of two destinations the second may be the one whose lines another core has written
//     last: sums of two sources fetch them for writing (PREFETCHW) before they read them,
//     up to 256 KiB of a source. A line that is read first and stored to later is
//     requested twice.
//   - One call into assembly touches at most about a megabyte, so that a garbage
//     collection need not wait.
//
// The result of an element:
//
//	f64 f32    IEEE 754, in the type itself
//	f16 bf16   widened to f32, folded there, and rounded once at the end, to nearest even
//	i64 i32 u8 wrapping sums and products
//	min max    of floats: NaN if any is NaN, and -0 is less than +0
//	and or xor of integers only
//	scale      multiplies the folded value, in f64 for f64, for other floats in f32, to
//	           which it is rounded
//
// The assembly is generated: see the folder gen, and the go:generate line in generate.go.
package kernel
