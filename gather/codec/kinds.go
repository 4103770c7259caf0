package codec

import "fmt"

// IndexCodec is how the indices of a row are stored. The numbers are part of the format.
type IndexCodec uint8

// The index codecs.
const (
	Pack12 IndexCodec = iota // pairs of 12 bits; K even, TotalK at most 4096
	// gaps, with a parameter of 4 bits a row; rows begin at a byte
	Rice
	Bitmap // TotalK bits
	Dense  // no indices: every coefficient is sent
	U16    // TotalK at most 65536
	indexCodecs
)

var indexNames = [...]string{"pack12", "rice", "bitmap", "dense", "u16"}

func (c IndexCodec) valid() bool { return c < indexCodecs }

// String returns the name.
func (c IndexCodec) String() string { return name(indexNames[:], int(c)) }

// MarshalText returns the name.
func (c IndexCodec) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText takes a name.
func (c *IndexCodec) UnmarshalText(b []byte) error {
	i, err := find(indexNames[:], b)
	*c = IndexCodec(i)
	return err
}

// fit returns the codec of rows of total coefficients of which *k are sent, where c is
// asked for, and reduces *k to what it can store. A Rice row is a bitmap where a quarter
// of the coefficients is sent: from there on a bit each is about as short.
func (c IndexCodec) fit(total int, k *int) IndexCodec {
	switch {
	case *k >= total || total < 16:
		*k = total
		return Dense
	case c == Dense: // cannot be for a row that is not sent whole
		return U16
	case c == Rice && 4**k >= total:
		return Bitmap
	case c == Pack12 && (total > 4096 || *k < 2):
		return U16
	case c == Pack12:
		*k &^= 1
	}
	return c
}

// stride returns the bytes of a row's indices, 0 where they vary.
func (c IndexCodec) stride(total, k int) int {
	switch c {
	case Pack12:
		return k / 2 * 3
	case Bitmap:
		return (total + 7) / 8
	case U16:
		return 2 * k
	}
	return 0
}

// ValueCodec is how the values of a row are stored. The numbers are part of the format.
type ValueCodec uint8

// The value codecs.
const (
	U8LUT ValueCodec = iota // codes of 8 bits into a codebook
	U4LUT                   // 4 bits
	U2LUT                   // 2 bits
	Sign1                   // a float16 scale a row, and a bit each
	BF16
	F32
	valueCodecs
)

var valueNames = [...]string{"u8", "u4", "u2", "sign", "bf16", "f32"}

func (c ValueCodec) valid() bool { return c < valueCodecs }

// String returns the name.
func (c ValueCodec) String() string { return name(valueNames[:], int(c)) }

// MarshalText returns the name.
func (c ValueCodec) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText takes a name.
func (c *ValueCodec) UnmarshalText(b []byte) error {
	i, err := find(valueNames[:], b)
	*c = ValueCodec(i)
	return err
}

// ValueOf returns the smallest codec of codebooks of so many levels.
func ValueOf(levels int) ValueCodec {
	for _, c := range []ValueCodec{U2LUT, U4LUT} {
		if levels <= c.maxBins() {
			return c
		}
	}
	return U8LUT
}

// lut reports whether values are codes into a codebook.
func (c ValueCodec) lut() bool { return c <= U2LUT }

// maxBins returns the largest codebook.
func (c ValueCodec) maxBins() int {
	switch c {
	case U8LUT:
		return 256
	case U4LUT:
		return 16
	case U2LUT:
		return 4
	}
	return 0
}

// stride returns the bytes of a row's values.
func (c ValueCodec) stride(k int) int {
	switch c {
	case U8LUT:
		return k
	case U4LUT:
		return (k + 1) / 2
	case U2LUT:
		return (k + 3) / 4
	case Sign1:
		return 2 + (k+7)/8
	case BF16:
		return 2 * k
	}
	return 4 * k
}

// Codebook is how an encoder chooses the levels. Decoders do not need it.
type Codebook uint8

// The codebooks.
const (
	Uniform Codebook = iota // bins of one width, as the known implementation has them
	Lloyd                   // Lloyd-Max levels of the values that are sent
	codebooks
)

var bookNames = [...]string{"uniform", "lloyd"}

func (c Codebook) valid() bool { return c < codebooks }

// String returns the name.
func (c Codebook) String() string { return name(bookNames[:], int(c)) }

// MarshalText returns the name.
func (c Codebook) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText takes a name.
func (c *Codebook) UnmarshalText(b []byte) error {
	i, err := find(bookNames[:], b)
	*c = Codebook(i)
	return err
}

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("codec %d", i)
}

func find(names []string, b []byte) (int, error) {
	for i, n := range names {
		if n == string(b) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: codec %q, expected one of %v", ErrManifest, b, names)
}
