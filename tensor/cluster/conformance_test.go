package cluster_test

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// TestConformance: an engine behind a dispatcher is an engine like any other.
func TestConformance(t *testing.T) {
	for _, inProcess := range []bool{false, true} {
		if inProcess && testing.Short() {
			// three busy waiters on the threads of one process: slow where cores are few
			continue
		}
		name := map[bool]string{true: "goroutines", false: "processes"}[inProcess]
		t.Run(name, func(t *testing.T) {
			c := start(t, cluster.Options{InProcess: inProcess})
			enginetest.Run(t, func(t *testing.T) tensor.Engine { return dial(t, c, nil) }, &enginetest.Options{
				Grad: autograd.Grad,
				// batches that no program had to be sent for
				PlanHits: func(e tensor.Engine) uint64 {
					s := e.(*client.Engine).Stats()
					return s.Batches - s.Bodies
				},
			})
		})
	}
}
