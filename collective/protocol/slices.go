package protocol

// Slice is a stretch of a buffer: Off bytes from its start, Len long.
type Slice struct{ Off, Len int }

// Of returns the stretch of b.
func (s Slice) Of(b []byte) []byte { return b[s.Off : s.Off+s.Len : s.Off+s.Len] }

// End returns the offset after the last byte.
func (s Slice) End() int { return s.Off + s.Len }

// Part returns the i-th of so many parts of n bytes of elements of unit bytes. They are
// as even as whole elements allow: the first ones are longer by one element. n is a
// multiple of unit.
func Part(n, unit, parts, i int) Slice {
	elements := n / unit
	base, longer := elements/parts, elements%parts
	off := i*base + min(i, longer)
	length := base
	if i < longer {
		length++
	}
	return Slice{off * unit, length * unit}
}

// line is the bytes of a cache line.
const line = 64

// SplitLines returns all parts of n bytes, as Part has them, but in whole cache lines
// where there are enough of them. Then no two parts of a buffer that begins at a line
// share one. The last part takes the rest.
func SplitLines(n, unit, parts int) []Slice {
	out := make([]Slice, parts)
	for i := range out {
		out[i] = PartLines(n, unit, parts, i)
	}
	return out
}

// PartLines returns SplitLines(n, unit, parts)[i].
func PartLines(n, unit, parts, i int) Slice {
	if n < parts*line {
		return Part(n, unit, parts, i)
	}
	s := Part(n/line*line, line, parts, i)
	if i == parts-1 {
		s.Len = n - s.Off
	}
	return s
}

// Packed returns where parts of the given lengths lie one after the other.
func Packed(counts []int) []Slice {
	out := make([]Slice, len(counts))
	off := 0
	for i, n := range counts {
		out[i] = Slice{off, n}
		off += n
	}
	return out
}
