package cpu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/isa"
	"github.com/ringside-go/ringside/collective/isa/isatest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// roundedProducts returns products of bfloat16 in sizes at the edges of tiles and depths,
// rounded to bfloat16. If sums is set it returns the unrounded sums too, so that the
// engine has to write these.
func roundedProducts(sums bool) func(s *tensor.Session) []*tensor.Tensor {
	return func(s *tensor.Session) []*tensor.Tensor {
		s.Seed(5)
		var out []*tensor.Tensor
		for _, c := range []struct{ m, n, k int }{{8, 8, 32}, {33, 17, 100}, {300, 70, 65}, {40, 200, 2048}, {20, 40, 2049}} {
			for _, turned := range []bool{false, true} {
				x := tensor.RandN(s, tensor.BF16, c.m, c.k).Barrier()
				y := tensor.RandN(s, tensor.BF16, c.k, c.n).Barrier()
				if turned {
					y = tensor.RandN(s, tensor.BF16, c.n, c.k).Barrier().T()
				}
				product := x.Cast(tensor.F32).Matmul(y.Cast(tensor.F32))
				out = append(out, product.Cast(tensor.BF16))
				if sums {
					out = append(out, product)
				}
			}
		}
		return out
	}
}

// TestRoundedTiles wants the same bits from products that the engine rounds as tiles
// finish and from products whose sums it writes first.
func TestRoundedTiles(t *testing.T) {
	level := isa.AMX
	isatest.Need(t, level)
	for _, threads := range []int{1, 3} {
		o := cpu.Options{Level: &level, Threads: threads}
		both := newTraced(t, o, threads > 1).results(t, roundedProducts(true))
		alone := newTraced(t, o, threads > 1).results(t, roundedProducts(false))
		for i, got := range alone {
			rounded, sums := both[2*i], both[2*i+1]
			if !bytes.Equal(got, rounded) {
				t.Errorf("%d threads: result %d has other bits than with its sums written", threads, i)
			}
			for q := range len(got) / 2 {
				of := math.Float32frombits(binary.NativeEndian.Uint32(sums[4*q:]))
				if h := binary.NativeEndian.Uint16(got[2*q:]); element.BFloat16(h) != element.ToBFloat16(of) {
					t.Fatalf("%d threads: result %d, element %d is %#x, the sum is %v", threads, i, q, h, of)
				}
			}
		}
	}
}

// BenchmarkBrain times products of bfloat16 on the levels that multiply it, in the orders
// of a layer, of its input's gradient and of its weight's.
func BenchmarkBrain(b *testing.B) {
	for _, c := range []struct{ m, n, k int }{
		{256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048},
		{8, 1024, 1024}, {16, 1024, 1024}, {32, 1024, 1024}, {64, 1024, 1024}, {4096, 64, 64}, {1024, 1024, 16}, {32, 32, 16384}, {16, 16, 16}, {32, 32, 32}, {64, 64, 64}, {128, 128, 128},
	} {
		for order, name := range []string{"nn", "nt", "tn"} {
			for _, level := range []isa.Level{isa.AVX512, isa.AMX} {
				b.Run(fmt.Sprintf("%dx%dx%d/%s/%v", c.m, c.n, c.k, name, level), func(b *testing.B) {
					isatest.Need(b, level)
					s, err := cpu.NewSession(&cpu.Options{Level: &level, Threads: 1}, nil)
					if err != nil {
						b.Fatal(err)
					}
					defer s.Close()
					matrix := func(rows, cols int, turned bool) *tensor.Tensor {
						if turned {
							return tensor.RandN(s, tensor.BF16, cols, rows).Barrier().T()
						}
						return tensor.RandN(s, tensor.BF16, rows, cols).Barrier()
					}
					x, y := matrix(c.m, c.k, order == 2), matrix(c.k, c.n, order == 1)
					for b.Loop() {
						s.Scope(func(*tensor.Scope) {
							x.Matmul(y).Barrier()
							if err := s.Sync(); err != nil {
								b.Fatal(err)
							}
						})
					}
					b.ReportMetric(2*float64(c.m*c.n*c.k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
				})
			}
		}
	}
}
