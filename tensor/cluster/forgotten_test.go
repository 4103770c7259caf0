package cluster_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestForgottenTensors: a loop that drops its intermediates without a Scope needs little
// more memory than the bound at which the collector runs, here and in a worker whose
// session may have 256 MiB.
func TestForgottenTensors(t *testing.T) {
	steps := 1000
	if testsize.Sampled() {
		steps = 60
	}
	d, err := cpu.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	peak := func(steps int, scope bool) int64 {
		e := device.NewEngine(d)
		defer e.Close()
		forgetful(t, tensor.NewSession(e, nil), steps, scope)
		return d.Stats().Arena.Peak
	}
	scoped := peak(10, true)
	// On a busy machine Go's cleanups come some steps late, 12 MiB each.
	if free := peak(steps, false); free > 64<<20+8*scoped {
		t.Errorf("%d MiB at most without a scope, %d MiB with one; expected 64 MiB more than 8 times that", free>>20, scoped>>20)
	}

	c := start(t, cluster.Options{InProcess: true})
	forgetful(t, tensor.NewSession(dial(t, c, &client.Options{Quota: 256 << 20}), nil), steps, false)
}

// forgetful takes steps of gradient descent on a weight of 4 MiB.
func forgetful(t *testing.T, s *tensor.Session, steps int, scope bool) {
	t.Helper()
	x := tensor.RandN(s, tensor.F32, 8, 1024)
	w := tensor.RandN(s, tensor.F32, 1024, 1024).RequireGrad()
	step := func() {
		loss := x.Matmul(w).Square().Mean()
		g, err := autograd.Grad(loss, w)
		if err != nil {
			t.Fatal(err)
		}
		s.NoGrad(func() { err = w.SubAssign(g[0].MulS(0.01)) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := loss.Item(); err != nil {
			t.Fatal(err)
		}
	}
	for range steps {
		if scope {
			s.Scope(func(*tensor.Scope) { step() })
		} else {
			step()
		}
	}
}

// TestForgottenMakeRoom: a session that may hold 16 MiB gets what forgotten tensors hold
// before it is told that there is no memory, here and in a worker. The error then names
// the largest tensors.
func TestForgottenMakeRoom(t *testing.T) {
	const mib, most = 1 << 20, 16 << 20
	c := start(t, cluster.Options{InProcess: true})
	engines := map[string]func() tensor.Engine{
		"in process": func() tensor.Engine {
			d, err := cpu.New(&cpu.Options{MaxBytes: most, Arena: shm.ArenaOptions{First: mib}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			e := device.NewEngine(d)
			t.Cleanup(func() { e.Close() })
			return e
		},
		"worker": func() tensor.Engine {
			return dial(t, c, &client.Options{Quota: most, MaxBytes: most})
		},
	}
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			full := func(s *tensor.Session, mibs int) *tensor.Tensor { return tensor.Full(s, tensor.F32, 1, mibs, mib/4) }
			read := func(what string, x *tensor.Tensor) {
				t.Helper()
				if got, err := x.Mean().Item(); err != nil || got != 1 {
					t.Fatalf("%s: %v, %v", what, got, err)
				}
			}

			s := tensor.NewSession(engine(), nil)
			kept := full(s, 4)
			for range 40 {
				read("a loop that forgets 1 MiB each", full(s, 1))
			}
			runtime.KeepAlive(kept)

			s = tensor.NewSession(engine(), nil)
			read("forgotten", full(s, 6))
			x, y := full(s, 6), full(s, 6)
			read("more than is left beside what was forgotten", x)
			read("the other half", y)

			if name == "in process" {
				s = tensor.NewSession(engine(), nil)
				upload := func(mibs int) *tensor.Tensor {
					x := make([]float32, mibs*mib/4)
					for i := range x {
						x[i] = 1
					}
					return tensor.From(s, x)
				}
				read("a forgotten upload", upload(6))
				x, y := upload(6), upload(6)
				read("uploads of more than is left beside it", x)
				read("the other half of them", y)
			}

			s = tensor.NewSession(engine(), nil)
			var held []*tensor.Tensor
			for range 3 {
				held = append(held, full(s, 4))
			}
			err := s.Sync()
			if err == nil {
				_, err = full(s, 6).Mean().Item()
			}
			want := "the session holds 5 tensors, the largest: 3 of f32[4 262144] (12.0 MiB) made at "
			if !errors.Is(err, tensor.ErrNoSpace) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "forgotten_test.go:") {
				t.Errorf("18 MiB of 16: %v, expected %q and the line", err, want)
			}
			runtime.KeepAlive(held)
		})
	}
}
