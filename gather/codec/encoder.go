package codec

import (
	"crypto/ed25519"
	"errors"
	"fmt"
)

// ErrNotFinite is returned for an update with a NaN or an infinity in it.
var ErrNotFinite = errors.New("codec: the update is not finite")

// EncoderOptions changes an Encoder. Nil is fine.
type EncoderOptions struct {
	// Beta scales the residual before an update is added to it. 0 keeps no residual: each
	// update is encoded by itself.
	Beta float64

	// Key signs payloads. Nil does not sign.
	Key ed25519.PrivateKey
}

// Encoder compresses the updates of one peer. It keeps what was not sent and adds it to
// the next update (error feedback). It is not for concurrent use.
type Encoder struct {
	m        *Manifest
	o        EncoderOptions
	residual [][]float32
	choose   chooser
}

// NewEncoder returns an encoder with a residual of zero.
func NewEncoder(m *Manifest, o *EncoderOptions) *Encoder {
	e := &Encoder{m: m, residual: make([][]float32, len(m.Params))}
	if o != nil {
		e.o = *o
	}
	return e
}

// Residual returns what was not sent of each parameter so far; nil for zeros. It is valid
// until the next Encode, and may be set before the first.
func (e *Encoder) Residual() [][]float32 { return e.residual }

// Encode compresses an update: update fills dst with the elements of parameter p,
// row-major. Window, UID, Step and Meta are taken from h. After an error the residual
// is of no use: Reset it.
func (e *Encoder) Encode(h Header, update func(p int, dst []float32) error) (*Payload, error) {
	digest := e.m.Digest()
	h.Manifest, h.Params = digest[:], nil
	if err := h.checkMeta(); err != nil {
		return nil, err
	}
	var sections []byte
	var off uint64
	for i := range e.m.Params {
		p := &e.m.Params[i]
		x := make([]float32, p.Elements())
		if err := update(i, x); err != nil {
			return nil, err
		}
		if err := e.add(i, x); err != nil {
			return nil, err
		}
		ph := ParamHeader{ID: uint32(i), Rows: uint64(p.Rows), K: uint64(p.K), IndexOff: off}
		sections = e.param(&ph, p, x, sections)
		off = uint64(len(sections))
		h.Params = append(h.Params, ph)
		if e.o.Beta != 0 {
			e.residual[i] = x
		}
	}
	return Seal(h, sections, e.o.Key)
}

// add makes x the update plus the residual.
func (e *Encoder) add(i int, x []float32) error {
	old := e.residual[i]
	for j, v := range x {
		if old != nil {
			v += float32(float64(e.o.Beta * float64(old[j])))
		}
		if !finite(v) {
			return fmt.Errorf("%w: %s has %v at element %d", ErrNotFinite, e.m.Params[i].Name, v, j)
		}
		x[j] = v
	}
	return nil
}

// param appends the sections of one parameter and leaves in x what they do not carry.
func (e *Encoder) param(h *ParamHeader, p *Param, x []float32, b []byte) []byte {
	idx := make([]uint32, p.Rows*p.K)
	vals := make([]float32, p.Rows*p.K)
	row := make([]float32, p.TotalK)
	var dct *Transform
	if e.m.Config.DCT {
		dct = NewTransform(p)
	}
	for r := range p.Rows {
		p.Gather(row, x, r)
		if dct != nil {
			dct.Forward(row)
		}
		at := idx[r*p.K : (r+1)*p.K]
		e.choose.choose(at, row)
		for j, i := range at {
			vals[r*p.K+j] = row[i]
		}
	}
	b = indexSection(h, p, idx, b)
	h.ValueOff = uint64(len(b))
	b = e.values(h, p, vals, b) // vals becomes what a decoder has
	h.ValueLen = uint64(len(b)) - h.ValueOff
	b = pad(b)
	if e.o.Beta != 0 {
		for r := range p.Rows {
			clear(row)
			for j, i := range idx[r*p.K : (r+1)*p.K] {
				row[i] = vals[r*p.K+j]
			}
			if dct != nil {
				dct.Inverse(row)
			}
			p.subtract(x, row, r)
		}
	}
	return b
}

// indexSection appends the indices of all rows, by row.
func indexSection(h *ParamHeader, p *Param, idx []uint32, b []byte) []byte {
	for r := range p.Rows {
		if p.Index == Rice && r%blockRows == 0 {
			h.Blocks = append(h.Blocks, uint32(uint64(len(b))-h.IndexOff))
			h.BlockRows = blockRows
		}
		b = appendIndices(b, p, idx[r*p.K:(r+1)*p.K])
	}
	h.IndexLen = uint64(len(b)) - h.IndexOff
	return pad(b)
}

// values appends the value section and replaces vals by what it decodes to.
func (e *Encoder) values(h *ParamHeader, p *Param, vals []float32, b []byte) []byte {
	if !p.Value.lut() {
		for r := range p.Rows {
			v, at := vals[r*p.K:(r+1)*p.K], len(b)
			b = appendFloats(b, p.Value, v)
			decodeFloats(v, p.Value, b[at:])
		}
		return b
	}
	k := newBook(e.m.Config.Book, p.Bins, e.m.Config.Range, vals)
	h.Shift, h.Scale, h.Lookup = k.Shift, k.Scale, k.Lookup
	h.Hist = make([]uint64, p.Bins)
	table := h.Table()
	codes := make([]uint8, p.K)
	for r := range p.Rows {
		v := vals[r*p.K : (r+1)*p.K]
		for j := range v {
			codes[j] = k.code(v[j])
			h.Hist[codes[j]]++
			v[j] = table[codes[j]]
		}
		b = appendCodes(b, p.Value, codes)
	}
	return b
}

func pad(b []byte) []byte {
	return append(b, make([]byte, int(alignUp(uint64(len(b))))-len(b))...)
}

// Gather copies the elements of a row's chunk out of x, the whole parameter.
func (p *Param) Gather(row, x []float32, r int) {
	line, col := p.Origin(r)
	width := p.Width()
	for y := range p.H {
		copy(row[y*p.W:(y+1)*p.W], x[(line+y)*width+col:])
	}
}

// Scatter is the inverse of Gather.
func (p *Param) Scatter(x, row []float32, r int) {
	line, col := p.Origin(r)
	width := p.Width()
	for y := range p.H {
		copy(x[(line+y)*width+col:], row[y*p.W:(y+1)*p.W])
	}
}

// subtract subtracts row from a chunk of x.
func (p *Param) subtract(x, row []float32, r int) {
	line, col := p.Origin(r)
	width := p.Width()
	for y := range p.H {
		for j, v := range row[y*p.W : (y+1)*p.W] {
			x[(line+y)*width+col+j] -= v
		}
	}
}
