package command

import (
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestPathLines: a pair is told once, by sessions and by the way, and a worker that has
// not answered is a rank.
func TestPathLines(t *testing.T) {
	answer := func(from int, shared map[int]uint64) metrics.Answer {
		r := &client.WorkerReport{Sessions: []client.WorkerSession{{ID: 5, Name: "a\n"}}}
		for to := range 4 {
			if v, ok := shared[to]; ok {
				r.Counters = append(r.Counters, client.Counters{{Name: metrics.OfPath(5, from, to), Value: v}}...)
			}
		}
		return metrics.Answer{Watched: r}
	}
	got := pathLines(&metrics.Sample{Workers: map[string]metrics.Answer{
		"a": answer(0, map[int]uint64{1: 1, 2: 0, 3: 1}),
		"b": answer(1, map[int]uint64{0: 1, 2: 0}),
		"c": answer(2, map[int]uint64{0: 0, 1: 0}),
		"d": {}, // silent
	}})
	staged := metrics.Reach{Shared: true, Obstacle: device.Namespaces}.Value()
	got = append(got, pathLines(&metrics.Sample{Workers: map[string]metrics.Answer{
		"a": answer(0, map[int]uint64{1: metrics.Reach{Shared: true, Near: true}.Value(), 2: staged, 3: metrics.Reach{Obstacle: device.Hosts}.Value()}),
	}})...)
	want := []string{
		`session 5, a\x0a: a and b, a and rank 3: shared memory`,
		`session 5, a\x0a: a and c, b and c: TCP; no faster way, because they are on different hosts, or in containers that share no /dev/shm`,
		`session 5, a\x0a: a and rank 1: GPU memory (peer)`,
		`session 5, a\x0a: a and rank 2: shared memory, by which values of GPUs are copied (staged); not from GPU to GPU, because the workers are in different PID namespaces, where the driver opens no handles`,
		`session 5, a\x0a: a and rank 3: TCP; no faster way, because they are on different hosts, or in containers that share no /dev/shm`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}
