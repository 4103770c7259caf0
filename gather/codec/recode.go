package codec

import (
	"cmp"
	"crypto/ed25519"
	"slices"

	"github.com/ringside-go/ringside/gather/outcome"
)

// Coded is a parameter as a format with a codebook has it: of each of Rows·K values its
// place in its row and its code, row by row. Places of a row may be in any order.
type Coded struct {
	Shift, Scale float32
	Lookup       []float32
	Indices      []uint32
	Codes        []uint8
}

// Recode makes a container of what another format holds. param returns parameter p. A
// fault is a *outcome.Error; what Recode does not need to know is left to Validate.
func Recode(m *Manifest, h Header, param func(p int) (*Coded, error), key ed25519.PrivateKey) (*Payload, error) {
	digest := m.Digest()
	h.Manifest, h.Params = digest[:], nil
	var sections []byte
	for i := range m.Params {
		p := &m.Params[i]
		c, err := param(i)
		if err != nil {
			return nil, err
		}
		if err := c.sort(p); err != nil {
			return nil, err
		}
		ph := ParamHeader{ID: uint32(i), Rows: uint64(p.Rows), K: uint64(p.K), IndexOff: uint64(len(sections)),
			Shift: c.Shift, Scale: c.Scale, Lookup: c.Lookup, Hist: make([]uint64, p.Bins)}
		sections = indexSection(&ph, p, c.Indices, sections)
		ph.ValueOff = uint64(len(sections))
		for r := range p.Rows {
			sections = appendCodes(sections, p.Value, c.Codes[r*p.K:(r+1)*p.K])
		}
		for _, code := range c.Codes {
			ph.Hist[code]++
		}
		ph.ValueLen = uint64(len(sections)) - ph.ValueOff
		sections = pad(sections)
		h.Params = append(h.Params, ph)
	}
	return Seal(h, sections, key)
}

// sort checks what the encoders rely on, and sorts each row by the places.
func (c *Coded) sort(p *Param) error {
	if n := p.Rows * p.K; !p.Value.lut() || len(c.Indices) != n || len(c.Codes) != n {
		return outcome.Errorf(outcome.BadShape, "%s: %d indices and %d codes, expected %d of a manifest with codebooks", p.Name, len(c.Indices), len(c.Codes), n)
	}
	if len(c.Lookup) != p.Bins {
		return outcome.Errorf(outcome.BadQuant, "%s: codebook of %d levels, expected %d", p.Name, len(c.Lookup), p.Bins)
	}
	if most := slices.Max(c.Codes); int(most) >= p.Bins {
		return outcome.Errorf(outcome.CodeRange, "%s: code %d, expected below %d", p.Name, most, p.Bins)
	}
	row := make([]struct {
		at   uint32
		code uint8
	}, p.K)
	for r := range p.Rows {
		idx, codes := c.Indices[r*p.K:(r+1)*p.K], c.Codes[r*p.K:(r+1)*p.K]
		for j := range row {
			row[j].at, row[j].code = idx[j], codes[j]
		}
		slices.SortFunc(row, func(a, b struct {
			at   uint32
			code uint8
		}) int {
			return cmp.Compare(a.at, b.at)
		})
		for j := range row {
			idx[j], codes[j] = row[j].at, row[j].code
		}
		if s := ascending(idx, uint32(p.TotalK)); s != outcome.OK {
			return outcome.Errorf(s, "%s: indices of row %d, %d coefficients of %d", p.Name, r, p.K, p.TotalK)
		}
	}
	return nil
}
