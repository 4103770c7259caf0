package encoding

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/ringside-go/ringside/shm"
)

// Walk visits the fields of one message in the order in which they are encoded. A message
// has one function that lists its fields; the Walk that it is given decides whether it
// appends them or parses them:
//
//	func (m *Flow) walk(w *encoding.Walk) {
//		w.U64("Session", &m.Session)
//		w.Bool("Stop", &m.Stop)
//	}
//
// A Walk that appends only reads the fields, and trusts them. One that parses checks each
// field against the bytes that are there and against its limit before it allocates. After
// its first error it sets every further field to zero.
type Walk struct {
	parses bool
	buf    []byte // the bytes appended so far, or those to parse
	n      int    // bytes parsed so far
	msg    any    // the message that is parsed, or its name, for errors
	err    error
}

// Appending returns a Walk that appends to dst. See [Walk.Appended].
func Appending(dst []byte) Walk { return Walk{buf: dst} }

// Parsing returns a Walk that parses src. msg is a pointer to the message, whose type
// names it in errors, or a name. See [Walk.End].
func Parsing(msg any, src []byte) Walk { return Walk{parses: true, buf: src, msg: msg} }

// Appended returns dst of [Appending] with the fields behind it.
func (w *Walk) Appended() []byte { return w.buf }

// End returns the first error of a Walk that parses. Bytes behind the last field are one.
func (w *Walk) End() error {
	if w.err == nil && w.n != len(w.buf) {
		w.Fail("end", "%d bytes too many", len(w.buf)-w.n)
	}
	return w.err
}

// Parses reports whether w sets the fields, instead of reading them.
func (w *Walk) Parses() bool { return w.parses }

// Err returns the first error so far.
func (w *Walk) Err() error { return w.err }

// Abort makes err the error of w, unless it has one. It cuts off the bytes that are left,
// so that no field behind it is parsed.
func (w *Walk) Abort(err error) {
	if w.err == nil && err != nil {
		w.err, w.buf = err, w.buf[:w.n]
	}
}

// Fail makes an ErrMalformed that names the field the error of w, unless it has one.
func (w *Walk) Fail(field, format string, args ...any) {
	if w.err == nil {
		w.Abort(fmt.Errorf("%w: %s.%s at byte %d of %d: %s", ErrMalformed, w.name(), field, w.n, len(w.buf),
			fmt.Sprintf(format, args...)))
	}
}

// name returns the name of the message that is parsed.
func (w *Walk) name() string {
	if name, ok := w.msg.(string); ok {
		return name
	}
	return reflect.TypeOf(w.msg).Elem().Name()
}

// Take returns the next n bytes of a Walk that parses, with their capacity cut off. It
// returns nil after an error.
func (w *Walk) Take(field string, n int) []byte {
	at := w.n
	if n > len(w.buf)-at {
		return w.short(field, n)
	}
	w.n = at + n
	return w.buf[at : at+n : at+n]
}

// short is not inlined, so that Take needs no frame for the arguments of an error.
//
//go:noinline
func (w *Walk) short(field string, n int) []byte {
	w.Fail(field, "needs %d bytes, %d are left", n, len(w.buf)-w.n)
	return nil
}

// A function that visits a field is small enough to be inlined where it appends short
// fields. Where it parses, it makes one call. With more calls a field a message of ten
// fields takes up to twice as long: see bench/results.

// U8 visits one byte.
func (w *Walk) U8(field string, v *uint8) {
	if w.parses {
		*v = w.takeU8(field)
	} else {
		w.buf = append(w.buf, *v)
	}
}

func (w *Walk) takeU8(field string) uint8 {
	buf, at := w.buf, uint(w.n)
	if at >= uint(len(buf)) {
		w.short(field, 1)
		return 0
	}
	w.n = int(at + 1)
	return buf[at]
}

// Bool visits a byte that is 0 or 1.
func (w *Walk) Bool(field string, v *bool) {
	if w.parses {
		b := w.takeU8(field)
		if b > 1 {
			w.Fail(field, "%d is neither 0 nor 1", b)
		}
		*v = b == 1
		return
	}
	var b uint8
	if *v {
		b = 1
	}
	w.buf = append(w.buf, b)
}

// U32 visits four bytes.
func (w *Walk) U32(field string, v *uint32) {
	if w.parses {
		*v = w.takeU32(field)
	} else {
		w.buf = binary.LittleEndian.AppendUint32(w.buf, *v)
	}
}

func (w *Walk) takeU32(field string) uint32 {
	buf, at := w.buf, uint(w.n)
	end := at + 4
	if end > uint(len(buf)) || at > end {
		w.short(field, 4)
		return 0
	}
	w.n = int(end)
	return binary.LittleEndian.Uint32(buf[at:end])
}

// U64 visits eight bytes.
func (w *Walk) U64(field string, v *uint64) {
	if w.parses {
		*v = w.takeU64(field)
	} else {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, *v)
	}
}

func (w *Walk) takeU64(field string) uint64 {
	buf, at := w.buf, uint(w.n)
	end := at + 8
	if end > uint(len(buf)) || at > end {
		w.short(field, 8)
		return 0
	}
	w.n = int(end)
	return binary.LittleEndian.Uint64(buf[at:end])
}

// F64 visits the eight bytes of a float64.
func (w *Walk) F64(field string, v *float64) {
	if w.parses {
		*v = math.Float64frombits(w.takeU64(field))
	} else {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, math.Float64bits(*v))
	}
}

// Uvarint visits an unsigned varint. Nearly all take one byte.
func (w *Walk) Uvarint(field string, v *uint64) {
	if w.parses || *v >= 0x80 {
		w.uvarint(field, v)
	} else {
		w.buf = append(w.buf, byte(*v))
	}
}

func (w *Walk) uvarint(field string, v *uint64) {
	if !w.parses {
		w.buf = binary.AppendUvarint(w.buf, *v)
	} else if b, ok := w.takeShort(); ok {
		*v = uint64(b)
	} else {
		*v = w.takeLong(field)
	}
}

// putUvarint appends a varint.
func (w *Walk) putUvarint(v uint64) {
	if v < 0x80 {
		w.buf = append(w.buf, byte(v))
	} else {
		w.buf = binary.AppendUvarint(w.buf, v)
	}
}

// takeShort returns the next varint of a Walk that parses if it takes one byte.
func (w *Walk) takeShort() (b uint8, ok bool) {
	buf, at := w.buf, uint(w.n)
	if at >= uint(len(buf)) || buf[at] >= 0x80 {
		return 0, false
	}
	w.n = int(at + 1)
	return buf[at], true
}

// takeLong returns the next varint of a Walk that parses. It returns 0 after an error.
func (w *Walk) takeLong(field string) uint64 {
	v, n := binary.Uvarint(w.buf[w.n:])
	if n <= 0 {
		w.Fail(field, "not a varint")
		return 0
	}
	w.n += n
	return v
}

// Number visits a varint of at most limit.
func (w *Walk) Number(field string, v *uint32, limit uint32) {
	if w.parses || *v >= 0x80 {
		w.number(field, v, limit)
	} else {
		w.buf = append(w.buf, byte(*v))
	}
}

func (w *Walk) number(field string, v *uint32, limit uint32) {
	if !w.parses {
		w.buf = binary.AppendUvarint(w.buf, uint64(*v))
		return
	}
	b, ok := w.takeShort()
	u := uint64(b)
	if !ok {
		u = w.takeLong(field)
	}
	if u > uint64(limit) {
		w.Fail(field, "%d is over the limit of %d", u, limit)
		u = 0
	}
	*v = uint32(u)
}

// Delta visits the zigzag varint of the difference from base to *v. Both may be any
// uint64: the difference is modulo 2^64.
func (w *Walk) Delta(field string, v *uint64, base uint64) {
	if !w.parses {
		d := int64(*v - base)
		w.putUvarint(uint64(d)<<1 ^ uint64(d>>63))
		return
	}
	b, ok := w.takeShort()
	u := uint64(b)
	if !ok {
		u = w.takeLong(field)
	}
	*v = base + (u>>1 ^ -(u & 1))
}

// Count visits the number of elements of a list as a varint and returns it. A parser
// wants at most limit, and as many bytes behind the count as elements of size bytes take.
func (w *Walk) Count(field string, n, limit, size int) int {
	if !w.parses {
		w.putUvarint(uint64(n))
		return n
	}
	b, ok := w.takeShort()
	v := uint64(b)
	if !ok {
		v = w.takeLong(field)
	}
	switch {
	case v > uint64(limit):
		w.Fail(field, "count %d is over the limit of %d", v, limit)
		return 0
	case int(v)*size > len(w.buf)-w.n:
		w.Fail(field, "count %d needs %d bytes, %d are left", v, int(v)*size, len(w.buf)-w.n)
		return 0
	}
	return int(v)
}

// Bytes visits a length of at most limit and that many bytes. Parsed ones stay in the
// message.
func (w *Walk) Bytes(field string, v *[]byte, limit int) {
	if w.parses {
		*v = w.Take(field, w.Count(field, 0, limit, 1))
	} else {
		w.putUvarint(uint64(len(*v)))
		w.buf = append(w.buf, *v...)
	}
}

// Text visits a length of at most limit and that many bytes of a string.
func (w *Walk) Text(field string, v *string, limit int) {
	if !w.parses {
		w.putUvarint(uint64(len(*v)))
		w.buf = append(w.buf, *v...)
	} else if n := w.Count(field, 0, limit, 1); n > 0 {
		*v = string(w.Take(field, n))
	} else {
		*v = ""
	}
}

// Fixed visits the bytes of v, whose number both ends know.
func (w *Walk) Fixed(field string, v []byte) {
	if !w.parses {
		w.buf = append(w.buf, v...)
	} else if b := w.Take(field, len(v)); b != nil {
		copy(v, b)
	} else {
		clear(v)
	}
}

// Handle visits a handle.
func (w *Walk) Handle(field string, v *shm.Handle) {
	if !w.parses {
		w.buf = v.Append(w.buf)
	} else if b := w.Take(field, shm.HandleSize); b != nil {
		*v = shm.GetHandle(b)
	} else {
		*v = shm.Handle{}
	}
}

// List visits the count of *s as [Walk.Count] does. A parser gives *s that many elements,
// and keeps those, with the slices within them, for which *s has room: the caller visits
// each element next or later. Most lists are empty, for which a parser calls nothing.
func List[T any](w *Walk, field string, s *[]T, limit, size int) {
	if w.parses && w.takeZero() {
		*s = (*s)[:0]
	} else {
		list(w, field, s, limit, size)
	}
}

// takeZero takes the next byte of a Walk that parses if it is 0.
func (w *Walk) takeZero() bool {
	if at := uint(w.n); at >= uint(len(w.buf)) || w.buf[at] != 0 {
		return false
	}
	w.n++
	return true
}

func list[T any](w *Walk, field string, s *[]T, limit, size int) {
	if n := w.Count(field, len(*s), limit, size); w.parses {
		*s = Resize(*s, n)
	}
}

// Resize returns s with n elements, keeping those for which it has room.
func Resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return slices.Grow(s[:cap(s)], n-cap(s))[:n]
}
