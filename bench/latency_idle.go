package bench

import (
	"context"
	"errors"
	"os"
)

const (
	idlePauseUS      = 1000
	maxIdleOverFutex = 1.15
)

// runIdle times round trips with pauses between, in which both ends fall asleep.
func runIdle(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "latency-idle"}
	dir, err := os.MkdirTemp("", "ringside-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	const n = 400
	sides := []side{
		{"ring", n, func(ctx context.Context, n int) ([]float64, error) { return ringTrips(ctx, o, n, idlePauseUS) }},
		{"local conn", n, func(ctx context.Context, n int) ([]float64, error) { return connTrips(ctx, o, dir, n, idlePauseUS) }},
	}
	f, err := buildFloor(ctx, dir)
	switch {
	case err == nil:
		sides = append(sides, side{"futex in C", n, floorMode(f, "futex", idlePauseUS)})
	case errors.Is(err, errNoFloor):
		o.without("C", err)
	default:
		return nil, err
	}
	all, lines, err := interleave(ctx, o, f, o.rounds(7), "ns", sides)
	if err != nil {
		return nil, err
	}
	for _, s := range append(lines, all...) {
		r.measured(s)
	}
	if c := find(all, "futex in C"); c != nil {
		r.atMost("idle_p50_over_futex", ratio(find(all, "ring"), c), maxIdleOverFutex)
	}
	return r, nil
}
