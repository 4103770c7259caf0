package cluster_test

import (
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// model is a small thing that learns: a linear map towards a target.
type model struct {
	s      *tensor.Session
	weight *tensor.Tensor
}

const modelRows, modelCols = 32, 8

func newModel(s *tensor.Session) *model {
	return &model{s, tensor.Zeros(s, tensor.F32, modelCols, 1)}
}

// step uploads a batch, moves the weights along the gradient of the squared error, and
// returns the error, which nothing has read yet.
func (m *model) step(n int) *tensor.Tensor {
	x, y := make([]float32, modelRows*modelCols), make([]float32, modelRows)
	for i := range x {
		x[i] = float32((i*2654435761+n*40503)%1000)/500 - 1
		y[i/modelCols] += x[i] * float32(i%modelCols)
	}
	var loss *tensor.Tensor
	m.s.Scope(func(sc *tensor.Scope) {
		xs, ys := tensor.From(m.s, x, modelRows, modelCols), tensor.From(m.s, y, modelRows, 1)
		diff := xs.Matmul(m.weight).Sub(ys)
		loss = sc.Keep(diff.Mul(diff).Mean())
		// An error of these steps is found where the loss is read.
		_ = m.weight.Assign(m.weight.Sub(xs.T().Matmul(diff).MulS(0.01)))
	})
	return loss
}

// train makes steps and returns the losses.
func (m *model) train(steps int) ([]float64, error) {
	losses := make([]float64, steps)
	for i := range losses {
		loss := m.step(i)
		v, err := loss.Item()
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		loss.Free()
		losses[i] = v
	}
	return losses, nil
}

// TestOneMessageAStep: a step is one short message and one answer, whatever it computes,
// and no tensor comes through the dispatcher.
func TestOneMessageAStep(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true})
	e := dial(t, c, nil)
	m := newModel(tensor.NewSession(e, nil))
	if _, err := m.train(5); err != nil {
		t.Fatal(err)
	}
	before := e.Stats()
	const steps = 100
	if _, err := m.train(steps); err != nil {
		t.Fatal(err)
	}
	after := e.Stats()
	for what, n := range map[string][2]uint64{
		"messages":    {after.Messages - before.Messages, steps},
		"round trips": {after.RoundTrips - before.RoundTrips, steps},
		"bodies":      {after.Bodies - before.Bodies, 0},
		"uploads":     {after.Uploads - before.Uploads, 2 * steps},
		"fetched":     {after.Fetched - before.Fetched, steps},
	} {
		if n[0] != n[1] {
			t.Errorf("%d %s in %d steps, expected %d", n[0], what, steps, n[1])
		}
	}
	if n := float64(after.Bytes-before.Bytes) / steps; n > 256 {
		t.Errorf("%.0f bytes a step", n)
	} else {
		t.Logf("%.0f bytes a step", n)
	}
	s, err := client.Status(testContext(t), nil, c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Get("messages"); s.Get("tensor_bytes") != 0 || n != 1 {
		t.Errorf("the dispatcher saw %d bytes of tensors in %d messages, expected the one that says that the session is open", s.Get("tensor_bytes"), n)
	}
}

// TestStepsWithoutWaiting: steps whose loss is not read do not wait for each other, and
// their uploads' memory comes back all the same.
func TestStepsWithoutWaiting(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true})
	e := dial(t, c, &client.Options{MaxBytes: 8 << 20})
	s := tensor.NewSession(e, nil)
	m := newModel(s)
	const steps = 5000
	before := e.Stats()
	for i := range steps {
		m.step(i).Free()
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	after := e.Stats()
	if n := after.RoundTrips - before.RoundTrips; n != 0 {
		t.Errorf("%d round trips in %d steps", n, steps)
	}
	if n := after.UploadBytes - before.UploadBytes; n != steps*4*modelRows*(modelCols+1) {
		t.Errorf("%d bytes uploaded", n)
	}
	waited, err := newModel(session(t, c)).train(200)
	if err != nil {
		t.Fatal(err)
	}
	m = newModel(s)
	for i := range 199 {
		m.step(i).Free()
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	last, err := m.step(199).Item()
	if err != nil {
		t.Fatal(err)
	}
	if last != waited[199] {
		t.Errorf("loss %v without waiting, %v with", last, waited[199])
	}
}

// TestSameBits: the cluster computes what this process computes, bit for bit.
func TestSameBits(t *testing.T) {
	near := inProcess(t)
	want, err := newModel(near).train(300)
	if err != nil {
		t.Fatal(err)
	}
	if want[299] >= want[0]/10 {
		t.Errorf("nothing was learnt: the error went from %v to %v", want[0], want[299])
	}
	for _, goroutines := range []bool{true, false} {
		got, err := newModel(session(t, start(t, cluster.Options{InProcess: goroutines}))).train(300)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("loss %d is %v through the cluster, %v in this process", i, got[i], want[i])
			}
		}
	}
}
