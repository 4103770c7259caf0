package codec

import (
	"encoding/binary"
	"math"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/gather/outcome"
)

// appendCodes appends the codes of one row.
func appendCodes(b []byte, c ValueCodec, codes []uint8) []byte {
	per := codesPerByte(c)
	for i := 0; i < len(codes); i += per {
		var x byte
		for j, q := range codes[i:min(i+per, len(codes))] {
			x |= q << (j * 8 / per)
		}
		b = append(b, x)
	}
	return b
}

func codesPerByte(c ValueCodec) int {
	switch c {
	case U4LUT:
		return 2
	case U2LUT:
		return 4
	}
	return 1
}

// appendFloats appends one row of a codec without a codebook.
func appendFloats(b []byte, c ValueCodec, vals []float32) []byte {
	switch c {
	case Sign1:
		var sum float64
		for _, v := range vals {
			sum += math.Abs(float64(v))
		}
		scale := math.Min(sum/float64(len(vals)), 65504) // the largest float16
		b = binary.LittleEndian.AppendUint16(b, uint16(element.ToFloat16(float32(scale))))
		for i := 0; i < len(vals); i += 8 {
			var x byte
			for j, v := range vals[i:min(i+8, len(vals))] {
				if v < 0 {
					x |= 1 << j
				}
			}
			b = append(b, x)
		}
	case BF16:
		for _, v := range vals {
			b = binary.LittleEndian.AppendUint16(b, uint16(element.ToBFloat16(v)))
		}
	case F32:
		for _, v := range vals {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b
}

// decodeCodes fills codes from one row. It checks that the padding is zero, and not that
// the codes are in the codebook.
func decodeCodes(codes []uint8, c ValueCodec, src []byte) outcome.Outcome {
	switch c {
	case U8LUT:
		copy(codes, src)
		return outcome.OK
	case U4LUT:
		for i := range codes {
			codes[i] = src[i/2] >> (i % 2 * 4) & 15
		}
		if len(codes)%2 == 1 && src[len(src)-1]>>4 != 0 {
			return outcome.BadShape
		}
		return outcome.OK
	}
	i := 0
	for ; i+4 <= len(codes); i += 4 {
		x := src[i/4]
		codes[i], codes[i+1], codes[i+2], codes[i+3] = x&3, x>>2&3, x>>4&3, x>>6
	}
	if i == len(codes) {
		return outcome.OK
	}
	x := src[i/4]
	for ; i < len(codes); i++ {
		codes[i] = x & 3
		x >>= 2
	}
	if x != 0 {
		return outcome.BadShape
	}
	return outcome.OK
}

// decodeFloats fills vals from one row of a codec without a codebook.
func decodeFloats(vals []float32, c ValueCodec, src []byte) outcome.Outcome {
	switch c {
	case Sign1:
		scale := element.Float16(binary.LittleEndian.Uint16(src)).Float32()
		if scale < 0 {
			return outcome.BadQuant
		}
		for i := range vals {
			vals[i] = scale
			if src[2+i/8]>>(i%8)&1 != 0 {
				vals[i] = -scale
			}
		}
		if n := len(vals) % 8; n != 0 && src[len(src)-1]>>n != 0 {
			return outcome.BadShape
		}
	case BF16:
		for i := range vals {
			vals[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case F32:
		for i := range vals {
			vals[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	}
	for _, v := range vals {
		if !finite(v) {
			return outcome.NonFinite
		}
	}
	return outcome.OK
}

// finite reports whether v is at most 3e38 in magnitude, so that sums of two are no
// infinities by accident of rounding.
func finite(v float32) bool { return v >= -3e38 && v <= 3e38 }
