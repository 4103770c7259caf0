package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Value is a tensor in a message: its type, its shape, and its bytes, either within the
// message or by handle.
type Value struct {
	DType  uint8
	Dims   []int
	Inline []byte // at most MaxInline bytes; when nil the bytes are at Handle
	Handle Handle

	// Elsewhere says that another message has the bytes.
	Elsewhere bool
}

// Forms of a value.
const (
	formHandle uint8 = 0
	formInline uint8 = 1
	formNone   uint8 = 2
)

func (v *Value) form() uint8 {
	switch {
	case v.Elsewhere:
		return formNone
	case v.Inline != nil:
		return formInline
	}
	return formHandle
}

// minValue is the least number of bytes of a value.
const minValue = 3

// walk visits: dtype uint8, form uint8, rank uint8, dims uvarint each, then the handle,
// or the length (uvarint) and the bytes, or nothing.
func (v *Value) walk(w *encoding.Walk, field string) {
	form := v.form()
	w.U8(field, &v.DType)
	w.U8(field, &form)
	if rank := walkRank(w, field, len(v.Dims)); w.Parses() {
		v.Dims = encoding.Resize(v.Dims, rank)
		v.Inline, v.Handle, v.Elsewhere = nil, Handle{}, form == formNone
	}
	walkDims(w, field, v.Dims)
	if w.Parses() {
		checkElements(w, field, v.Dims)
	}
	switch form {
	case formHandle:
		w.Handle(field, &v.Handle)
	case formInline:
		w.Bytes(field, &v.Inline, MaxInline)
	case formNone:
	default:
		w.Fail(field, "form %d is neither handle (%d), inline (%d) nor none (%d)", form, formHandle, formInline, formNone)
	}
}

// walkRank visits a number of dims.
func walkRank(w *encoding.Walk, field string, n int) int {
	rank := uint8(n)
	if w.U8(field, &rank); w.Parses() && rank > MaxRank {
		w.Fail(field, "rank %d is over the limit of %d", rank, MaxRank)
		return 0
	}
	return int(rank)
}

// walkDims visits dims, or positions within dims.
func walkDims(w *encoding.Walk, field string, dims []int) {
	for i := range dims {
		d := uint64(dims[i])
		w.Uvarint(field, &d)
		if !w.Parses() {
			continue
		}
		if d > maxDimProduct {
			w.Fail(field, "dimension %d is %d, want at most %d", i, d, uint64(maxDimProduct))
			d = 0
		}
		dims[i] = int(d)
	}
}

// checkElements refuses dims of more than maxDimProduct elements. Behind a dimension of 0
// the others may be of any size.
func checkElements(w *encoding.Walk, field string, dims []int) {
	elements := uint64(1)
	for i, d := range dims {
		if elements > 0 && uint64(d) > maxDimProduct/elements {
			w.Fail(field, "dimension %d is %d: more than %d elements", i, d, uint64(maxDimProduct))
			return
		}
		elements *= uint64(d)
	}
}
