package cuda_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/device"
)

// wander has values of all dtypes and of random shapes go to and fro between two stages,
// several in a program, as parts and other orders of their elements. It returns the
// results. They have the same bits on all devices: elements are only moved, repeated, and
// replaced by the larger of two.
func wander(ctx context.Context, addr string, seed uint64, rounds int) (out [][]byte, err error) {
	e, err := client.Dial(ctx, addr, &client.Options{Config: stages([]int{0}, []int{1})})
	if err != nil {
		return nil, err
	}
	s := tensor.NewSession(e, nil)
	defer s.Close()
	rng := rand.New(rand.NewPCG(seed, 0))
	kinds := tensor.DTypes()
	for round := range rounds {
		var ends []*tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			for range 1 + rng.IntN(4) {
				d := kinds[rng.IntN(len(kinds))]
				a, b := rng.IntN(40), 1+rng.IntN(300)
				data := noise(d, a*b, seed, uint64(round))
				stage := rng.IntN(2)
				var x, other *tensor.Tensor
				s.Signal(fmt.Sprintf("stage%d", stage), func() { x = tensor.FromBytes(s, d, data, a, b) })
				s.Signal(fmt.Sprintf("stage%d", 1-stage), func() { other = tensor.FromBytes(s, d, data, a, b) })
				switch rng.IntN(4) {
				case 0:
					x, other = x.Transpose(0, 1), other.Transpose(0, 1)
				case 1:
					n := 1 + rng.IntN(b)
					x, other = x.Narrow(1, b-n, n), other.Narrow(1, b-n, n)
				case 2:
					x, other = x.Narrow(1, 0, 1).Expand(a, 9), other.Narrow(1, 0, 9%b+1).Narrow(1, 0, 1)
				}
				for range 1 + rng.IntN(3) {
					x, other = other.Maximum(x), x.Maximum(other)
				}
				ends = append(ends, sc.Keep(x), sc.Keep(other.Flip(0)))
			}
		})
		for _, x := range ends {
			if err := x.ViewBytes(func(b []byte) error { out = append(out, bytes.Clone(b)); return nil }); err != nil {
				return nil, fmt.Errorf("round %d: %w", round, err)
			}
			x.Free()
		}
	}
	return out, nil
}

// TestStagesWander compares values that wander between two GPUs with those of processors.
func TestStagesWander(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "100")
	const seed = 31
	rounds := 15
	if testing.Short() {
		rounds = 5
	}
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	run := func(o *cluster.Options) ([][]byte, uint64) {
		o.Dir, o.Workers = t.TempDir(), 2
		c, err := cluster.Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		out, err := wander(ctx, c.Addr(), seed, rounds)
		if err != nil {
			t.Fatal(err)
		}
		near := uint64(0)
		for _, r := range reports(ctx, t, c.Addr(), 2) {
			near += r.Get(metrics.TransfersPeer)
		}
		return out, near
	}
	want, _ := run(inProcess(func() (device.Device, error) { return cpu.New(&small.Host) }))
	got, near := run(inProcesses(cudatest.Library(t, os.Getenv)))
	if len(got) != len(want) || near < uint64(rounds) {
		t.Fatalf("%d values, expected %d; %d transfers from GPU to GPU", len(got), len(want), near)
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("value %d has other bits: %.64x, expected %.64x", i, got[i], want[i])
		}
	}
	t.Logf("%d values, %d transfers", len(got), near)
}
