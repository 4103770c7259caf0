package codec

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
)

// Digest is a BLAKE3-256.
type Digest [32]byte

// String returns it in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText returns it in hexadecimal.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText takes 64 hexadecimal digits.
func (d *Digest) UnmarshalText(b []byte) error {
	n, err := hex.Decode(d[:], b[:min(len(b), 2*len(d))])
	if err != nil || n != len(d) || len(b) != 2*len(d) {
		return fmt.Errorf("codec: digest %q: expected 64 hexadecimal digits", b)
	}
	return nil
}

// Limits of a manifest. They keep every product of sizes within an int64.
const (
	MaxParams   = 1 << 16
	MaxElements = 1 << 40 // of one parameter
	MaxChunk    = 256     // side of a chunk: a row has at most 65536 coefficients
	MaxBins     = 256
)

// ErrManifest is returned for a manifest that cannot be.
var ErrManifest = errors.New("codec: bad manifest")

// Config is the part of a manifest that the parameters' shapes do not decide.
type Config struct {
	Chunk int `cbor:"chunk" json:"chunk"` // largest side of a chunk
	TopK  int `cbor:"topk" json:"topk"`   // coefficients that are sent of a chunk
	Bins  int `cbor:"bins" json:"bins"`   // levels of a codebook
	// standard deviations that Uniform covers
	Range float64    `cbor:"range" json:"range"`
	DCT   bool       `cbor:"dct" json:"dct"`
	Index IndexCodec `cbor:"index" json:"index"`
	Value ValueCodec `cbor:"value" json:"value"`
	Book  Codebook   `cbor:"book" json:"book"`
}

// DefaultConfig returns the smallest format: Rice indices and a codebook of 4 levels.
func DefaultConfig() Config {
	return Config{Chunk: 64, TopK: 64, Bins: 4, Range: 6, Index: Rice, Value: U2LUT, Book: Lloyd}
}

// KnownConfig returns the format of the known implementation: 20 bits a value.
func KnownConfig() Config {
	return Config{Chunk: 64, TopK: 64, Bins: 256, Range: 6, Index: Pack12, Value: U8LUT}
}

// Tensor is one parameter as the model has it.
type Tensor struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"`
	DType string  `json:"dtype"` // as safetensors spells it
}

// Param is one parameter as payloads have it. The parameter is a matrix of Lines ×
// Width elements, cut into chunks of H × W; a row is one chunk of TotalK coefficients,
// of which K are sent. Rows are numbered band by band: Across of them cover H lines.
type Param struct {
	Name   string     `cbor:"name" json:"name"`
	Shape  []int64    `cbor:"shape" json:"shape"`
	DType  string     `cbor:"dtype" json:"dtype"`
	H      int        `cbor:"h" json:"h"`
	W      int        `cbor:"w" json:"w"`
	Across int        `cbor:"across" json:"across"`
	Rows   int        `cbor:"rows" json:"rows"`
	TotalK int        `cbor:"totalk" json:"totalk"`
	K      int        `cbor:"k" json:"k"`
	Index  IndexCodec `cbor:"index" json:"index"`
	Value  ValueCodec `cbor:"value" json:"value"`
	Bins   int        `cbor:"bins" json:"bins"` // 0 when the values have no codebook
}

// Manifest says what every payload of a run looks like. It does not change from window to
// window. Everything below Params follows from Config and the tensors.
type Manifest struct {
	Version int     `cbor:"version" json:"version"`
	Config  Config  `cbor:"config" json:"config"`
	Params  []Param `cbor:"params" json:"params"`
}

// NewManifest lays out the tensors, in the given order.
func NewManifest(c Config, tensors []Tensor) (*Manifest, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if len(tensors) == 0 || len(tensors) > MaxParams {
		return nil, fmt.Errorf("%w: %d parameters, expected 1 to %d", ErrManifest, len(tensors), MaxParams)
	}
	m := &Manifest{Version: Version, Config: c}
	seen := map[string]bool{}
	for _, t := range tensors {
		if t.Name == "" || seen[t.Name] {
			return nil, fmt.Errorf("%w: parameter name %q is empty or repeated", ErrManifest, t.Name)
		}
		seen[t.Name] = true
		p, err := layOut(c, t)
		if err != nil {
			return nil, err
		}
		m.Params = append(m.Params, p)
	}
	return m, nil
}

func (c *Config) check() error {
	switch {
	case c.Chunk < 1 || c.Chunk > MaxChunk:
		return fmt.Errorf("%w: chunk %d, expected 1 to %d", ErrManifest, c.Chunk, MaxChunk)
	case c.TopK < 1 || c.TopK > MaxChunk*MaxChunk:
		return fmt.Errorf("%w: topk %d, expected 1 to %d", ErrManifest, c.TopK, MaxChunk*MaxChunk)
	case !c.Index.valid() || !c.Value.valid() || !c.Book.valid():
		return fmt.Errorf("%w: codecs %d, %d, codebook %d: not known", ErrManifest, c.Index, c.Value, c.Book)
	case c.Value.lut() && (c.Bins < 2 || c.Bins > c.Value.maxBins()):
		return fmt.Errorf("%w: %d bins, expected 2 to %d for %v", ErrManifest, c.Bins, c.Value.maxBins(), c.Value)
	case c.Value.lut() && !(c.Range > 0 && c.Range <= 1e3):
		return fmt.Errorf("%w: range %v, expected above 0 and at most 1000", ErrManifest, c.Range)
	}
	return nil
}

// layOut cuts one tensor.
func layOut(c Config, t Tensor) (Param, error) {
	lines, width := int64(1), int64(1)
	for i, d := range t.Shape {
		if d < 1 || d > MaxElements || lines*width > MaxElements/d {
			return Param{}, fmt.Errorf("%w: %s: shape %v, expected dimensions of at least 1 and at most %d elements",
				ErrManifest, t.Name, t.Shape, int64(MaxElements))
		}
		if i == 0 && len(t.Shape) > 1 {
			lines = d
		} else {
			width *= d
		}
	}
	p := Param{Name: t.Name, Shape: t.Shape, DType: t.DType, Value: c.Value}
	p.H, p.W = 1, divisor(width, c.Chunk)
	if len(t.Shape) > 1 {
		p.H = divisor(lines, c.Chunk)
	}
	across, rows := width/int64(p.W), lines/int64(p.H)*(width/int64(p.W))
	if rows > math.MaxInt32 {
		return Param{}, fmt.Errorf("%w: %s: %d chunks, expected at most %d; use larger chunks", ErrManifest, t.Name, rows, math.MaxInt32)
	}
	p.Across, p.Rows = int(across), int(rows)
	p.TotalK = p.H * p.W
	p.K = min(c.TopK, p.TotalK)
	p.Index = c.Index.fit(p.TotalK, &p.K)
	if p.Value.lut() {
		p.Bins = c.Bins
	}
	return p, nil
}

// divisor returns the largest divisor of n that is at most limit.
func divisor(n int64, limit int) int {
	if n < int64(limit) {
		return int(n)
	}
	for d := limit; d > 1; d-- {
		if n%int64(d) == 0 {
			return d
		}
	}
	return 1
}

// Lines and Width are the sides of the parameter's matrix.
func (p *Param) Lines() int { return p.Rows / p.Across * p.H }

// Width is the number of columns of the parameter's matrix.
func (p *Param) Width() int { return p.Across * p.W }

// Elements returns the number of elements.
func (p *Param) Elements() int64 { return int64(p.Rows) * int64(p.TotalK) }

// Origin returns the line and the column of the first element of a row's chunk.
func (p *Param) Origin(row int) (line, column int) {
	return row / p.Across * p.H, row % p.Across * p.W
}

// MaxIndexRow returns the most bytes that the indices of a row take.
func (p *Param) MaxIndexRow() int {
	if p.Index == Rice {
		return riceBound(p.TotalK, p.K)
	}
	return p.Index.stride(p.TotalK, p.K)
}

// ValueRow returns the bytes that the values of a row take.
func (p *Param) ValueRow() int { return p.Value.stride(p.K) }

// Tensors returns what the manifest was made of.
func (m *Manifest) Tensors() []Tensor {
	out := make([]Tensor, len(m.Params))
	for i, p := range m.Params {
		out[i] = Tensor{p.Name, p.Shape, p.DType}
	}
	return out
}

// Marshal returns the canonical encoding.
func (m *Manifest) Marshal() ([]byte, error) { return Marshal(m) }

// Digest returns the BLAKE3-256 of the canonical encoding.
func (m *Manifest) Digest() Digest {
	d, err := Sum(m)
	if err != nil {
		panic("codec: a manifest that NewManifest made cannot be encoded: " + err.Error())
	}
	return d
}

// ParseManifest reads a canonical encoding. It takes the layout from the tensors and
// refuses a manifest that says another.
func ParseManifest(b []byte) (*Manifest, error) {
	var m Manifest
	if err := Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return &m, m.Check()
}

// Check reports whether m is what NewManifest makes of its own tensors.
func (m *Manifest) Check() error {
	if m.Version != Version {
		return fmt.Errorf("%w: version %d, expected %d", ErrManifest, m.Version, Version)
	}
	want, err := NewManifest(m.Config, m.Tensors())
	if err != nil {
		return err
	}
	for i := range want.Params {
		if !reflect.DeepEqual(want.Params[i], m.Params[i]) {
			return fmt.Errorf("%w: %s: layout %+v, expected %+v", ErrManifest, m.Params[i].Name, m.Params[i], want.Params[i])
		}
	}
	return nil
}

// MaxPayload returns the most bytes that a valid payload has.
func (m *Manifest) MaxPayload() int64 {
	n := prefixLen + m.maxHeader()
	for i := range m.Params {
		p := &m.Params[i]
		n += int64(p.Rows)*int64(p.MaxIndexRow()+p.ValueRow()) + 2*align
	}
	return n + (n/leafSize+2)*int64(len(Digest{})) + signatureLen + 32
}

// maxHeader returns the most bytes that the header of a valid payload has.
func (m *Manifest) maxHeader() int64 {
	n := int64(128 + 8*MaxMeta) // and a few bytes before each text
	for i := range m.Params {
		p := &m.Params[i]
		// levels, counts and blocks
		n += 160 + 18*int64(p.Bins) + 5*int64(p.Rows/blockRows)
	}
	return min(n, MaxHeader)
}

// Values returns the number of values that one payload sends.
func (m *Manifest) Values() (n int64) {
	for i := range m.Params {
		n += int64(m.Params[i].Rows) * int64(m.Params[i].K)
	}
	return n
}

// Elements returns the number of elements of all parameters.
func (m *Manifest) Elements() (n int64) {
	for i := range m.Params {
		n += m.Params[i].Elements()
	}
	return n
}

// riceBound returns the bytes of the longest row that an encoder which picks the best
// parameter makes.
func riceBound(total, k int) int {
	best := math.MaxInt
	for p := range min(16, bits.Len(uint(total))) {
		best = min(best, k*(p+1)+(total>>p))
	}
	return (4 + best + 7) / 8
}
