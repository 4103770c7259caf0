package cuda_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestWorkerLost has one of two workers lose its device by a kernel. Its client learns
// the worker and the reason, the other session goes on, and so does the next one.
func TestWorkerLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	devices := map[string]*cuda.Device{}
	for name, fault := range map[string]string{"w0": "cuLaunchKernel:2=700", "w1": ""} {
		t.Setenv("FAKECUDA_FAIL", fault)
		devices[name] = open(t, standIn(t, 0), small)
	}
	c, err := cluster.Start(ctx, &cluster.Options{
		Dir: t.TempDir(), InProcess: true, Workers: len(devices),
		Worker: func(name string) (*worker.Options, error) {
			return &worker.Options{Name: name, Device: devices[name]}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dial := func() *tensor.Session {
		e, err := client.Dial(ctx, c.Addr(), &client.Options{Kind: device.CUDA})
		if err != nil {
			t.Fatal(err)
		}
		return tensor.NewSession(e, nil)
	}
	negated := func(s *tensor.Session) error {
		got, err := tensor.Data[float32](tensor.From(s, []float32{1, 2}).Neg())
		if err == nil && (got[0] != -1 || got[1] != -2) {
			t.Errorf("the negatives of 1 and 2 are %v", got)
		}
		return err
	}
	both := []*tensor.Session{dial(), dial()} // one on each worker
	lost := 0
	for range 3 {
		for _, s := range both {
			err := negated(s)
			if err == nil {
				continue
			}
			lost++
			if !errors.Is(err, client.ErrLost) {
				t.Fatalf("%v, expected %v", err, client.ErrLost)
			}
			for _, says := range []string{`worker "w0"`, "CUDA_ERROR_ILLEGAL_ADDRESS (700)", "stand-in 0"} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v does not say %q", err, says)
				}
			}
		}
	}
	if lost != 2 { // the second and the third time of one session
		t.Errorf("%d of 6 calls failed, expected 2", lost)
	}
	if err := negated(dial()); err != nil {
		t.Errorf("a session after that: %v", err)
	}
}
