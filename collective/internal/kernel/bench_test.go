package kernel

import (
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
)

// TestAllocations wants a fold, which runs in the middle of short collectives, to
// allocate nothing.
func TestAllocations(t *testing.T) {
	a, b, w := make([]byte, 4000), make([]byte, 4000), make([]byte, 8000)
	for l := Go; l <= Best().Level(); l++ {
		s := kernels(l)
		if n := testing.AllocsPerRun(20, func() {
			s.Reduce(element.Sum, element.F32, 0.5, [][]byte{a, b}, [][]byte{a, b})
			s.ReduceWiden(element.Max, element.F16, 1, [][]byte{w}, [][]byte{a, b})
			s.Copy(a, b)
		}); n != 0 {
			t.Errorf("%v: %v allocations", l, n)
		}
	}
}

// BenchmarkReduce counts the bytes read and written.
func BenchmarkReduce(b *testing.B) {
	for l := Go; l <= Best().Level(); l++ {
		s := kernels(l)
		for _, dt := range []element.DType{element.F32, element.F16, element.BF16} {
			for _, shape := range [][2]int{{2, 1}, {2, 2}, {4, 1}, {4, 4}} {
				for _, size := range []int{16, 1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20} {
					if size > 16<<20 && shape[0] > 2 {
						continue
					}
					b.Run(fmt.Sprintf("%v/%v/%d to %d/%d", l, dt, shape[0], shape[1], size), func(b *testing.B) {
						srcs, dsts := make([][]byte, shape[0]), make([][]byte, shape[1])
						for i := range srcs {
							srcs[i] = make([]byte, size)
						}
						copy(dsts, srcs) // in place
						b.SetBytes(int64(size * (shape[0] + shape[1])))
						for b.Loop() {
							s.Reduce(element.Sum, dt, 1, dsts, srcs)
						}
					})
				}
			}
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	dst, src := make([]byte, 64<<20), make([]byte, 64<<20)
	for _, way := range []struct {
		name string
		copy func(dst, src []byte)
	}{{"go", Set{}.Copy}, {"best", Best().Copy}} {
		for _, size := range []int{64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20} {
			b.Run(fmt.Sprintf("%s/%d", way.name, size), func(b *testing.B) {
				b.SetBytes(int64(2 * size))
				for b.Loop() {
					way.copy(dst[:size], src[:size])
				}
			})
		}
	}
}
