package codec

import (
	"encoding/binary"
	"math"

	"github.com/fxamacker/cbor/v2"
	"lukechampine.com/blake3"

	"github.com/ringside-go/ringside/gather/outcome"
)

// Version is of the manifest and of the container.
//
//	1  2026-11: the first
const Version = 1

const (
	magic     = "GRD1"
	prefixLen = 12
	align     = 64
	leafSize  = 1 << 20

	signatureLen = 64
	flagSigned   = 1

	// MaxHeader is the most bytes of a header: it is held in memory whole.
	MaxHeader = 16 << 20

	// MaxMeta is the most bytes of a payload's meta: every rank gets those of all peers.
	MaxMeta = 4 << 10

	blockRows = 16

	minScale, maxScale = 1e-12, 1e4
)

// canonical encodes what is hashed; strict decodes what another host wrote.
var (
	canonical = must(cbor.CoreDetEncOptions().EncMode())
	strict    = must(decoding(maxList).DecMode())
)

// maxList is the most elements of a list.
const maxList = 1 << 22

// decoding is how lists of at most so many elements are decoded.
func decoding(list int) cbor.DecOptions {
	return cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxNestedLevels: 8,
		MaxArrayElements: list, MaxMapPairs: 1 << 16,
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // constant options
	}
	return v
}

// Header is what a payload says about itself.
type Header struct {
	Window   uint64            `cbor:"1,keyasint"`
	UID      uint64            `cbor:"2,keyasint"`
	Step     uint64            `cbor:"3,keyasint"` // the peer's global step
	Manifest []byte            `cbor:"4,keyasint"` // its digest
	Meta     map[string]string `cbor:"5,keyasint,omitempty"`
	Params   []ParamHeader     `cbor:"6,keyasint"`
}

// ParamHeader is what a payload says about one parameter. Offsets count from the first
// section.
type ParamHeader struct {
	ID        uint32    `cbor:"1,keyasint"` // its place in the manifest
	Rows      uint64    `cbor:"2,keyasint"`
	K         uint64    `cbor:"3,keyasint"`
	Shift     float32   `cbor:"4,keyasint"`
	Scale     float32   `cbor:"5,keyasint"`
	Lookup    []float32 `cbor:"6,keyasint,omitempty"`
	IndexOff  uint64    `cbor:"7,keyasint"`
	IndexLen  uint64    `cbor:"8,keyasint"`
	ValueOff  uint64    `cbor:"9,keyasint"`
	ValueLen  uint64    `cbor:"10,keyasint"`
	BlockRows uint32    `cbor:"11,keyasint,omitempty"`
	Blocks    []uint32  `cbor:"12,keyasint,omitempty"` // offsets in the index section
	Hist      []uint64  `cbor:"13,keyasint,omitempty"` // how often each code occurs
}

// headers decodes headers of payloads of m. An empty parameter is one byte there, and
// more than a hundred in memory: no list may be much longer than one of a payload can be.
func (m *Manifest) headers() cbor.DecMode {
	longest := len(m.Params)
	for i := range m.Params {
		p := &m.Params[i]
		longest = max(longest, p.Bins, p.Rows/blockRows)
	}
	// check says what a list that is a little too long is
	return must(decoding(min(longest+16, maxList)).DecMode())
}

// Table returns the values that the codes stand for, or nil without a codebook.
func (h *ParamHeader) Table() []float32 { return h.appendTable(nil) }

func (h *ParamHeader) appendTable(b []float32) []float32 {
	for _, v := range h.Lookup {
		b = append(b, v+h.Shift)
	}
	return b
}

// parsePrefix reads the first 12 bytes.
func parsePrefix(b []byte) (headerLen int, signed bool, err error) {
	version, flags, n := binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint16(b[6:]), binary.LittleEndian.Uint32(b[8:])
	switch {
	case string(b[:4]) != magic:
		return 0, false, outcome.Errorf(outcome.BadFormat, "magic %q, expected %q", b[:4], magic)
	case version != Version:
		return 0, false, outcome.Errorf(outcome.BadFormat, "version %d, expected %d", version, Version)
	case flags&^flagSigned != 0:
		return 0, false, outcome.Errorf(outcome.BadFormat, "flags %#x, expected 0 or 1", flags)
	case n > MaxHeader:
		return 0, false, outcome.Errorf(outcome.BadFormat, "header of %d bytes, expected at most %d", n, MaxHeader)
	}
	return int(n), flags&flagSigned != 0, nil
}

// check compares a header with what is expected: rules 2 to 6 of the specification.
func (h *Header) check(want *Expect) error {
	m := want.Manifest
	if digest := m.Digest(); string(h.Manifest) != string(digest[:]) {
		return outcome.Errorf(outcome.ManifestMismatch, "manifest %x, expected %x", h.Manifest, digest[:8])
	}
	if h.Window != want.Window || h.UID != want.UID {
		return outcome.Errorf(outcome.WindowMismatch, "window %d of peer %d, expected window %d of peer %d", h.Window, h.UID, want.Window, want.UID)
	}
	if err := h.checkMeta(); err != nil {
		return err
	}
	for i := range h.Params {
		if id := h.Params[i].ID; int(id) >= len(m.Params) || i > 0 && id <= h.Params[i-1].ID {
			return outcome.Errorf(outcome.UnknownParam, "parameter %d at place %d, expected each of 0 to %d once, in order", id, i, len(m.Params)-1)
		}
	}
	if len(h.Params) != len(m.Params) {
		return outcome.Errorf(outcome.MissingParam, "%d parameters, expected %d", len(h.Params), len(m.Params))
	}
	off := uint64(0)
	for i := range h.Params {
		if err := h.Params[i].checkShape(&m.Params[i], &off); err != nil {
			return err
		}
	}
	for i := range h.Params {
		if err := h.Params[i].checkBook(&m.Params[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkMeta bounds the meta.
func (h *Header) checkMeta() error {
	n := 0
	for k, v := range h.Meta {
		n += len(k) + len(v)
	}
	if n > MaxMeta {
		return outcome.Errorf(outcome.BadFormat, "%d bytes of meta, expected at most %d", n, MaxMeta)
	}
	return nil
}

// checkShape checks the sizes and offsets, all of which the manifest implies, but for the
// length of a Rice section.
func (h *ParamHeader) checkShape(p *Param, off *uint64) error {
	bad := func(what string, got, want uint64) error {
		return outcome.Errorf(outcome.BadShape, "%s: %s %d, expected %d", p.Name, what, got, want)
	}
	rows, blocks, every := uint64(p.Rows), 0, uint32(0)
	length := rows * uint64(p.Index.stride(p.TotalK, p.K))
	if p.Index == Rice {
		blocks, every = (p.Rows+blockRows-1)/blockRows, blockRows
		if length = h.IndexLen; length > min(rows*uint64(p.MaxIndexRow()), math.MaxUint32) {
			return bad("bytes of indices", length, rows*uint64(p.MaxIndexRow()))
		}
	}
	bins := p.Bins
	for _, c := range []struct {
		what      string
		got, want uint64
	}{
		{"rows", h.Rows, rows}, {"k", h.K, uint64(p.K)},
		{"bins", uint64(len(h.Lookup)), uint64(bins)}, {"histogram bins", uint64(len(h.Hist)), uint64(bins)},
		{"index offset", h.IndexOff, *off}, {"bytes of indices", h.IndexLen, length},
		{"value offset", h.ValueOff, alignUp(*off + length)}, {"bytes of values", h.ValueLen, rows * uint64(p.ValueRow())},
		{"rows a block", uint64(h.BlockRows), uint64(every)}, {"blocks", uint64(len(h.Blocks)), uint64(blocks)},
	} {
		if c.got != c.want {
			return bad(c.what, c.got, c.want)
		}
	}
	*off = alignUp(h.ValueOff + h.ValueLen)
	return nil
}

// checkBook checks that the codebook has numbers in it.
func (h *ParamHeader) checkBook(p *Param) error {
	if !p.Value.lut() {
		return nil
	}
	if s := math.Abs(float64(h.Scale)); !(s >= minScale*(1-1e-6) && s <= maxScale) || !finite(h.Shift) {
		return outcome.Errorf(outcome.BadQuant, "%s: scale %v, shift %v: expected 1e-12 to 1e4, and a finite number", p.Name, h.Scale, h.Shift)
	}
	for b, v := range h.Lookup {
		if !finite(v) || !finite(v+h.Shift) {
			return outcome.Errorf(outcome.BadQuant, "%s: level %d of the codebook is %v, expected a finite number", p.Name, b, v)
		}
	}
	return nil
}

func alignUp(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }

// Marshal returns the canonical CBOR of v: equal values have equal bytes.
func Marshal(v any) ([]byte, error) { return canonical.Marshal(v) }

// Unmarshal reads CBOR that another process wrote into v. It refuses unknown fields,
// repeated keys and lengths that are not known beforehand.
func Unmarshal(b []byte, v any) error { return strict.Unmarshal(b, v) }

// Sum returns the digest of v's canonical CBOR.
func Sum(v any) (Digest, error) {
	b, err := Marshal(v)
	return blake3.Sum256(b), err
}
