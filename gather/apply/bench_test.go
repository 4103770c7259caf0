package apply_test

import (
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/codec/codectest"
)

// BenchmarkUpdate is an outer update of four matrices of 4096 × 4096, on one rank.
func BenchmarkUpdate(b *testing.B) {
	for _, peers := range []int{1, 16} {
		b.Run(fmt.Sprint("peers=", peers), func(b *testing.B) {
			m := codectest.Mid()
			g, r, err := collect(m, nil, &codectest.Peers{M: m, Window: window}, b.TempDir(), "", peers)
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
