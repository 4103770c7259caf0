package bench

import (
	"context"
	"fmt"
	"time"

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

// runTransfer times values on their way to a worker and back.
func runTransfer(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "transfer"}
	far, err := throughCluster(ctx, o)
	if err != nil {
		return nil, err
	}
	defer far.close()
	for _, size := range transferSizes {
		if err := transferOne(ctx, o, r, far.sess, size.name, o.work(size.bytes/4), size.reps, size.bytes == 64<<20); err != nil {
			return nil, fmt.Errorf("%s: %w", size.name, err)
		}
	}
	return r, nil
}

// transferOne measures one size, of n float32; with bars it also adds the bars.
func transferOne(ctx context.Context, o *Options, r *Report, s *tensor.Session, name string, n, reps int, bars bool) error {
	src, dst := make([]float32, n), make([]float32, n)
	for i := range src {
		src[i] = float32(i % 251)
	}
	base := tensor.From(s, src)
	result := base.AddS(1) // made by the worker, in its memory
	defer result.Free()
	base.Free()
	if err := s.Sync(); err != nil {
		return err
	}

	sides := []struct {
		*series
		once func() error
	}{
		{&series{name: "memcpy " + name}, func() error {
			copy(dst, src)
			return nil
		}},
		{&series{name: "upload " + name}, func() error {
			t := tensor.From(s, src)
			err := s.Sync()
			t.Free()
			return err
		}},
		{&series{name: "result copied " + name}, func() error {
			return tensor.View(result, func(x []float32) error {
				copy(dst, x)
				return nil
			})
		}},
		{&series{name: "result in place " + name}, func() error {
			return tensor.View(result, func(x []float32) error {
				if x[0] != src[0]+1 || x[n-1] != src[n-1]+1 {
					return fmt.Errorf("bench: read %g and %g, expected %g and %g", x[0], x[n-1], src[0]+1, src[n-1]+1)
				}
				return nil
			})
		}},
	}
	for round := range o.rounds(7) + 1 { // the first is not counted
		for _, side := range sides {
			side.unit = "µs"
			samples := make([]float64, o.work(reps))
			for i := range samples {
				if err := ctx.Err(); err != nil {
					return err
				}
				start := time.Now()
				if err := side.once(); err != nil {
					return err
				}
				samples[i] = micros(time.Since(start))
			}
			if round > 0 {
				side.add(samples...)
			}
		}
	}
	for _, side := range sides {
		r.measured(side.series)
	}
	if bars {
		memcpy, upload, copied, inPlace := sides[0].series, sides[1].series, sides[2].series, sides[3].series
		r.atLeast("upload_over_memcpy", ratio(memcpy, upload), minUploadOverMemcpy)
		r.atLeast("view_over_copy", ratio(copied, inPlace), minViewOverCopy)
	}
	return nil
}
