package cluster_test

import (
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
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
	if free := peak(steps, false); free > 64<<20+2*scoped {
		t.Errorf("%d MiB at most without a scope, %d MiB with one; expected 64 MiB more than twice that", free>>20, scoped>>20)
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
