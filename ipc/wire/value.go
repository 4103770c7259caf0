package wire

// Value is a tensor that travels: its type, its shape, and its bytes, either within the
// message or by handle.
type Value struct {
	DType  uint8
	Dims   []int64
	Inline []byte // at most MaxInline bytes; when nil the bytes are at Handle
	Handle Handle

	// Elsewhere is a value whose bytes are not said here.
	Elsewhere bool
}

// Forms of a value.
const (
	formHandle = 0
	formInline = 1
	formNone   = 2
)

// appendValue is: dtype uint8, form uint8, rank uint8, dims uvarint each, then the handle or
// the length (uvarint) and the bytes, or nothing.
func appendValue(dst []byte, v *Value) []byte {
	form := byte(formHandle)
	switch {
	case v.Elsewhere:
		form = formNone
	case v.Inline != nil:
		form = formInline
	}
	dst = append(dst, v.DType, form, byte(len(v.Dims)))
	for _, d := range v.Dims {
		dst = appendUint(dst, uint64(d))
	}
	switch form {
	case formInline:
		return appendBytes(dst, v.Inline)
	case formNone:
		return dst
	}
	return v.Handle.Append(dst)
}

func (v *Value) size() int {
	n := 3
	for _, d := range v.Dims {
		n += sizeUint(uint64(d))
	}
	switch {
	case v.Elsewhere:
		return n
	case v.Inline != nil:
		return n + sizeBytes(v.Inline)
	}
	return n + HandleBytes
}

// minValue is the least number of bytes a value takes.
const minValue = 3

func (p *parser) value(field string, v *Value) {
	v.DType = p.u8(field)
	form := p.u8(field)
	rank := int(p.u8(field))
	if rank > MaxRank {
		p.fail(field, "rank %d is over the limit of %d", rank, MaxRank)
		rank = 0
	}
	v.Dims = resize(v.Dims, rank)
	elements := uint64(1)
	for i := range v.Dims {
		d := p.uvarint(field)
		// A dimension of 0 makes the product 0, but each of the others must still be an int64.
		if d > maxDimProduct || (elements > 0 && d > maxDimProduct/elements) {
			p.fail(field, "dimension %d is %d: more than %d elements", i, d, uint64(maxDimProduct))
			d = 0
		}
		elements *= d
		v.Dims[i] = int64(d)
	}
	v.Inline, v.Handle, v.Elsewhere = nil, Handle{}, form == formNone
	switch form {
	case formInline:
		v.Inline = p.bytes(field, MaxInline)
	case formHandle:
		v.Handle = p.handle(field)
	case formNone:
	default:
		p.fail(field, "form %d is neither handle (%d), inline (%d) nor none (%d)", form, formHandle, formInline, formNone)
	}
}
