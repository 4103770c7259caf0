package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/ringside-go/ringside/shm/plain"
)

const (
	// MaxHeader bounds the header's length, as the reference implementation
	// does: the header is held in memory and parsed whole.
	MaxHeader = 100_000_000

	// maxRank bounds the dimensions of one tensor. Published models stay below 6;
	// the bound keeps a header of commas from becoming a large slice a tensor.
	maxRank = 64

	prefix      = 8 // bytes of the header's length
	metadataKey = "__metadata__"
)

// Info describes one tensor of a file.
type Info struct {
	Name   string
	DType  DType
	Shape  []int64 // empty for a scalar; not to be modified
	Offset int64   // of its first byte, from the start of the file
	Size   int64   // bytes
}

// Elements returns the product of the shape.
func (t *Info) Elements() int64 { return t.Size / t.DType.Size() }

// Bytes returns the bytes of a tensor, or an error naming what is wrong.
// The product of the dimensions other than zero must fit as well: a zero does not
// excuse the others, or the answer would depend on their order.
func (d DType) Bytes(shape []int64) (int64, error) {
	width := d.Size()
	if width == 0 {
		return 0, fmt.Errorf("%w: dtype %.40q, expected one of BOOL, U8 to F64", ErrFormat, string(d))
	}
	if len(shape) > maxRank {
		return 0, fmt.Errorf("%w: %d dimensions, expected at most %d", ErrFormat, len(shape), maxRank)
	}
	n, empty := uint64(width), false
	for i, size := range shape {
		switch {
		case size < 0:
			return 0, fmt.Errorf("%w: dimension %d is %d, expected 0 or more", ErrFormat, i, size)
		case size == 0:
			empty = true
		default:
			hi, lo := bits.Mul64(n, uint64(size))
			if hi != 0 || lo > math.MaxInt64 {
				return 0, fmt.Errorf("%w: shape %v of %s overflows 63 bits of bytes", ErrFormat, shape, d)
			}
			n = lo
		}
	}
	if empty {
		return 0, nil
	}
	return int64(n), nil
}

// parseHeader reads the JSON of a header for a file whose data section, data bytes long,
// starts at base. It returns the tensors in the order of their offsets.
//
// It walks tokens instead of unmarshalling, because encoding/json lets the last of two
// equal keys win and matches keys regardless of case, and both would let two readers see
// different tensors in one file. bytedance/sonic parses faster, but not the first time in
// a process, which is the only time here; it also delays the start of a process and
// accepts control characters in strings.
func parseHeader(raw []byte, base, data int64) ([]Info, map[string]string, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, nil, fmt.Errorf("%w: no safetensors file: its header starts with %.8q, expected {", ErrFormat, raw)
	}
	if !utf8.Valid(raw) {
		return nil, nil, fmt.Errorf("%w: header is not valid UTF-8", ErrFormat)
	}
	p := newParser(raw)
	var (
		infos []Info
		meta  map[string]string
		seen  = make(map[string]struct{})
	)
	err := p.object(func(name string) error {
		if _, dup := seen[name]; dup {
			return fmt.Errorf("%w: tensor %.200q occurs twice, expected once", ErrFormat, name)
		}
		seen[name] = struct{}{}
		if name == metadataKey {
			m, err := p.metadata()
			if err != nil {
				return fmt.Errorf("%s: %w", metadataKey, err)
			}
			meta = m
			return nil
		}
		t, err := p.tensor(data)
		if err != nil {
			return fmt.Errorf("tensor %.200q: %w", name, err)
		}
		t.Name = name
		infos = append(infos, t)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if rest := bytes.TrimRight(raw[p.offset():], " "); len(rest) > 0 {
		return nil, nil, fmt.Errorf("%w: %.16q after the header's JSON, expected spaces only", ErrFormat, rest)
	}
	// Sort by offset, with empty tensors before the one that has bytes at the same
	// offset, so that a single pass finds every hole and overlap.
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(min(a.Size, 1), min(b.Size, 1)), cmp.Compare(a.Name, b.Name))
	})
	var end int64
	for i := range infos {
		t := &infos[i]
		if t.Offset != end {
			what := "a hole"
			if t.Offset < end {
				what = "an overlap"
			}
			return nil, nil, fmt.Errorf("%w: tensor %.200q starts at %d, expected %d: %s", ErrFormat, t.Name, t.Offset, end, what)
		}
		end += t.Size
		t.Offset += base
	}
	if end != data {
		return nil, nil, fmt.Errorf("%w: data is %s, expected %d, where the last tensor ends", ErrFormat, plain.Count(data, "byte"), end)
	}
	return infos, meta, nil
}

// parser reads the few shapes of JSON that a header has.
type parser struct{ dec *json.Decoder }

func newParser(raw []byte) *parser {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return &parser{dec}
}

func (p *parser) offset() int64 { return p.dec.InputOffset() }

func (p *parser) token() (json.Token, error) {
	t, err := p.dec.Token()
	if err != nil {
		return nil, fmt.Errorf("%w: header's JSON at byte %d: %v", ErrFormat, p.offset(), err)
	}
	return t, nil
}

func (p *parser) expect(d json.Delim) error {
	t, err := p.token()
	if err == nil && t != d {
		err = fmt.Errorf("%w: header has %.40q before byte %d, expected %v", ErrFormat, fmt.Sprint(t), p.offset(), d)
	}
	return err
}

// object calls value for every key; value consumes what follows the key.
func (p *parser) object(value func(key string) error) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	for p.dec.More() {
		key, err := p.text()
		if err != nil {
			return err
		}
		if err := value(key); err != nil {
			return err
		}
	}
	return p.expect('}')
}

func (p *parser) text() (string, error) {
	t, err := p.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("%w: header has %.40q before byte %d, expected a string", ErrFormat, fmt.Sprint(t), p.offset())
	}
	return s, nil
}

// integers reads a list of at most limit whole numbers of 0 or more, written
// without sign, fraction or exponent.
func (p *parser) integers(limit int) ([]int64, error) {
	if err := p.expect('['); err != nil {
		return nil, err
	}
	list := []int64{}
	for p.dec.More() {
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		num, ok := t.(json.Number)
		n, err := strconv.ParseUint(num.String(), 10, 63)
		if !ok || err != nil {
			return nil, fmt.Errorf("%w: %.40q, expected a whole number from 0 to 2^63-1", ErrFormat, fmt.Sprint(t))
		}
		if len(list) == limit {
			return nil, fmt.Errorf("%w: more than %d numbers", ErrFormat, limit)
		}
		list = append(list, int64(n))
	}
	return list, p.expect(']')
}

// tensor reads one entry; its Offset is relative to the data section, which is
// data bytes long.
func (p *parser) tensor(data int64) (Info, error) {
	var (
		t       Info
		offsets []int64
		have    = make(map[string]bool, 3)
	)
	err := p.object(func(key string) error {
		if have[key] {
			return fmt.Errorf("%w: key %.40q occurs twice, expected once", ErrFormat, key)
		}
		have[key] = true
		var err error
		switch key {
		case "dtype":
			var s string
			s, err = p.text()
			t.DType = DType(s)
		case "shape":
			t.Shape, err = p.integers(maxRank)
		case "data_offsets":
			offsets, err = p.integers(2)
		default:
			return fmt.Errorf("%w: key %.40q, expected dtype, shape or data_offsets", ErrFormat, key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	for _, key := range [...]string{"dtype", "shape", "data_offsets"} {
		if !have[key] {
			return t, fmt.Errorf("%w: %s is missing", ErrFormat, key)
		}
	}
	if len(offsets) != 2 || offsets[0] > offsets[1] || offsets[1] > data {
		return t, fmt.Errorf("%w: data_offsets %v, expected [begin, end] with 0 <= begin <= end <= %d", ErrFormat, offsets, data)
	}
	size, err := t.DType.Bytes(t.Shape)
	if err != nil {
		return t, err
	}
	if got := offsets[1] - offsets[0]; got != size {
		return t, fmt.Errorf("%w: data_offsets %v span %s, expected %d for %s %v", ErrFormat, offsets, plain.Count(got, "byte"), size, t.DType, t.Shape)
	}
	t.Offset, t.Size = offsets[0], size
	return t, nil
}

func (p *parser) metadata() (map[string]string, error) {
	m := make(map[string]string)
	err := p.object(func(key string) error {
		if _, dup := m[key]; dup {
			return fmt.Errorf("%w: key %.40q occurs twice, expected once", ErrFormat, key)
		}
		v, err := p.text()
		m[key] = v
		return err
	})
	return m, err
}
