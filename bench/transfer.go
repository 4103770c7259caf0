package bench

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

const (
	minUploadOverMemcpy = 0.5
	minViewOverCopy     = 100
)

// transferSizes are in bytes.
var transferSizes = [...]struct {
	name  string
	bytes int
	reps  int // in a round
}{
	{"4KB", 4 << 10, 500},
	{"1MB", 1 << 20, 50},
	{"64MB", 64 << 20, 3},
}

// runTransfer times values on their way to a worker and back. The bars are about the
// largest.
func runTransfer(r *run) {
	far := r.through(1, 1)
	var memcpy, upload, copied, inPlace *series
	for _, size := range transferSizes {
		memcpy, upload, copied, inPlace = transferOne(r, far.sess, size.name, r.work(size.bytes/4), size.reps)
	}
	r.atLeast("upload_over_memcpy", ratio(memcpy, upload), minUploadOverMemcpy)
	r.atLeast("view_over_copy", ratio(copied, inPlace), minViewOverCopy)
}

// transferOne measures one size, of n float32.
func transferOne(r *run, s *tensor.Session, name string, n, reps int) (memcpy, upload, copied, inPlace *series) {
	src, dst := make([]float32, n), make([]float32, n)
	for i := range src {
		src[i] = float32(i % 251)
	}
	base := tensor.From(s, src)
	result := base.AddS(1) // made by the worker, in its memory
	defer result.Free()
	base.Free()
	check(s.Sync())
	one := func(what string, once func()) side {
		return sampled(what+" "+name, "µs", reps, func(n int) []float64 {
			return r.samples(n, micros, once)
		})
	}
	sides := []side{
		one("memcpy", func() { copy(dst, src) }),
		one("upload", func() {
			t := tensor.From(s, src)
			check(s.Sync())
			t.Free()
		}),
		one("result copied", func() {
			check(tensor.View(result, func(x []float32) error {
				copy(dst, x)
				return nil
			}))
		}),
		one("result in place", func() {
			check(tensor.View(result, func(x []float32) error {
				if x[0] != src[0]+1 || x[n-1] != src[n-1]+1 {
					return fmt.Errorf("bench: read %g and %g, expected %g and %g", x[0], x[n-1], src[0]+1, src[n-1]+1)
				}
				return nil
			}))
		}),
	}
	r.measure(turns{rounds: r.rounds(7), warm: true}, sides...)
	return sides[0].series, sides[1].series, sides[2].series, sides[3].series
}
