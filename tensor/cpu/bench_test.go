package cpu_test

import (
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

func session(tb testing.TB) *tensor.Session {
	tb.Helper()
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// BenchmarkChain times one small operation of a chain of 1000, with every result kept.
func BenchmarkChain(b *testing.B) {
	s := session(b)
	x := tensor.Zeros(s, tensor.F32, 4, 4)
	kept := make([]*tensor.Tensor, 0, 1000)
	for i := 0; b.Loop(); i++ {
		if len(kept) == cap(kept) {
			if err := s.Sync(); err != nil {
				b.Fatal(err)
			}
			for _, t := range kept {
				t.Free()
			}
			kept = kept[:0]
		}
		y := x
		if len(kept) > 0 {
			y = kept[len(kept)-1]
		}
		kept = append(kept, y.Add(x))
	}
}

// BenchmarkItem times one operation with its result read.
func BenchmarkItem(b *testing.B) {
	s := session(b)
	x := tensor.Ones(s, tensor.F32, 4, 4)
	b.ReportAllocs()
	for b.Loop() {
		s.Scope(func(*tensor.Scope) {
			if _, err := x.Sum().Item(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkFold times a sum of squares and a mean of squared differences of 4 Mi
// elements, and of elements in the cache, with the elementwise part in the reduction's
// step and before it.
func BenchmarkFold(b *testing.B) {
	for _, size := range []int{64 << 10, 4 << 20} {
		for _, plain := range []bool{false, true} {
			b.Run(fmt.Sprintf("n=%d/apart=%v", size, plain), func(b *testing.B) {
				s, err := cpu.NewSession(&cpu.Options{NoFuse: plain}, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				x, y := tensor.RandN(s, tensor.F32, size), tensor.RandN(s, tensor.F32, size)
				for b.Loop() {
					s.Scope(func(*tensor.Scope) {
						if _, err := x.Square().Sum().Add(x.Sub(y).Square().Mean()).Item(); err != nil {
							b.Fatal(err)
						}
					})
				}
			})
		}
	}
}
