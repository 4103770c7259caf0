package cluster_test

import (
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/ipc/client"
	"github.com/ringside-go/ringside/ipc/cluster"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/enginetest"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// rows is a config for n workers that cuts what is made under "rows" by rows and under "columns" by columns.
func rows(n int) *config.Config {
	return &config.Config{NumWorkers: n, Signals: []config.Signal{
		{Name: "rows", Shard: &config.Shard{}}, {Name: "columns", Shard: &config.Shard{Axis: 1}}}}
}

// TestTogether: several workers have parts of a tensor, reduce it among themselves, and the client reads it as a whole.
func TestTogether(t *testing.T) {
	for n := 1; n <= 4; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := start(t, cluster.Options{Workers: n, InProcess: testing.Short()})
			e := dial(t, c, &client.Options{Config: rows(n)})
			s := tensor.NewSession(e, nil)
			const h, w = 37, 50
			data := make([]float32, h*w)
			want := 0.0
			for i := range data {
				data[i] = float32(i % 100)
				want += float64(data[i])
			}
			var x *tensor.Tensor
			s.Signal("rows", func() { x = tensor.From(s, data, h, w) })
			for round := range 3 {
				got, err := x.Sum().Item()
				if err != nil || got != want {
					t.Fatalf("round %d: sum %v, %v; expected %v", round, got, err, want)
				}
			}
			y := x.MulS(2)
			got, err := tensor.Data[float32](y)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if got[i] != 2*data[i] {
					t.Fatalf("element %d is %v, expected %v", i, got[i], 2*data[i])
				}
			}
			st := e.Stats()
			t.Logf("%+v", st)
			if n == 1 {
				return
			}
			// Three sums of one number, in two programs: with and without the upload. Doubling it moves nothing.
			if st.Calls != 3 || st.Moved != 3*uint64(4*2*(n-1)/n) || st.Plans > 3 {
				t.Errorf("%d collectives of %d bytes, %d plans", st.Calls, st.Moved, st.Plans)
			}
		})
	}
}

// TestTogetherConformance: workers that run programs together are an engine like any other.
func TestTogetherConformance(t *testing.T) {
	for _, n := range []int{2, 3} {
		if testing.Short() {
			t.Skip("a suite of its own")
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := start(t, cluster.Options{Workers: n})
			enginetest.Run(t, func(t *testing.T) tensor.Engine {
				return dial(t, c, &client.Options{Config: &config.Config{NumWorkers: n, AutoShard: true}})
			}, &enginetest.Options{
				Grad: autograd.Grad,
				PlanHits: func(e tensor.Engine) uint64 {
					s := e.(*client.Engine).Stats()
					return s.Batches - s.Bodies
				},
			})
		})
	}
}
