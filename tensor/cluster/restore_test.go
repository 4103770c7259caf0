package cluster_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// weighed is a client of which is noted the most memory that its uploads took up.
type weighed struct {
	*client.Engine
	peak int64
}

func (w *weighed) Alloc(n int) (tensor.Buffer, error) {
	b, err := w.Engine.Alloc(n)
	w.peak = max(w.peak, int64(w.Stats().InUse))
	return b, err
}

// TestRestoreOnce: a session that is restored has its state once, in the workers' memory,
// where steps update it in place; a few tensors at a time are there twice.
func TestRestoreOnce(t *testing.T) {
	const (
		tensors, elems = 32, 128 << 10
		state          = tensors * elems * 4
		// two sixteenths, and what is small: one is in the client's memory, and another
		// not freed yet
		few = state / 6
	)
	for n := 1; n <= 2; n++ {
		if testing.Short() && n != 2 {
			continue
		}
		for _, signal := range []string{"none", "rows", "columns", "stage1"} {
			if signal == "stage1" && n == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%d workers %s", n, signal), func(t *testing.T) {
				var mu sync.Mutex
				var devices []device.Device
				c := start(t, cluster.Options{Workers: n, InProcess: true, Worker: func(name string) (*worker.Options, error) {
					dev, err := newDevice("")
					mu.Lock()
					defer mu.Unlock()
					devices = append(devices, dev)
					return &worker.Options{Name: name, Device: dev}, err
				}})
				dir, layout := t.TempDir(), rows(n)
				if signal == "stage1" {
					layout = pipeline(n, 1)
				}
				filled := func(s *tensor.Session, with float64) (all []tensor.Named) {
					s.Signal(signal, func() {
						for i := range tensors {
							all = append(all, tensor.Named{Name: fmt.Sprint(i), T: tensor.Full(s, tensor.F32, with+float64(i), elems/4, 4)})
						}
					})
					return all
				}
				here, err := cpu.NewSession(nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer here.Close()
				if err := checkpoint.Save(t.Context(), here, dir, filled(here, 1), nil); err != nil {
					t.Fatal(err)
				}
				w := &weighed{Engine: dial(t, c, &client.Options{Config: layout})}
				s := tensor.NewSession(w, nil)
				defer s.Close()
				now := filled(s, 100)
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				k, err := checkpoint.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer k.Close()
				if err := k.Restore(t.Context(), now); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					s.Scope(func(*tensor.Scope) {
						for _, p := range now {
							p.T.AddAssign(tensor.Ones(s, tensor.F32))
						}
					})
					if err := s.Sync(); err != nil {
						t.Fatal(err)
					}
				}
				for i, p := range now {
					if x, err := p.T.Max().Item(); err != nil || x != float64(3+i) {
						t.Errorf("tensor %d: %v, %v; expected %d", i, x, err, 3+i)
					}
				}
				of := int64(1) // how often the workers together have the state
				if signal == "none" {
					of = int64(n)
				}
				var peak int64
				for _, d := range devices {
					peak += d.Stats().Values.Peak
				}
				t.Logf("of a state of %d MiB the workers had %.1f MiB at most, the client %.1f", state>>20, float64(peak)/(1<<20), float64(w.peak)/(1<<20))
				// The device apart copies and frees late, so that more is there twice.
				if (peak > state*of+few*of || w.peak > few) && *onDevice != "apart" {
					t.Errorf("of a state of %d bytes the workers had %d bytes at most, the client %d; expected %d and %d", state, peak, w.peak, (state+few)*of, few)
				}
			})
		}
	}
}
