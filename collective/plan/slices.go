package plan

// Slice is a stretch of a buffer: Off bytes from its start, Len long.
type Slice struct{ Off, Len int }

// Of is the stretch of b.
func (s Slice) Of(b []byte) []byte { return b[s.Off : s.Off+s.Len : s.Off+s.Len] }

// End is the offset behind the last byte.
func (s Slice) End() int { return s.Off + s.Len }

// Split cuts n bytes of elements of unit bytes into parts as even as whole elements allow: the first ones are
// longer by one. n is a multiple of unit.
func Split(n, unit, parts int) []Slice {
	out := make([]Slice, parts)
	for i := range out {
		out[i] = Part(n, unit, parts, i)
	}
	return out
}

// Part is Split(n, unit, parts)[i].
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

// SplitLines is Split in whole cache lines of 64 bytes where there are enough of them: no two parts of a buffer that
// begins at a line share one, and the last takes what is over.
func SplitLines(n, unit, parts int) []Slice {
	const line = 64
	if n < parts*line {
		return Split(n, unit, parts)
	}
	out := Split(n/line*line, line, parts)
	out[parts-1].Len = n - out[parts-1].Off
	return out
}

// Packed is where the parts of the given lengths lie one behind the other.
func Packed(counts []int) []Slice {
	out := make([]Slice, len(counts))
	off := 0
	for i, n := range counts {
		out[i] = Slice{off, n}
		off += n
	}
	return out
}
