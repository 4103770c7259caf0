package breaker_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
)

const (
	rows, cols = 32, 8
	steps      = 20
)

// result is what an honest client got from a run of some steps.
type result struct {
	losses  []float64
	weights []float32
	stall   time.Duration // the longest step
	work    schedule      // of the watched process in that step
}

// same compares two runs bit by bit.
func (r *result) same(o *result) bool {
	return slices.EqualFunc(r.losses, o.losses, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) &&
		slices.EqualFunc(r.weights, o.weights, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
}

// schedule is how long the threads of a process ran, and how long they waited for a
// processor while they could.
type schedule struct{ ran, waited time.Duration }

// scheduleOf reads the schedule of a process; of 0 there is none.
func scheduleOf(pid int) (s schedule) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // a thread may have ended
		var ran, waited time.Duration
		_, _ = fmt.Sscan(string(text), &ran, &waited)
		s.ran, s.waited = s.ran+ran, s.waited+waited
	}
	return s
}

// train fits a line to made-up batches. watched is a process whose schedule in the
// longest step is of interest; 0: none.
func train(t *testing.T, s *tensor.Session, watched int) *result {
	t.Helper()
	r, err := tryTrain(s, watched)
	if err != nil {
		t.Fatalf("honest client: %v", err)
	}
	return r
}

// tryTrain is train of a client that may fail.
func tryTrain(s *tensor.Session, watched int) (*result, error) {
	weight := tensor.Zeros(s, tensor.F32, cols, 1)
	r := new(result)
	for n := range steps {
		before := scheduleOf(watched)
		began := time.Now()
		x, y := make([]float32, rows*cols), make([]float32, rows)
		for i := range x {
			x[i] = float32((i*2654435761+n*40503)%1000)/500 - 1
			y[i/cols] += x[i] * float32(i%cols)
		}
		var loss *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			xs, ys := tensor.From(s, x, rows, cols), tensor.From(s, y, rows, 1)
			diff := xs.Matmul(weight).Sub(ys)
			loss = sc.Keep(diff.Mul(diff).Mean())
			_ = weight.Assign(weight.Sub(xs.T().Matmul(diff).MulS(0.01)))
		})
		v, err := loss.Item()
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		loss.Free()
		r.losses = append(r.losses, v)
		if took := time.Since(began); took > r.stall {
			after := scheduleOf(watched)
			r.stall, r.work = took, schedule{after.ran - before.ran, after.waited - before.waited}
		}
	}
	var err error
	if r.weights, err = tensor.Data[float32](weight); err != nil {
		return nil, err
	}
	weight.Free()
	return r, nil
}

// honest is a client that trains beside attackers.
type honest struct {
	*testing.T
	s      *tensor.Session
	want   *result // without one
	rounds int
	stall  time.Duration

	watched int      // a process whose work is reported; 0: none
	work    schedule // in the longest step
}

// newHonest trains on e while nothing attacks.
func newHonest(t *testing.T, e tensor.Engine) *honest {
	t.Helper()
	s := tensor.NewSession(e, &tensor.SessionOptions{Context: t.Context()})
	return &honest{T: t, s: s, want: train(t, s, 0)}
}

// round trains and compares.
func (h *honest) round() {
	h.Helper()
	got := train(h.T, h.s, h.watched)
	if !got.same(h.want) {
		h.Errorf("round %d: losses %v, weights %v; without an attacker %v, %v", h.rounds, got.losses, got.weights, h.want.losses, h.want.weights)
	}
	h.rounds++
	if got.stall > h.stall {
		h.stall, h.work = got.stall, got.work
	}
}

// maxStall and maxStallFull are what the longest step of an honest client should take at
// most, where the attack leaves processors to others and where it does not. The tests
// print them beside what they measured: make breaker.
const (
	maxStall     = 100 * time.Millisecond
	maxStallFull = 300 * time.Millisecond
)

// report says how the honest client fared, and how long its steps should take at most.
func (h *honest) report(attack string, most time.Duration) {
	h.Helper()
	wrong := "0 wrong"
	if h.Failed() {
		wrong = "some wrong"
	}
	h.Logf("%s: %d honest rounds of %d steps, %s; the longest stall was %v, the bound is %v: %.2f of it",
		attack, h.rounds, steps, wrong, h.stall.Round(time.Millisecond/10), most, h.stall.Seconds()/most.Seconds())
	if h.watched != 0 {
		h.Logf("in that stall the threads of the worker ran for %v and waited for a processor for %v",
			h.work.ran.Round(time.Millisecond/10), h.work.waited.Round(time.Millisecond/10))
	}
}
