package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/ringside-go/ringside/shm"
)

// parser reads the fields of one message in order. After the first error every read
// returns zero and the error stays.
type parser struct {
	msg string // the message's name, for errors
	src []byte
	off int
	err error
}

func (p *parser) fail(field, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s.%s at byte %d of %d: %s", ErrMalformed, p.msg, field, p.off, len(p.src),
			fmt.Sprintf(format, args...))
	}
}

// take returns the next n bytes, with their capacity cut off.
func (p *parser) take(field string, n int) []byte {
	if p.err != nil {
		return nil
	}
	if n > len(p.src)-p.off {
		p.fail(field, "needs %d bytes, %d are left", n, len(p.src)-p.off)
		return nil
	}
	b := p.src[p.off : p.off+n : p.off+n]
	p.off += n
	return b
}

func (p *parser) u8(field string) uint8 {
	if b := p.take(field, 1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) bool(field string) bool {
	v := p.u8(field)
	if v > 1 {
		p.fail(field, "%d is neither 0 nor 1", v)
	}
	return v == 1
}

func (p *parser) u32(field string) uint32 {
	if b := p.take(field, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (p *parser) u64(field string) uint64 {
	if b := p.take(field, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (p *parser) uvarint(field string) uint64 {
	if p.err != nil {
		return 0
	}
	v, n := binary.Uvarint(p.src[p.off:])
	if n <= 0 {
		p.fail(field, "not a varint")
		return 0
	}
	p.off += n
	return v
}

// number reads an integer of at most limit.
func (p *parser) number(field string, limit uint32) uint32 {
	v := p.uvarint(field)
	if v > uint64(limit) {
		p.fail(field, "%d is over the limit of %d", v, limit)
		return 0
	}
	return uint32(v)
}

func (p *parser) varint(field string) int64 { return unzigzag(p.uvarint(field)) }

// count reads a number of elements of at least size bytes each.
func (p *parser) count(field string, limit, size int) int {
	v := p.uvarint(field)
	if p.err != nil {
		return 0
	}
	if v > uint64(limit) {
		p.fail(field, "count %d is over the limit of %d", v, limit)
		return 0
	}
	if int(v)*size > len(p.src)-p.off {
		p.fail(field, "count %d needs %d bytes, %d are left", v, int(v)*size, len(p.src)-p.off)
		return 0
	}
	return int(v)
}

// bytes reads a length and that many bytes, which stay in the message.
func (p *parser) bytes(field string, limit int) []byte {
	n := p.count(field, limit, 1)
	return p.take(field, n)
}

// text reads a length and that many bytes into a string.
func (p *parser) text(field string, limit int) string { return string(p.bytes(field, limit)) }

func (p *parser) hash(field string) (h Hash) {
	copy(h[:], p.take(field, HashBytes))
	return h
}

func (p *parser) handle(field string) (h Handle) {
	if b := p.take(field, HandleBytes); b != nil {
		h = shm.GetHandle(b)
	}
	return h
}

func (p *parser) handles(field string, n int, dst []Handle) []Handle {
	dst = resize(dst, n)
	for i := range dst {
		dst[i] = p.handle(field)
	}
	return dst
}

// end returns the first error, or one for bytes that nobody read.
func (p *parser) end() error {
	if p.err == nil && p.off != len(p.src) {
		p.fail("end", "%d bytes too many", len(p.src)-p.off)
	}
	return p.err
}

func appendU32(dst []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(dst, v) }
func appendU64(dst []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(dst, v) }
func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}
func appendUint(dst []byte, v uint64) []byte  { return binary.AppendUvarint(dst, v) }
func appendCount(dst []byte, n int) []byte    { return binary.AppendUvarint(dst, uint64(n)) }
func appendF64(dst []byte, v float64) []byte  { return appendU64(dst, math.Float64bits(v)) }
func appendText(dst []byte, s string) []byte  { return append(appendCount(dst, len(s)), s...) }
func appendBytes(dst []byte, b []byte) []byte { return append(appendCount(dst, len(b)), b...) }

func sizeUint(v uint64) int  { return (bits.Len64(v|1) + 6) / 7 }
func sizeCount(n int) int    { return sizeUint(uint64(n)) }
func sizeText(s string) int  { return sizeCount(len(s)) + len(s) }
func sizeBytes(b []byte) int { return sizeCount(len(b)) + len(b) }

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// resize returns s with n elements, keeping the elements (and the slices within them) that
// it has room for.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return slices.Grow(s[:cap(s)], n-cap(s))[:n]
}
