package codec

import (
	"encoding/binary"
	"math/bits"

	"github.com/ringside-go/ringside/gather/outcome"
)

// appendIndices appends the indices of one row, which are ascending.
func appendIndices(b []byte, p *Param, idx []uint32) []byte {
	switch p.Index {
	case Pack12:
		for i := 0; i < len(idx); i += 2 {
			x, y := idx[i], idx[i+1]
			b = append(b, byte(x), byte(x>>8&15|y<<4), byte(y>>4))
		}
	case Rice:
		b = appendRice(b, idx)
	case Bitmap:
		at := len(b)
		b = append(b, make([]byte, (p.TotalK+7)/8)...)
		for _, i := range idx {
			b[at+int(i>>3)] |= 1 << (i & 7)
		}
	case U16:
		for _, i := range idx {
			b = binary.LittleEndian.AppendUint16(b, uint16(i))
		}
	}
	return b
}

// appendRice appends a row with the parameter that makes it shortest.
func appendRice(b []byte, idx []uint32) []byte {
	param, best := 0, 1<<62
	for p := range 16 {
		n, prev := 4, ^uint32(0)
		for _, i := range idx {
			n += int((i-prev-1)>>p) + 1 + p
			prev = i
		}
		if n < best {
			param, best = p, n
		}
	}
	acc, n := uint64(param), 4
	flush := func() {
		for ; n >= 8; n -= 8 {
			b = append(b, byte(acc))
			acc >>= 8
		}
	}
	prev := ^uint32(0)
	for _, i := range idx {
		gap := i - prev - 1
		prev = i
		for q := gap >> param; q > 0; {
			ones := min(q, 32)
			acc |= (1<<ones - 1) << n
			n += int(ones)
			q -= ones
			flush()
		}
		acc |= uint64(gap&(1<<param-1)) << (n + 1) // behind the zero
		n += 1 + param
		flush()
	}
	if n > 0 {
		b = append(b, byte(acc))
	}
	return b
}

// decodeIndices fills idx, which has p.K places, from the row at the start of src, and
// returns the bytes that the row takes. Those of Pack12 and U16 are not checked; see
// ascending and inRange. A row that src ends within is Truncated.
func decodeIndices(idx []uint32, p *Param, src []byte) (int, outcome.Outcome) {
	if p.Index == Rice {
		return decodeRice(idx, src, uint32(p.TotalK))
	}
	n := p.Index.stride(p.TotalK, p.K)
	if len(src) < n {
		return 0, outcome.Truncated
	}
	src = src[:n]
	switch p.Index {
	case Pack12:
		for i, j := 0, 0; j+3 <= len(src) && i+2 <= len(idx); i, j = i+2, j+3 {
			x := uint32(src[j]) | uint32(src[j+1])<<8 | uint32(src[j+2])<<16
			idx[i], idx[i+1] = x&0xfff, x>>12
		}
	case Bitmap:
		return n, decodeBitmap(idx, src, p.TotalK)
	case U16:
		for i := range idx {
			idx[i] = uint32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case Dense:
		for i := range idx {
			idx[i] = uint32(i)
		}
		return 0, outcome.OK
	}
	return n, outcome.OK
}

// inRange checks what memory safety needs of decoded indices.
func inRange(idx []uint32, p *Param) outcome.Outcome {
	if p.Index == Pack12 && p.TotalK == 4096 || p.Index != Pack12 && p.Index != U16 {
		return outcome.OK
	}
	var most uint32
	for _, i := range idx {
		most = max(most, i)
	}
	if int(most) >= p.TotalK {
		return outcome.IndexRange
	}
	return outcome.OK
}

// ascending checks the indices of a row.
func ascending(idx []uint32, total uint32) outcome.Outcome {
	s := outcome.OK
	prev := int64(-1)
	for _, i := range idx {
		if i >= total {
			return outcome.IndexRange
		}
		if int64(i) <= prev && s == outcome.OK {
			s = outcome.IndexOrder
			if int64(i) == prev {
				s = outcome.IndexDup
			}
		}
		prev = int64(i)
	}
	return s
}

func decodeBitmap(idx []uint32, src []byte, total int) outcome.Outcome {
	n := 0
	for at, b := range src {
		for ; b != 0; b &= b - 1 {
			i := at*8 + bits.TrailingZeros8(b)
			if i >= total {
				return outcome.IndexRange
			}
			if n == len(idx) {
				return outcome.BadShape
			}
			idx[n] = uint32(i)
			n++
		}
	}
	if n != len(idx) {
		return outcome.BadShape
	}
	return outcome.OK
}

// decodeRice decodes one row. acc holds the next n bits of src, n of them from pos on.
func decodeRice(idx []uint32, src []byte, total uint32) (int, outcome.Outcome) {
	if len(src) == 0 {
		return 0, outcome.Truncated
	}
	param := uint(src[0] & 15)
	mask := uint64(1)<<param - 1
	acc, n, pos := uint64(src[0]>>4), uint(4), 1
	next := uint64(0) // the least that the next index can be
	for i := range idx {
		if n < 48 {
			if pos+8 <= len(src) {
				acc |= binary.LittleEndian.Uint64(src[pos:]) << n
				pos += int((63 - n) >> 3)
				n |= 56
			} else {
				for ; n <= 56 && pos < len(src); n += 8 {
					acc |= uint64(src[pos]) << n
					pos++
				}
			}
		}
		ones := uint(bits.TrailingZeros64(^acc))
		if ones+1+param > n {
			q, a, k, at, ok := longRice(acc, n, pos, param, src, total)
			if !ok {
				if at >= len(src) {
					return 0, outcome.Truncated
				}
				return 0, outcome.IndexRange
			}
			next += q
			acc, n, pos = a, k, at
		} else {
			acc >>= ones + 1
			next += uint64(ones)<<param | acc&mask
			acc >>= param
			n -= ones + 1 + param
		}
		if next >= uint64(total) {
			return 0, outcome.IndexRange
		}
		idx[i] = uint32(next)
		next++
	}
	used := pos - int(n/8) // whole bytes in acc are of the next row
	if acc&(1<<(n%8)-1) != 0 {
		return 0, outcome.BadShape
	}
	return used, outcome.OK
}

// longRice decodes one gap bit by bit, which the bits in acc do not hold whole. Where it
// fails, at is len(src) if the bits ran out.
func longRice(acc uint64, n uint, pos int, param uint, src []byte, total uint32) (gap, rest uint64, left uint, at int, ok bool) {
	bit := func() (uint64, bool) {
		if n == 0 {
			if pos == len(src) {
				return 0, false
			}
			acc, n = uint64(src[pos]), 8
			pos++
		}
		x := acc & 1
		acc >>= 1
		n--
		return x, true
	}
	for {
		x, ok := bit()
		if !ok {
			return 0, 0, 0, len(src), false
		}
		if x == 0 {
			break
		}
		if gap += 1 << param; gap >= uint64(total) {
			return 0, 0, 0, 0, false
		}
	}
	for i := range param {
		x, ok := bit()
		if !ok {
			return 0, 0, 0, len(src), false
		}
		gap |= x << i
	}
	return gap, acc, n, pos, true
}
