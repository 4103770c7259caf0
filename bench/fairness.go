package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

const (
	maxFairness  = 3
	fairClients  = 8
	fairRows     = 64  // of the matrices that are multiplied
	fairProducts = 4   // in a program
	fairSteps    = 400 // of a client in a round
)

// runFairness lets clients of one worker each take steps and wait for the result. Then
// one of them only sends, as fast as its queue accepts, and never waits for an answer. It
// measures the others' steps, and the largest memory of dispatcher and worker.
func runFairness(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "fairness"}
	c, err := cluster.Start(context.WithoutCancel(ctx), &cluster.Options{Workers: 1, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	even := &series{name: fmt.Sprintf("a step of %d clients", fairClients), unit: "ns"}
	others := &series{name: fmt.Sprintf("a step of %d clients, another floods", fairClients-1), unit: "ns"}
	memory := make([]*series, len(c.Parts()))
	for i, p := range c.Parts() {
		memory[i] = &series{name: "memory of " + p.Child.String(), unit: "MiB"}
	}
	step := role{Part: "fair-client", Addr: c.Addr(), Core: -1, Count: o.work(fairSteps), Measures: true}
	flood := role{Part: "fair-flood", Addr: c.Addr(), Core: -1}
	for range o.rounds(5) {
		for _, s := range []*series{even, others} {
			roles := make([]role, fairClients)
			for i := range roles {
				roles[i] = step
			}
			if s == others {
				roles[0] = flood
			}
			took, err := play(ctx, o, roles...)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			s.add(took...)
		}
		for i, p := range c.Parts() {
			mib, err := peakMemory(p.PID)
			if err != nil {
				return nil, err
			}
			memory[i].add(mib)
		}
	}
	for _, s := range append([]*series{even, others}, memory...) {
		r.measured(s)
	}
	r.atMost("fairness_p99_ratio", ratioAt(others, even, 0.99), maxFairness)
	return r, nil
}

// peakMemory is the most that a process has used so far, in MiB.
func peakMemory(pid int) (float64, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/status"
	kb, err := strconv.ParseFloat(strings.TrimSuffix(field(path, "VmHWM"), " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("bench: VmHWM in %s: %w", path, err)
	}
	return kb / 1024, nil
}

// fairModel is what a client of the scenario works on.
type fairModel struct {
	s    *tensor.Session
	a, b *tensor.Tensor
}

func newFairModel(a *actor) (*fairModel, error) {
	e, err := client.Dial(context.Background(), a.Addr, nil)
	if err != nil {
		return nil, err
	}
	s := tensor.NewSession(e, nil)
	m := &fairModel{s, tensor.Full(s, tensor.F32, 1, fairRows, fairRows), tensor.Full(s, tensor.F32, 1.0/fairRows, fairRows, fairRows)}
	return m, s.Sync()
}

// record records one program and returns its result.
func (m *fairModel) record() (sum *tensor.Tensor) {
	m.s.Scope(func(sc *tensor.Scope) {
		x := m.a
		for range fairProducts {
			x = x.Matmul(m.b)
		}
		sum = sc.Keep(x.Sum())
	})
	return sum
}

// fairClient takes steps and waits for each.
func fairClient(a *actor) error {
	m, err := newFairModel(a)
	if err != nil {
		return err
	}
	err = a.trips(func() error {
		sum := m.record()
		defer sum.Free()
		v, err := sum.Item()
		if err == nil && v != fairRows*fairRows {
			err = fmt.Errorf("sum %v, expected %d", v, fairRows*fairRows)
		}
		return err
	})
	return errors.Join(err, m.s.Close())
}

// fairFlood sends the same and waits for nothing, until it is killed.
func fairFlood(a *actor) error {
	m, err := newFairModel(a)
	if err != nil {
		return err
	}
	for err = a.start(); err == nil; {
		m.record().Free()
		err = m.s.Flush()
	}
	return errors.Join(err, m.s.Close())
}
