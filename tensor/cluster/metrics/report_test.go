package metrics

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

func TestWorkersOf(t *testing.T) {
	// A worker's name may have dots, and end like a counter.
	c := wire.Counters{{Name: PID, Value: 1}, {Name: OfWorker("a.pid", PID), Value: 2}, {Name: OfWorker("a.pid", Sessions), Value: 3}, {Name: OfWorker("b", PID), Value: 4}}
	if got := WorkersOf(c); !slices.Equal(got, []string{"a.pid", "b"}) || c.Get(OfWorker(got[0], Sessions)) != 3 || c.Get(OfWorker("b", PID)) != 4 {
		t.Errorf("%q of %v", got, c)
	}
}

func TestPathsOf(t *testing.T) {
	c := wire.Counters{{Name: OfPath(7, 0, 1), Value: 1}, {Name: Runs, Value: 1}, {Name: "path.x", Value: 1}, {Name: OfPath(7, 0, 12)},
		{Name: OfPath(7, 0, 2), Value: Reach{Shared: true, Obstacle: device.OneProcess}.Value()}, {Name: OfPath(7, 0, 3), Value: Reach{true, true, device.None}.Value()}}
	if got := PathsOf(c); !slices.Equal(got, []Path{{7, 0, 1, Reach{Shared: true}}, {7, 0, 12, Reach{}}, {7, 0, 2, Reach{true, false, device.OneProcess}}, {7, 0, 3, Reach{true, true, device.None}}}) {
		t.Errorf("%+v of %v", got, c)
	}
}

// TestDeviceOf: the name of a worker's device is found again among the counters, whatever
// characters both names have and however long they are.
func TestDeviceOf(t *testing.T) {
	long := strings.Repeat("x", 1000)
	c := wire.Counters{{Name: OfDevice("a", "cpu"), Value: 1}, {Name: OfDevice("a.device", "b.pid"), Value: 2}, {Name: OfDevice(long, long), Value: 3}}
	if got := WorkersOf(c); len(got) > 0 {
		t.Errorf("workers %q, expected none", got)
	}
	for worker, want := range map[string]string{"a": "cpu", "a.device": "b.pid", "b": "", long: long[:wire.MaxName/4]} {
		if got := DeviceOf(c, worker); got != want {
			t.Errorf("%.10s is on %q, expected %q", worker, got, want)
		}
	}
	for _, x := range c {
		if len(x.Name) > wire.MaxName {
			t.Errorf("a name of %d bytes, at most %d", len(x.Name), wire.MaxName)
		}
	}
}

// TestCompare: rates of a worker that answers are by its own clock; one that is silent
// has none; and counters of one that was started again count from 0.
func TestCompare(t *testing.T) {
	begin := time.Unix(1000, 0)
	answer := func(at time.Duration, runs, busy, tanh uint64) Answer {
		return Answer{At: begin.Add(at), Watched: &wire.Watched{Now: uint64(at), Counters: wire.Counters{
			{Name: Runs, Value: runs}, {Name: DriverCalls, Value: 3 * tanh}, {Name: BusyTime, Value: busy}, {Name: OfOp("tanh"), Value: tanh}},
			Sessions: []wire.WatchedSession{{ID: 7, Runs: runs, Busy: busy}}}}
	}
	silent := answer(time.Second, 5, 0, 0)
	a := &Sample{At: begin, Dispatcher: wire.Counters{{Name: Messages, Value: 10}}, Workers: map[string]Answer{
		"w0": answer(0, 100, 0, 40), "w1": silent, "w2": answer(0, 100, 0, 0)}}
	b := &Sample{At: begin.Add(4 * time.Second), Dispatcher: wire.Counters{{Name: Messages, Value: 30}, {Name: OfWorker("w0", Queued), Value: 9}, {Name: OfDevice("w0", "cuda0")}, {Name: OfWorker("w0", DeviceBytes), Value: 80}}, Workers: map[string]Answer{
		"w0": answer(2*time.Second, 120, 1e9, 46), "w1": silent, "w2": answer(2*time.Second, 8, 0, 0), "w3": {}}}
	r := Compare(a, b)
	if r.Seconds != 4 || r.Dispatcher.Messages != 5 || len(r.Workers) != 4 || len(r.Sessions) != 2 || r.Ops["tanh"] != 3 {
		t.Fatalf("%+v", r)
	}
	if w := r.Workers[0]; w.Name != "w0" || w.Runs != 10 || w.Busy != 0.5 || w.QueuedBytes != 9 || w.Device != "cuda0" || w.DeviceBytes != 80 || w.Silent != 0 || w.Ops["tanh"] != 3 ||
		w.GPU == nil || w.GPU.Calls != 9 || w.GPU.RunCalls != 0.9 {
		t.Errorf("%+v", w)
	}
	if w := r.Workers[1]; w.Silent != 3 || w.Runs != 0 {
		t.Errorf("silent: %+v", w)
	}
	if w := r.Workers[2]; w.Runs != 4 || w.GPU != nil {
		t.Errorf("started again: %+v", w)
	}
	if w := r.Workers[3]; w.Silent != 4 {
		t.Errorf("has not answered yet: %+v", w)
	}
	if s := r.Sessions[0]; s.ID != 7 || s.Busy != 0.5 || s.Runs != 10 {
		t.Errorf("%+v", s)
	}
}
