package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/device"
)

// pathsAnswer is how long the workers have to say how they reach each other.
const pathsAnswer = 500 * time.Millisecond

// workerPaths asks the workers how those of each session reach each other, and returns a
// line for each way. Workers that do not answer in time are left out.
func workerPaths(ctx context.Context, w *client.Monitor) ([]string, error) {
	sample, err := sampleNow(ctx, w, nil, pathsAnswer)
	if err != nil {
		return nil, err
	}
	return pathLines(sample), nil
}

// way is a session's workers that reach each other alike.
type way struct {
	session uint64
	reach   metrics.Reach
}

// reachWords says how two workers reach each other, and why not faster.
func reachWords(r metrics.Reach) string {
	switch {
	case r.Near:
		return "GPU memory (peer)"
	case !r.Shared:
		return "TCP; no faster way, because they are on different hosts, or in containers that share no /dev/shm"
	case r.Obstacle != device.None:
		return fmt.Sprintf("shared memory, by which values of GPUs are copied (staged); not from GPU to GPU, because %v", r.Obstacle)
	}
	return "shared memory"
}

// pathLines are the lines of workerPaths.
func pathLines(sample *metrics.Sample) (lines []string) {
	type seat struct {
		session uint64
		rank    int
	}
	workers, sessions := map[seat]string{}, map[uint64]string{}
	var all []metrics.Path
	for name, a := range sample.Workers {
		if a.Watched == nil {
			continue
		}
		for _, p := range metrics.PathsOf(a.Watched.Counters) {
			workers[seat{p.Session, p.From}] = name
			all = append(all, p)
		}
		for i := range a.Watched.Sessions {
			sessions[a.Watched.Sessions[i].ID] = a.Watched.Sessions[i].Name
		}
	}
	slices.SortFunc(all, func(a, b metrics.Path) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	pairs := map[way][]string{}
	for _, p := range all {
		to, ok := workers[seat{p.Session, p.To}]
		if ok && p.From > p.To {
			continue // the other end says it
		}
		if !ok {
			to = fmt.Sprintf("rank %d", p.To)
		}
		k := way{p.Session, p.Reach}
		pairs[k] = append(pairs[k], workers[seat{p.Session, p.From}]+" and "+to)
	}
	for _, k := range slices.SortedFunc(maps.Keys(pairs), func(a, b way) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(pairs[a][0], pairs[b][0]))
	}) {
		lines = append(lines, fmt.Sprintf("session %d, %s: %s: %s", k.session, cell(sessions[k.session]), strings.Join(pairs[k], ", "), reachWords(k.reach)))
	}
	return lines
}
