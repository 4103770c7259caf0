package enginetest

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestReferenceConforms runs the suite on the Reference.
func TestReferenceConforms(t *testing.T) {
	Run(t, func(*testing.T) tensor.Engine { return Reference() }, &Options{Whole: true})
}

// TestPhiloxKnownAnswers compares Philox4x32-10 with the authors' own test vectors
// (kat_vectors of Random123).
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%x, %x) is %x, expected %x", c.counter, c.key, got, c.want)
		}
	}
}
