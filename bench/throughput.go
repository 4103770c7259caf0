package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

const (
	minMessagesOverC   = 1
	minMessagesOverMPI = 2.5
	maxIdlePercent     = 0.5

	// batchSize is how many messages are shown at a time where they are batched.
	batchSize = 32
)

// runThroughput counts messages of 64 bytes one way between two processes, payloads that
// travel by handle, and the cost of an open but unused conn.
func runThroughput(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "throughput"}
	dir, err := os.MkdirTemp("", "ringside-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	const n = 4_000_000
	streams := []side{
		{"ring", n, func(ctx context.Context, n int) ([]float64, error) { return ringStream(ctx, o, n, 1) }},
		{"ring, batches of 32", n, func(ctx context.Context, n int) ([]float64, error) { return ringStream(ctx, o, n, batchSize) }},
		{"local conn", n, func(ctx context.Context, n int) ([]float64, error) { return connStream(ctx, o, dir, n) }},
	}
	f, err := buildFloor(ctx, dir)
	switch {
	case err == nil:
		streams = append([]side{
			{"C ring with commit words", n, floorMode(f, "commit-stream", 1)},
			{"C ring, batches of 32", n, floorMode(f, "ring-stream", batchSize)},
			{"C ring", n, floorMode(f, "ring-stream", 1)},
		}, streams...)
	case errors.Is(err, errNoFloor):
		o.without("C", err)
	default:
		return nil, err
	}
	mpi, err := buildMPI(ctx, dir)
	switch {
	case err == nil:
		streams = append(streams, side{"Open MPI", n / 4, func(ctx context.Context, n int) ([]float64, error) { return mpi.run(ctx, "stream", n) }})
	case errors.Is(err, errNoMPI):
		o.without("Open MPI", err)
	default:
		return nil, err
	}
	all, lines, err := interleave(ctx, o, f, o.rounds(7), "messages/s", streams)
	if err != nil {
		return nil, err
	}
	blocks, _, err := interleave(ctx, o, nil, o.rounds(7), "GB/s", blockSides(o, dir))
	if err != nil {
		return nil, err
	}
	idle, _, err := interleave(ctx, o, nil, o.rounds(5), "% of a core", []side{
		{"idle conn, each end", 1000, func(ctx context.Context, ms int) ([]float64, error) { return idleConn(ctx, o, dir, ms) }},
	})
	if err != nil {
		return nil, err
	}
	for _, list := range [][]*series{lines, all, blocks, idle} {
		for _, s := range list {
			r.measured(s)
		}
	}
	ours := find(all, "ring")
	if c := find(all, "C ring"); c != nil {
		r.atLeast("messages_over_c_ring", ratio(ours, c), minMessagesOverC)
	}
	if m := find(all, "Open MPI"); m != nil {
		r.atLeast("messages_over_openmpi", ratio(ours, m), minMessagesOverMPI)
	}
	r.atMost("idle_cpu_percent", quantile(idle[0].medians(), 0.5), maxIdlePercent)
	return r, nil
}

func ringStream(ctx context.Context, o *Options, n, batch int) ([]float64, error) {
	seg, err := newRings()
	if err != nil {
		return nil, err
	}
	defer seg.Close()
	files := []*os.File{seg.File()}
	return play(ctx, o,
		role{Part: "ring-source", Core: 0, Files: files, Count: n, Batch: batch},
		role{Part: "ring-sink", Core: 1, Files: files, Count: n, Measures: true})
}

func connStream(ctx context.Context, o *Options, dir string, n int) ([]float64, error) {
	addr := filepath.Join(dir, "conn")
	return play(ctx, o,
		role{Part: "conn-source", Core: 0, Addr: addr, Count: n},
		role{Part: "conn-sink", Core: 1, Addr: addr, Count: n, Measures: true})
}

func idleConn(ctx context.Context, o *Options, dir string, ms int) ([]float64, error) {
	addr := filepath.Join(dir, "conn")
	return play(ctx, o,
		role{Part: "idle", Kind: "listen", Core: -1, Addr: addr, Count: ms, Measures: true},
		role{Part: "idle", Kind: "dial", Core: -1, Addr: addr, Count: ms, Measures: true})
}

// blockSides are payloads of some sizes, by handle and copied within one process.
func blockSides(o *Options, dir string) []side {
	var out []side
	for _, size := range []struct {
		name         string
		bytes, count int
	}{{"64 KB", 64 << 10, 20_000}, {"4 MB", 4 << 20, 400}} {
		for _, kind := range []struct{ name, kind string }{
			{"by handle, filled in place and read in place", "fill"},
			{"by handle, copied in and copied out", "copy"},
		} {
			out = append(out, side{size.name + " " + kind.name, size.count, func(ctx context.Context, n int) ([]float64, error) {
				return blockStream(ctx, o, dir, kind.kind, n, size.bytes)
			}})
		}
		out = append(out, side{size.name + " memcpy", size.count, func(_ context.Context, n int) ([]float64, error) {
			return []float64{copyRate(n, size.bytes)}, nil
		}})
	}
	return out
}

func blockStream(ctx context.Context, o *Options, dir, kind string, n, size int) ([]float64, error) {
	addr := filepath.Join(dir, "conn")
	return play(ctx, o,
		role{Part: "block-source", Kind: kind, Core: 0, Addr: addr, Count: n, Size: size},
		role{Part: "block-sink", Kind: kind, Core: 1, Addr: addr, Count: n, Size: size, Measures: true})
}
