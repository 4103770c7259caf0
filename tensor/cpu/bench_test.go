package cpu_test

import (
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

// BenchmarkChain is one small operation of a chain of 1000, every result kept.
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

// BenchmarkItem is one operation with its result read.
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
