package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ringside-go/ringside/tensor"
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
func runFairness(r *run) {
	c := r.start(1, 0)
	step := role{Part: "fair-client", Addr: c.Addr(), Core: -1, Count: r.work(fairSteps), Measures: true}
	clients := func(name string, first role) side {
		roles := append([]role{first}, slices.Repeat([]role{step}, fairClients-1)...)
		return sampled(name, "ns", 0, func(int) []float64 { return play(r.ctx, r.Options, roles...) })
	}
	flood := role{Part: "fair-flood", Addr: c.Addr(), Core: -1}
	even := clients(fmt.Sprintf("a step of %d clients", fairClients), step)
	others := clients(fmt.Sprintf("a step of %d clients, another floods", fairClients-1), flood)
	sides := []side{even, others}
	for _, p := range c.Parts() {
		sides = append(sides, number("memory of "+p.Child.String(), "MiB", 0, func() float64 { return peakMemory(p.PID) }))
	}
	r.measure(turns{rounds: r.rounds(5)}, sides...)
	r.atMost("fairness_p99_ratio", ratioAt(others.series, even.series, 0.99), maxFairness)
}

// peakMemory is the most that a process has used so far, in MiB.
func peakMemory(pid int) (mib float64) {
	path := "/proc/" + strconv.Itoa(pid) + "/status"
	within("bench: VmHWM in "+path, func() {
		mib = must(strconv.ParseFloat(strings.TrimSuffix(field(path, "VmHWM"), " kB"), 64)) / 1024
	})
	return mib
}

// fairModel is what a client of the scenario works on.
type fairModel struct {
	s    *tensor.Session
	a, b *tensor.Tensor
}

func newFairModel(a *actor) *fairModel {
	s := tensor.NewSession(must(client.Dial(context.Background(), a.Addr, nil)), nil)
	m := &fairModel{s, tensor.Full(s, tensor.F32, 1, fairRows, fairRows), tensor.Full(s, tensor.F32, 1.0/fairRows, fairRows, fairRows)}
	check(s.Sync())
	return m
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
func fairClient(a *actor) {
	m := newFairModel(a)
	a.trips(func() {
		sum := m.record()
		defer sum.Free()
		if v := must(sum.Item()); v != fairRows*fairRows {
			check(fmt.Errorf("sum %v, expected %d", v, fairRows*fairRows))
		}
	})
	check(m.s.Close())
}

// fairFlood sends the same and waits for nothing, until it is killed.
func fairFlood(a *actor) {
	m := newFairModel(a)
	for a.start(); ; check(m.s.Flush()) {
		m.record().Free()
	}
}
