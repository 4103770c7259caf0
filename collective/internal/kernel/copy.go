package kernel

// Copy sizes, in bytes.
//
// Below repMin the start of the string instruction outweighs what it saves. Above, it is the way to write lines that
// another core has read last: it takes them over without reading them first (64 KiB on Zen 5: 2.2 µs against 3.4 by vector
// stores where the cores share a cache, 4.1 against 11 where they do not). From streamMin on neither side stays in a
// third level cache of the usual 32 MiB, and stores past the caches save the reading of the destination (64 MiB on Zen 4:
// 1.4 ms against 2.9).
const (
	repMin    = 2 << 10
	streamMin = 24 << 20
)

// Copy copies src to dst, which have one length (else it panics) and do not overlap, unless they are the same. It is
// Go's copy, by the way that suits memory shared between cores.
func Copy(dst, src []byte) { Best().Copy(dst, src) }

// Copy is [Copy] by the means of s.
func (s Set) Copy(dst, src []byte) {
	if len(dst) != len(src) {
		panic("kernel: copy between unequal lengths")
	}
	if s.level == Go || len(src) < repMin {
		copy(dst, src)
		return
	}
	s.copyLarge(dst, src)
}
