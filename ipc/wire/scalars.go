package wire

import "math"

// The scalars of a Run travel as a bit for each, lowest first, that says whether it differs from
// the program's last run, and then those that do, float64 each. Most don't: of an optimizer's
// step only the learning rate and the bias corrections. Without a last run with as many scalars
// all of them differ.

// lastScalars are the scalars that n new ones are predicted from, nil if there are none.
func (r *pastRun) lastScalars(n int) []float64 {
	if len(r.scalars) != n {
		return nil
	}
	return r.scalars
}

// differs compares bits, so that NaN is equal to itself and 0 is not to -0.
func differs(last, now []float64, i int) bool {
	return last == nil || math.Float64bits(last[i]) != math.Float64bits(now[i])
}

func appendScalars(dst []byte, last, now []float64) []byte {
	at := len(dst)
	for range (len(now) + 7) / 8 {
		dst = append(dst, 0)
	}
	for i, v := range now {
		if differs(last, now, i) {
			dst[at+i/8] |= 1 << (i % 8)
			dst = appendF64(dst, v)
		}
	}
	return dst
}

func sizeScalars(last, now []float64) int {
	n := (len(now) + 7) / 8
	for i := range now {
		if differs(last, now, i) {
			n += 8
		}
	}
	return n
}

// scalars reads n scalars into dst.
func (p *parser) scalars(last []float64, n int, dst []float64) []float64 {
	at := p.off
	for range (n + 7) / 8 {
		p.u8("Scalars")
	}
	if p.err != nil {
		return dst[:0]
	}
	mask := p.src[at:p.off]
	if n%8 != 0 && mask[n/8]>>(n%8) != 0 {
		p.fail("Scalars", "bits beyond the last of %d scalars", n)
		return dst[:0]
	}
	dst = resize(dst, n)
	for i := range dst {
		switch {
		case mask[i/8]>>(i%8)&1 != 0:
			dst[i] = math.Float64frombits(p.u64("Scalars"))
		case last == nil:
			p.fail("Scalars", "scalar %d is as in the last run, which had not as many", i)
			return dst[:0]
		default:
			dst[i] = last[i]
		}
	}
	return dst
}
