// Package codectest makes payloads for tests: honest ones, and a corpus of containers
// that are wrong in one way each, with the outcome that Validate must give them.
package codectest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
)

// Tiny is the manifest of three small parameters, a matrix, a vector and a matrix with
// sides that 64 does not divide.
func Tiny(c codec.Config) *codec.Manifest {
	m, err := codec.NewManifest(c, []codec.Tensor{
		{Name: "attn.weight", Shape: []int64{128, 256}, DType: "F32"},
		{Name: "norm.weight", Shape: []int64{128}, DType: "F32"},
		{Name: "mlp.weight", Shape: []int64{130, 96}, DType: "F32"},
	})
	if err != nil {
		panic(err) // constant arguments
	}
	return m
}

// Update fills dst with normal numbers that only seed, uid, window and p decide.
func Update(seed, uid, window uint64, p int, dst []float32) {
	r := rand.New(rand.NewPCG(seed^uid<<20, window<<16|uint64(p)))
	for i := range dst {
		dst[i] = float32(r.NormFloat64())
	}
}

// Payload is the container of an honest peer.
func Payload(m *codec.Manifest, window, uid uint64, key ed25519.PrivateKey) *codec.Payload {
	e := codec.NewEncoder(m, &codec.EncoderOptions{Key: key})
	p, err := e.Encode(codec.Header{Window: window, UID: uid, Step: window * 10, Meta: map[string]string{"sample_digest": "00"}},
		func(p int, dst []float32) error { Update(1, uid, window, p, dst); return nil })
	if err != nil {
		panic(err) // the update is finite
	}
	return p
}

// Case is a container that is wrong.
type Case struct {
	Name  string
	Bytes []byte
	Want  outcome.Outcome
}

// NormLimit is what the corpus expects of codec.Expect.
const NormLimit = 1e6

// Corpus makes the wrong containers of one peer. m must have Pack12 indices and U8LUT
// values of fewer than 256 bins, and two parameters or more, the first of them with
// indices.
func Corpus(m *codec.Manifest, window, uid uint64) []Case {
	c := &corpus{m: m, honest: Payload(m, window, uid, nil)}
	c.frame()
	c.identity()
	c.shape()
	c.book()
	c.rows()
	return c.cases
}

type corpus struct {
	m      *codec.Manifest
	honest *codec.Payload
	cases  []Case
}

func (c *corpus) add(name string, b []byte, want outcome.Outcome) {
	c.cases = append(c.cases, Case{name, b, want})
}

// bytes adds a container whose bytes f changes.
func (c *corpus) bytes(name string, want outcome.Outcome, f func(b []byte) []byte) {
	c.add(name, f(c.honest.Bytes()), want)
}

// sealed adds a container with a right digest, whose header or sections f changes.
func (c *corpus) sealed(name string, want outcome.Outcome, f func(h *codec.Header, sections []byte) []byte) {
	h := c.honest.Header
	h.Params = slices.Clone(h.Params)
	for i := range h.Params {
		h.Params[i].Lookup = slices.Clone(h.Params[i].Lookup)
		h.Params[i].Hist = slices.Clone(h.Params[i].Hist)
	}
	sections := f(&h, bytes.Clone(c.honest.Sections()))
	p, err := codec.Seal(h, sections, nil)
	if err != nil {
		panic(err) // the header is small
	}
	c.add(name, p.Bytes(), want)
}

// param adds a container whose first parameter's header f changes.
func (c *corpus) param(name string, want outcome.Outcome, f func(p *codec.ParamHeader)) {
	c.sealed(name, want, func(h *codec.Header, s []byte) []byte { f(&h.Params[0]); return s })
}

func (c *corpus) frame() {
	n := int(c.honest.Size())
	c.add("nothing", nil, outcome.Truncated)
	c.bytes("five bytes", outcome.Truncated, func(b []byte) []byte { return b[:5] })
	c.bytes("another magic", outcome.BadFormat, func(b []byte) []byte { copy(b, "PK\x03\x04"); return b })
	c.bytes("a later version", outcome.BadFormat, func(b []byte) []byte { b[4] = 9; return b })
	c.bytes("an unknown flag", outcome.BadFormat, func(b []byte) []byte { b[6] |= 2; return b })
	c.bytes("a header of 3 GiB", outcome.BadFormat, func(b []byte) []byte { binary.LittleEndian.PutUint32(b[8:], 3<<30); return b })
	c.bytes("a header longer than the file", outcome.Truncated, func(b []byte) []byte { binary.LittleEndian.PutUint32(b[8:], uint32(n)); return b })
	c.bytes("a header longer than any of the manifest", outcome.BadFormat, func(b []byte) []byte { binary.LittleEndian.PutUint32(b[8:], 1<<20); return b })
	c.bytes("a header that is no CBOR", outcome.BadFormat, func(b []byte) []byte { b[12] = 0xff; return b })
	c.bytes("cut in the header", outcome.Truncated, func(b []byte) []byte { return b[:40] })
	c.bytes("cut in a section", outcome.Truncated, func(b []byte) []byte { return b[:n/2] })
	c.bytes("one byte short", outcome.Truncated, func(b []byte) []byte { return b[:n-1] })
	c.bytes("one byte too many", outcome.BadFormat, func(b []byte) []byte { return append(b, 0) })
	c.bytes("a flipped bit of the root", outcome.BadDigest, func(b []byte) []byte { b[n-1] ^= 1; return b })
	c.bytes("a flipped bit of a leaf", outcome.BadDigest, func(b []byte) []byte { b[n-40] ^= 0x80; return b })
	c.bytes("padding that is not zero", outcome.BadFormat, func(b []byte) []byte {
		b[(12+int(binary.LittleEndian.Uint32(b[8:]))+63)&^63-1] = 1
		return b
	})
}

func (c *corpus) identity() {
	c.sealed("another manifest", outcome.ManifestMismatch, func(h *codec.Header, s []byte) []byte {
		h.Manifest = make([]byte, 32)
		return s
	})
	c.sealed("a manifest of 31 bytes", outcome.ManifestMismatch, func(h *codec.Header, s []byte) []byte {
		h.Manifest = h.Manifest[:31]
		return s
	})
	c.sealed("five thousand bytes of meta", outcome.BadFormat, func(h *codec.Header, s []byte) []byte {
		h.Meta = map[string]string{"k": strings.Repeat("v", 5000)}
		return s
	})
	c.sealed("H14: an older window", outcome.WindowMismatch, func(h *codec.Header, s []byte) []byte { h.Window--; return s })
	c.sealed("another peer's", outcome.WindowMismatch, func(h *codec.Header, s []byte) []byte { h.UID++; return s })
	c.sealed("H10: a parameter less", outcome.MissingParam, func(h *codec.Header, s []byte) []byte {
		h.Params = h.Params[:len(h.Params)-1]
		return s
	})
	c.sealed("H7: a parameter too many", outcome.UnknownParam, func(h *codec.Header, s []byte) []byte {
		extra := h.Params[0]
		extra.ID = uint32(len(h.Params))
		h.Params = append(h.Params, extra)
		return s
	})
	c.sealed("a parameter twice", outcome.UnknownParam, func(h *codec.Header, s []byte) []byte {
		h.Params[1].ID = 0
		return s
	})
}

func (c *corpus) shape() {
	c.param("H3: rows of another shape", outcome.BadShape, func(p *codec.ParamHeader) { p.Rows = 1 })
	c.param("rows beyond all memory", outcome.BadShape, func(p *codec.ParamHeader) { p.Rows = 1 << 63 })
	c.param("another k", outcome.BadShape, func(p *codec.ParamHeader) { p.K += 2 })
	c.param("H4: three bytes of indices", outcome.BadShape, func(p *codec.ParamHeader) { p.IndexLen = 3 })
	c.param("values that overlap the indices", outcome.BadShape, func(p *codec.ParamHeader) { p.ValueOff = 0 })
	c.param("values that end early", outcome.BadShape, func(p *codec.ParamHeader) { p.ValueLen-- })
	c.param("an offset that wraps", outcome.BadShape, func(p *codec.ParamHeader) { p.IndexOff = 1<<64 - 64 })
	c.param("H1: a codebook of another length", outcome.BadShape, func(p *codec.ParamHeader) { p.Lookup = p.Lookup[:1] })
	c.param("a histogram of another length", outcome.BadShape, func(p *codec.ParamHeader) { p.Hist = append(p.Hist, 0) })
	c.param("blocks where rows are fixed", outcome.BadShape, func(p *codec.ParamHeader) { p.BlockRows, p.Blocks = 16, []uint32{0} })
}

func (c *corpus) book() {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	c.param("a codebook with a NaN", outcome.BadQuant, func(p *codec.ParamHeader) { p.Lookup[0] = nan })
	c.param("a codebook with an infinity", outcome.BadQuant, func(p *codec.ParamHeader) { p.Lookup[1] = -inf })
	c.param("a codebook beyond 3e38", outcome.BadQuant, func(p *codec.ParamHeader) { p.Lookup[1] = 3.2e38 })
	c.param("a shift that is no number", outcome.BadQuant, func(p *codec.ParamHeader) { p.Shift = nan })
	c.param("a level that overflows with the shift", outcome.BadQuant, func(p *codec.ParamHeader) { p.Shift, p.Lookup[0] = 2e38, 2e38 })
	c.param("a scale of zero", outcome.BadQuant, func(p *codec.ParamHeader) { p.Scale = 0 })
	c.param("a scale of 1e9", outcome.BadQuant, func(p *codec.ParamHeader) { p.Scale = 1e9 })
	c.param("a scale that is no number", outcome.BadQuant, func(p *codec.ParamHeader) { p.Scale = nan })
	c.param("a histogram that lies", outcome.BadQuant, func(p *codec.ParamHeader) { p.Hist[0]++ })
	c.param("H6: a codebook of 1e30", outcome.NormLimit, func(p *codec.ParamHeader) {
		for i := range p.Lookup {
			p.Lookup[i] = 1e30
		}
	})
}

// rows changes the first row of the first parameter.
func (c *corpus) rows() {
	pair := func(b []byte, x, y uint32) { b[0], b[1], b[2] = byte(x), byte(x>>8|y<<4), byte(y>>4) }
	first := &c.m.Params[0]
	c.sealed("an index beyond the chunk", outcome.IndexRange, func(h *codec.Header, s []byte) []byte {
		last := &h.Params[len(h.Params)-1]
		pair(s[last.IndexOff:], 1, 4095)
		return s
	})
	c.sealed("H5: an index twice", outcome.IndexDup, func(_ *codec.Header, s []byte) []byte {
		pair(s, 0, 0)
		return s
	})
	c.sealed("indices that descend", outcome.IndexOrder, func(_ *codec.Header, s []byte) []byte {
		pair(s, uint32(first.TotalK)-1, 1)
		return s
	})
	c.sealed("H2: a code outside the codebook", outcome.CodeRange, func(h *codec.Header, s []byte) []byte {
		s[h.Params[0].ValueOff] = 255
		return s
	})
	c.sealed("a code that is one too large", outcome.CodeRange, func(h *codec.Header, s []byte) []byte {
		s[h.Params[1].ValueOff] = byte(len(h.Params[1].Lookup))
		return s
	})
	// found by the histogram
	c.bytes("a flipped bit of a value", outcome.BadQuant, func(b []byte) []byte {
		base := (12 + int(binary.LittleEndian.Uint32(b[8:])) + 63) &^ 63
		b[base+int(c.honest.Header.Params[0].ValueOff)] ^= 1
		return b
	})
}
