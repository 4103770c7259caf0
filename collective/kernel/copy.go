package kernel

// Copy sizes, in bytes. Measured on Zen 4 and Zen 5 between two cores: below repMin the start of the string
// instruction (some 30 ns) outweighs what it saves; above it, it beats vector stores 1.5 to 2.8 times where the destination's
// lines are in the other core's cache, because it takes them over without reading them first. From streamMin on neither
// side stays in a third level cache, and stores that bypass it save the reading of the destination.
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
