package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/apart"
	"github.com/ringside-go/ringside/tensor/shard/config"
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

// TestStagedCollectives has 2 to 4 workers reduce, gather and exchange tensors of all
// dtypes that lie on GPUs, and on a device that faults when other code reads it: the bits
// and the errors are those of workers on cores. The numbers are such that no device
// rounds.
func TestStagedCollectives(t *testing.T) {
	host := cpu.Options{Arena: small.Host.Arena}
	for _, workers := range []int{2, 3, 4} {
		want := collectives(t, workers, func() (device.Device, error) { return cpu.New(&host) })
		if last := want[len(want)-1]; !strings.Contains(last.err, "99") || len(want[0].bytes) == 0 {
			t.Fatalf("on cores: %+v, ... %+v, expected bytes and the index of 99", want[0], last)
		}
		t.Run(fmt.Sprintf("%d apart", workers), func(t *testing.T) {
			same(t, collectives(t, workers, func() (device.Device, error) { return apart.New(&apart.Options{Seed: 1, CPU: host}) }), want)
		})
		t.Run(fmt.Sprintf("%d on GPUs", workers), func(t *testing.T) {
			api, made := standIn(t, 1), 0
			same(t, collectives(t, workers, func() (device.Device, error) {
				made++
				return cuda.Open(api, made%2, &small)
			}), want)
		})
	}
}

// collected is a result of collectives: bytes, or an error's text.
type collected struct {
	name  string
	bytes []byte
	err   string
}

func same(t *testing.T, got, want []collected) {
	t.Helper()
	for i, w := range want {
		if g := got[i]; !bytes.Equal(g.bytes, w.bytes) || g.err != w.err {
			t.Errorf("%s: %v, %q; on cores %v, %q", w.name, g.bytes, g.err, w.bytes, w.err)
		}
	}
}

// collectives returns what so many workers on devices of their own compute together: sums
// and largest elements of parts (reductions), parts put together (gathers), rows by index
// from a table that is cut, and an index that is out of range on one worker.
func collectives(t *testing.T, workers int, make func() (device.Device, error)) (out []collected) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, &cluster.Options{
		Dir: t.TempDir(), InProcess: true, Workers: workers,
		Worker: func(name string) (*worker.Options, error) {
			d, err := make()
			return &worker.Options{Name: name, Device: d}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e, err := client.Dial(ctx, c.Addr(), &client.Options{Config: config.DataParallel(workers)})
	if err != nil {
		t.Fatal(err)
	}
	s := tensor.NewSession(e, nil)
	defer s.Close()
	batch := func(x []float32, shape ...int) (t *tensor.Tensor) {
		s.Signal("batch", func() { t = tensor.From(s, x, shape...) })
		return t
	}
	x := []float32{}
	for i := range 12 * 5 {
		x = append(x, float32(i%7))
	}
	read := func(name string, x *tensor.Tensor) {
		r := collected{name: name}
		if err := x.ViewBytes(func(b []byte) error { r.bytes = bytes.Clone(b); return nil }); err != nil {
			r.err = err.Error()
			_ = s.ClearErr()
		}
		out = append(out, r)
	}
	for _, d := range tensor.DTypes() {
		y := batch(x, 12, 5).Cast(d)
		read(fmt.Sprintf("%v itself", d), y)
		if d == tensor.Bool {
			read("any", y.Any(0))
			read("all", y.All(0))
			continue
		}
		read(fmt.Sprintf("sum of %v", d), y.Sum(0))
		read(fmt.Sprintf("sum of all %v", d), y.Sum())
		read(fmt.Sprintf("largest %v", d), y.Max(0))
	}
	if err := s.Sync(); err != nil { // answers to it have the counters
		t.Fatal(err)
	}
	if e.Stats().Calls == 0 {
		t.Error("no collective was called")
	}
	idx := batch([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 99}).Cast(tensor.I64)
	read("an index that one worker does not have", tensor.From(s, x, 12, 5).IndexSelect(0, idx).Sum(0))
	return out
}
