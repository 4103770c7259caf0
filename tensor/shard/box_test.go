package shard

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestBoxes: copying parts out of one tensor and into another gives the same tensor,
// however it is cut, and each element is at its coordinates.
func TestBoxes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		shape := make(tensor.Shape, r.IntN(5))
		for d := range shape {
			shape[d] = r.IntN(6)
		}
		mesh, l := Grid(1+r.IntN(3), 1+r.IntN(3)), Layout{}
		for k := range l {
			if d := r.IntN(len(shape) + 1); d < len(shape) {
				l[k] = Shard(d)
			}
		}
		size := []int{1, 2, 4, 8}[r.IntN(4)]
		whole := make([]byte, shape.Elems()*size)
		for i := range whole {
			whole[i] = byte(r.Uint32())
		}
		got := make([]byte, len(whole))
		for rank := range mesh.Size() {
			start, local := mesh.Local(l, shape, rank)
			part := make([]byte, local.Elems()*size)
			CopyOut(part, whole, size, shape, start, local)
			for i := range local.Elems() {
				at, rest, stride := 0, i, 1
				for d := len(shape) - 1; d >= 0; d-- {
					at += (start[d] + rest%local[d]) * stride
					rest, stride = rest/local[d], stride*shape[d]
				}
				if !bytes.Equal(part[i*size:][:size], whole[at*size:][:size]) {
					t.Fatalf("seed %d: element %d of rank %d of %v in %v on %v is not element %d", seed, i, rank, shape, l, mesh, at)
				}
			}
			CopyIn(got, part, size, shape, start, local)
		}
		if !bytes.Equal(got, whole) {
			t.Fatalf("seed %d: %v in %v on %v is not what was cut", seed, shape, l, mesh)
		}
	}
}
