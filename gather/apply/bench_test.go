package apply_test

import (
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/store"
)

// BenchmarkUpdate is an outer update on one rank: of four matrices of 4096 × 4096 in the
// known format, and of one of 2048 × 2048 in the default format.
func BenchmarkUpdate(b *testing.B) {
	small, err := codec.NewManifest(codec.DefaultConfig(), []codec.Tensor{{Name: "w", Shape: []int64{2048, 2048}, DType: "F32"}})
	if err != nil {
		b.Fatal(err)
	}
	for name, m := range map[string]*codec.Manifest{"known": codectest.Mid(), "default": small} {
		var from store.Store = &codectest.Peers{M: m, Window: window}
		if m == small { // random rows are of the known format
			mem := &store.Mem{}
			for uid := uint64(1); uid <= 64; uid++ {
				put(b, mem, m, uid, func(p int, dst []float32) { codectest.Update(1, uid, window, p, dst) })
			}
			from = mem
		}
		for _, peers := range []int{1, 16, 64} {
			b.Run(fmt.Sprint(name, "/peers=", peers), func(b *testing.B) {
				g, r, err := collect(m, nil, from, b.TempDir(), "", peers, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer r.Close()
				for b.Loop() {
					if _, err := apply.Update(b.Context(), g.Ranks, r, m, nowhere{}, &apply.Options{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*float64(m.Values())*float64(peers)/b.Elapsed().Seconds()/1e6, "Mvalues/s")
			})
		}
	}
}
