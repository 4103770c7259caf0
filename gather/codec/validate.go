package codec

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"errors"
	"io"
	"math"

	"github.com/fxamacker/cbor/v2"

	"github.com/ringside-go/ringside/gather/outcome"
)

// Expect is what a payload must be.
type Expect struct {
	Manifest *Manifest
	Window   uint64
	UID      uint64

	// NormLimit bounds the L2 norm of each parameter. 0 does not.
	NormLimit float64

	// Key is of the peer. With one a payload must be signed by it; nil takes any.
	Key ed25519.PublicKey
}

// Report is what is known of a payload that was found right.
type Report struct {
	Header  Header
	Base    int64 // of the first section, from the start of the container
	Size    int64 // of the container
	Digest  Digest
	Indices Digest    // of all index sections: equal for two peers that chose the same
	Norms   []float64 // L2, of the values that are sent of each parameter

	last place // behind the rows that were decoded last

	table   []float32 // of the parameter that was read last, tableOf
	tableOf int
}

// Validate reads a container to its end and checks all of it. A fault is a
// *outcome.Error; an error of r that carries an outcome keeps it. It holds the header and
// one row, and reads one byte behind the container, to see that there is none.
func Validate(r io.Reader, want *Expect) (*Report, error) {
	row := 0
	for i := range want.Manifest.Params {
		p := &want.Manifest.Params[i]
		row = max(row, p.MaxIndexRow(), p.ValueRow())
	}
	v := &validator{in: bufio.NewReaderSize(r, max(64<<10, row)), want: want, rep: &Report{}}
	if err := v.run(); err != nil {
		return nil, err
	}
	v.rep.Size = v.n
	return v.rep, nil
}

// validator is one Validate.
type validator struct {
	in   *bufio.Reader
	want *Expect
	rep  *Report // on its own: it outlives the validator and its buffer
	body tree
	n    int64 // bytes taken
	ids  *hasher
}

// peek returns the next n bytes, which take later counts as read. With short, fewer are
// returned where the container ends before.
func (v *validator) peek(n int, short bool) ([]byte, error) {
	b, err := v.in.Peek(n)
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		if short {
			return b, nil
		}
		return nil, outcome.Errorf(outcome.Truncated, "ends after %d bytes, expected %d more", v.n+int64(len(b)), n-len(b))
	}
	return nil, err
}

// take counts n bytes that were peeked at as read, and into the digest.
func (v *validator) take(n int) {
	b, _ := v.in.Peek(n)
	v.body.write(b)
	v.in.Discard(n)
	v.n += int64(n)
}

// zeros reads zeros up to a multiple of align.
func (v *validator) zeros() error {
	n := int(alignUp(uint64(v.n))) - int(v.n)
	b, err := v.peek(n, false)
	if err != nil {
		return err
	}
	for _, x := range b {
		if x != 0 {
			return outcome.Errorf(outcome.BadFormat, "padding before byte %d is not zero", alignUp(uint64(v.n)))
		}
	}
	v.take(n)
	return nil
}

func (v *validator) run() error {
	b, err := v.peek(prefixLen, false)
	if err != nil {
		return err
	}
	n, isSigned, err := parsePrefix(b)
	if err != nil {
		return err
	}
	if most := v.want.Manifest.maxHeader(); int64(n) > most {
		return outcome.Errorf(outcome.BadFormat, "header of %d bytes, expected at most %d", n, most)
	}
	v.take(prefixLen)
	if err := v.header(n); err != nil {
		return err
	}
	if err := v.zeros(); err != nil {
		return err
	}
	v.rep.Base = v.n
	v.ids = newHasher()
	for i := range v.want.Manifest.Params {
		h := &v.rep.Header.Params[i]
		if err := v.param(h, &v.want.Manifest.Params[i]); err != nil {
			return err
		}
		h.Hist = nil // it was compared, and the norm made of it
	}
	v.ids.sum(v.rep.Indices[:0])
	return v.digest(isSigned)
}

// header reads a header of n bytes in pieces, so that one that says more than is there
// takes no more memory than is there.
func (v *validator) header(n int) error {
	var h bytes.Buffer
	for h.Len() < n {
		b, err := v.peek(min(n-h.Len(), 32<<10), false)
		if err != nil {
			return err
		}
		h.Write(b)
		v.take(len(b))
	}
	if err := v.want.Manifest.headers().Unmarshal(h.Bytes(), &v.rep.Header); err != nil {
		return outcome.Errorf(outcome.BadFormat, "header: %v", err)
	}
	return v.rep.Header.check(v.want)
}

// param reads the sections of one parameter.
func (v *validator) param(h *ParamHeader, p *Param) error {
	if err := v.indices(h, p); err != nil {
		return err
	}
	if err := v.zeros(); err != nil {
		return err
	}
	norm, err := v.values(h, p)
	if err != nil {
		return err
	}
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return outcome.Errorf(outcome.NonFinite, "%s: norm %v", p.Name, norm)
	}
	if limit := v.want.NormLimit; limit > 0 && norm > limit {
		return outcome.Errorf(outcome.NormLimit, "%s: norm %v, expected at most %v", p.Name, norm, limit)
	}
	v.rep.Norms = append(v.rep.Norms, norm)
	return v.zeros()
}

func (v *validator) indices(h *ParamHeader, p *Param) error {
	idx := make([]uint32, p.K)
	left := int64(h.IndexLen)
	for r := range p.Rows {
		if p.Index == Rice && r%blockRows == 0 && int64(h.Blocks[r/blockRows]) != int64(h.IndexLen)-left {
			return outcome.Errorf(outcome.BadShape, "%s: block at row %d begins at %d, expected %d", p.Name, r, h.Blocks[r/blockRows], int64(h.IndexLen)-left)
		}
		most := int(min(int64(p.MaxIndexRow()), left))
		b, err := v.peek(most, p.Index == Rice)
		if err != nil {
			return err
		}
		n, s := decodeIndices(idx, p, b)
		switch {
		case s == outcome.OK:
			s = ascending(idx, uint32(p.TotalK))
		// the row does not end where it must
		case s == outcome.Truncated && len(b) == most:
			s = outcome.BadShape
		}
		if s != outcome.OK {
			return outcome.Errorf(s, "%s: indices of row %d, %d coefficients of %d", p.Name, r, p.K, p.TotalK)
		}
		v.ids.Write(b[:n])
		v.take(n)
		left -= int64(n)
	}
	if left != 0 {
		return outcome.Errorf(outcome.BadShape, "%s: %d bytes behind the last row of indices", p.Name, left)
	}
	return nil
}

// values reads the value section and returns the norm of the values.
func (v *validator) values(h *ParamHeader, p *Param) (float64, error) {
	codes, vals := make([]uint8, p.K), make([]float32, p.K)
	hist := make([]uint64, 256)
	var sq float64
	for r := range p.Rows {
		b, err := v.peek(p.ValueRow(), false)
		if err != nil {
			return 0, err
		}
		var s outcome.Outcome
		if p.Value.lut() {
			s = decodeCodes(codes, p.Value, b)
			for _, c := range codes {
				if int(c) >= p.Bins && s == outcome.OK {
					s = outcome.CodeRange
				}
				hist[c]++
			}
		} else {
			s = decodeFloats(vals, p.Value, b)
			for _, x := range vals {
				sq += float64(float64(x) * float64(x))
			}
		}
		if s != outcome.OK {
			return 0, outcome.Errorf(s, "%s: values of row %d", p.Name, r)
		}
		v.take(len(b))
	}
	if !p.Value.lut() {
		return math.Sqrt(sq), nil
	}
	for b, n := range h.Hist {
		if n != hist[b] {
			return 0, outcome.Errorf(outcome.BadQuant, "%s: histogram says %d times code %d, found %d", p.Name, n, b, hist[b])
		}
	}
	for b, x := range h.Table() {
		sq += float64(float64(hist[b]) * float64(float64(x)*float64(x)))
	}
	return math.Sqrt(sq), nil
}

// digest compares leaves, root and signature, which must be all that is left.
func (v *validator) digest(isSigned bool) error {
	leaves, root := v.body.finish()
	want := append(bytes.Clone(leaves), root[:]...)
	for len(want) > 0 {
		b, err := v.peek(min(len(want), 32<<10), false)
		if err != nil {
			return err
		}
		if !bytes.Equal(b, want[:len(b)]) {
			return outcome.Errorf(outcome.BadDigest, "leaf or root before byte %d, expected root %x", v.n+int64(len(b)), root[:8])
		}
		want = want[len(b):]
		v.in.Discard(len(b))
		v.n += int64(len(b))
	}
	v.rep.Digest = root
	if err := v.signature(isSigned, root); err != nil {
		return err
	}
	if b, err := v.peek(1, true); err != nil {
		return err
	} else if len(b) > 0 {
		return outcome.Errorf(outcome.BadFormat, "bytes behind the end at %d", v.n)
	}
	return nil
}

func (v *validator) signature(isSigned bool, root Digest) error {
	if !isSigned {
		if v.want.Key != nil {
			return outcome.Errorf(outcome.BadDigest, "not signed, expected a signature of peer %d", v.want.UID)
		}
		return nil
	}
	b, err := v.peek(signatureLen, false)
	if err != nil {
		return err
	}
	if v.want.Key != nil && !ed25519.Verify(v.want.Key, signed(root), b) {
		return outcome.Errorf(outcome.BadDigest, "signature is not that of peer %d", v.want.UID)
	}
	v.in.Discard(signatureLen)
	v.n += signatureLen
	return nil
}

// Claim returns which window and peer a container says that it is of. Nothing else of
// it is checked.
func Claim(b []byte) (window, uid uint64, err error) {
	if len(b) < prefixLen {
		return 0, 0, outcome.Errorf(outcome.Truncated, "%d bytes, expected at least %d", len(b), prefixLen)
	}
	n, _, err := parsePrefix(b)
	if err != nil {
		return 0, 0, err
	}
	if len(b) < prefixLen+n {
		return 0, 0, outcome.Errorf(outcome.Truncated, "%d bytes, expected a header of %d", len(b), n)
	}
	var h struct {
		Header
		Params cbor.RawMessage `cbor:"6,keyasint"` // in place of the Header's
	}
	if err := Unmarshal(b[prefixLen:prefixLen+n], &h); err != nil {
		return 0, 0, outcome.Errorf(outcome.BadFormat, "header: %v", err)
	}
	return h.Window, h.UID, nil
}
