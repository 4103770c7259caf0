package kernel

import (
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/isa"
)

// line is a multiple of the elements in any vector, so that only the last call has a
// rest.
const line = 64

// accelerated folds in assembly and returns how many elements it did: all of them, or
// whole vectors, or none if there is no kernel for the fold.
func (s Set) accelerated(op element.Reduction, c conversion, scale float64, dsts, srcs [][]byte) int {
	n := len(srcs[0]) >> log(c.from)
	if len(dsts) == 0 || n == 0 {
		return n
	}
	unit := 0 // an element is 1<<unit of the kernel's elements
	if op.Bitwise() {
		unit, c = log(c.from), conversion{element.U8, element.U8}
		n <<= unit
	}
	if s.level == AVX2 {
		n &^= avx2Lanes(c) - 1
	}
	touched := len(srcs)<<log(c.from) + len(dsts)<<log(c.to) // bytes per element
	step := n
	if n*touched > touchMax {
		step = max(line, touchMax/touched&^(line-1))
	}
	k := key(op, c)
	for i := 0; i < n; i += step {
		ok, to := false, min(i+step, n)
		switch {
		case s.brain && c == conversion{element.BF16, element.BF16}:
			ok = callAVX512BF16(k, i, to, dsts, srcs, scale)
		case s.level == AVX512:
			ok = callAVX512(k, i, to, dsts, srcs, scale)
		default:
			ok = callAVX2(k, i, to, dsts, srcs, scale)
		}
		if !ok {
			return 0
		}
	}
	return n >> unit
}

// avx2Lanes returns the elements of a vector of an AVX2 kernel; a call does no fewer.
func avx2Lanes(c conversion) int {
	if c.from == element.BF16 && c.to == element.BF16 {
		return 16
	}
	return 32 >> max(log(c.from), log(c.from.Wide()))
}

// copyLarge copies at least repMin bytes.
func (s Set) copyLarge(dst, src []byte) {
	if len(src) >= streamMin {
		head := headOf(dst)
		copy(dst[:head], src)
		dst, src = dst[head:], src[head:]
		for len(src) >= 256 {
			n := min(len(src)&^255, touchMax/2)
			if s.level == AVX512 {
				copyStreamAVX512(&dst[0], &src[0], n)
			} else {
				copyStreamAVX2(&dst[0], &src[0], n)
			}
			dst, src = dst[n:], src[n:]
		}
		copy(dst, src)
		return
	}
	if !isa.FastStrings() {
		copy(dst, src)
		return
	}
	for len(src) > 0 {
		n := min(len(src), touchMax/2)
		copyString(&dst[0], &src[0], n)
		dst, src = dst[n:], src[n:]
	}
}
