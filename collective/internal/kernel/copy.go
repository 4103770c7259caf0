package kernel

// Copy sizes, in bytes.
//
// Below repMin the start of the string instruction costs more than it saves. Above, it is
// the best way to write lines that another core has read last: it takes them over without
// reading them first. From streamMin on neither side stays in a third-level cache of the
// usual 32 MiB, and stores past the caches avoid reading the destination. See "Copies
// between cores" in docs/decisions.md.
const (
	repMin    = 2 << 10
	streamMin = 24 << 20
)

// Copy copies src to dst, in the way that suits memory shared between cores. The two have
// one length (else it panics) and do not overlap, unless they are the same.
func Copy(dst, src []byte) { Best().Copy(dst, src) }

// Copy is [Copy] with the instructions of s.
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
