package kernel

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

func TestCopy(t *testing.T) {
	each(t, func(t *testing.T, s Set, r *rand.Rand) {
		sizes := []int{0, 1, 63, repMin - 1, repMin, repMin + 1, touchMax/2 - 1, touchMax/2 + 65, 3 << 20, streamMin - 1, streamMin, streamMin + 255}
		src, dst := make([]byte, streamMin+512), make([]byte, streamMin+1024)
		for i := 0; i+8 <= len(src); i += 8 {
			binary.LittleEndian.PutUint64(src[i:], r.Uint64())
		}
		for _, n := range sizes {
			from, at := r.IntN(257), 64+r.IntN(65)
			clear(dst)
			s.Copy(dst[at:at+n], src[from:from+n])
			if !bytes.Equal(dst[at:at+n], src[from:from+n]) {
				t.Fatalf("%d bytes from %d to %d are not those copied", n, from, at)
			}
			if around := append(append([]byte{}, dst[at-64:at]...), dst[at+n:at+n+64]...); !bytes.Equal(around, make([]byte, 128)) {
				t.Fatalf("%d bytes to %d: wrote outside", n, at)
			}
		}
	})
}
