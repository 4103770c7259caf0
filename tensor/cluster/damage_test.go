package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestDamage: whatever a program between a client and the cluster does to their bytes,
// each step of a descent gives the right values, or an error.
func TestDamage(t *testing.T) {
	if *onDevice == "apart" {
		return // the device has no part in it, and it runs on the other one
	}
	c := startFar(t, "tcp")
	seeds := uint64(4)
	if testsize.Sampled() {
		seeds = 2 // one of each kind
	}
	for _, fault := range nettest.Faults {
		for seed := range seeds {
			t.Run(fmt.Sprint(fault, "/", seed), func(t *testing.T) {
				t.Parallel() // it waits for what does not come
				through := &nettest.Through{Transport: tcp.New(), T: t, Fault: fault, Seed: seed * 10, From: 1500, Among: 4000}
				if seed%2 > 0 { // only among the bytes of tensors
					through.From, through.Among = 20_000, 1_000_000
				}
				e, err := client.Dial(testContext(t), c.addr["tcp"], &client.Options{Secret: []byte(farSecret), Transport: through})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				err = descend(tensor.NewSession(e, &tensor.SessionOptions{Context: testContext(t)}))
				if (err == nil) != (fault == nettest.Delay) || through.Done() == 0 || errors.Is(err, errWrong) {
					t.Errorf("seed %d, %d faults: %v", seed, through.Done(), err)
				}
				if err != nil && (!errors.Is(err, ipc.ErrPeerGone) && !errors.Is(err, ipc.ErrCorrupt) || !strings.Contains(err.Error(), "worker") && !strings.Contains(err.Error(), "dispatcher")) {
					t.Errorf("seed %d: the error names no peer: %v", seed, err)
				}
			})
		}
	}
}

var errWrong = errors.New("wrong values")

// descend makes steps with values that this process can compute itself, exactly.
func descend(s *tensor.Session) error {
	const n, steps = 10_000, 60
	x, want := tensor.Zeros(s, tensor.F32, n), make([]float32, n)
	for step := range steps {
		up := make([]float32, n)
		for i := range up {
			up[i] = float32((i*7 + step) % 64)
			want[i] = want[i]/2 + up[i]
		}
		next := x.MulS(0.5).Add(tensor.From(s, up))
		x.Free()
		x = next
		got, err := tensor.Data[float32](x)
		if err != nil {
			return err
		}
		for i := range got {
			if got[i] != want[i] {
				return fmt.Errorf("%w: element %d of step %d is %v, expected %v", errWrong, i, step, got[i], want[i])
			}
		}
	}
	return nil
}
