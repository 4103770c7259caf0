package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	maxP50OverC = 1.5
	maxP99OverC = 3

	// nearNS separates the two placements that a hypervisor gives two cores, by the round
	// trip of a cache line: near, with a shared cache, and far. See "near and far cores"
	// in bench/results/README.md.
	nearNS = 200
)

// side is one way to do the same thing.
type side struct {
	name  string
	count int
	run   func(ctx context.Context, count int) ([]float64, error)
}

// runLatency times round trips of 64 bytes between two processes that have nothing else
// to do.
func runLatency(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "latency"}
	dir, err := os.MkdirTemp("", "ringside-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	sides := []side{
		{"ring", 200_000, func(ctx context.Context, n int) ([]float64, error) { return ringTrips(ctx, o, n, 0) }},
		{"local conn", 200_000, func(ctx context.Context, n int) ([]float64, error) { return connTrips(ctx, o, dir, n, 0) }},
		{"unix socket, system calls", 4000, func(ctx context.Context, n int) ([]float64, error) { return unixTrips(ctx, o, "raw", n) }},
		{"unix socket, package net", 4000, func(ctx context.Context, n int) ([]float64, error) { return unixTrips(ctx, o, "net", n) }},
		{"pipe, system calls", 4000, func(ctx context.Context, n int) ([]float64, error) { return pipeTrips(ctx, o, n) }},
		{"TCP loopback, package net", 4000, func(ctx context.Context, n int) ([]float64, error) { return tcpTrips(ctx, o, n) }},
	}
	f, err := buildFloor(ctx, dir)
	switch {
	case err == nil:
		// First, so that the ring is measured right after it.
		sides = append([]side{
			{"C ring with commit words", 200_000, floorMode(f, "commit")},
			{"C ring", 200_000, floorMode(f, "ring")},
		}, sides...)
	case errors.Is(err, errNoFloor):
		o.without("C", err)
	default:
		return nil, err
	}
	sides = append(sides, heavyPeers(ctx, o, dir)...)
	mpi, err := buildMPI(ctx, dir)
	switch {
	case err == nil:
		sides = append(sides, side{"Open MPI", 50_000, func(ctx context.Context, n int) ([]float64, error) { return mpi.run(ctx, "trips", n) }})
	case errors.Is(err, errNoMPI):
		o.without("Open MPI", err)
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
	ours, c := find(all, "ring"), find(all, "C ring")
	if c != nil {
		r.atMost("latency_p50_over_c_ring", ratio(ours, c), maxP50OverC)
		r.atMost("latency_p99_over_c_ring", ratioAt(ours, c, 0.99), maxP99OverC)
	}
	return r, nil
}

func floorMode(f *floor, mode string, args ...int) func(context.Context, int) ([]float64, error) {
	return func(ctx context.Context, n int) ([]float64, error) {
		return f.run(ctx, mode, append([]int{n}, args...)...)
	}
}

// interleave measures every side in every round. With a floor a cache line goes back and
// forth in C before and after each round; a round in which the cores were moved is
// measured again, up to as many times as there are rounds. The line's own times are
// returned as well, apart for cores that are near and far.
func interleave(ctx context.Context, o *Options, f *floor, rounds int, unit string, sides []side) (all, lines []*series, err error) {
	for _, s := range sides {
		all = append(all, &series{name: s.name, unit: unit})
	}
	near := &series{name: "cache line in C, cores near", unit: "ns"}
	far := &series{name: "cache line in C, cores far", unit: "ns"}
	again := rounds
	for done := 0; done < rounds; {
		before, err := lineTime(ctx, o, f)
		if err != nil {
			return nil, nil, err
		}
		got := make([][]float64, len(sides))
		for i, s := range sides {
			if got[i], err = s.run(ctx, o.work(s.count)); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
		after, err := lineTime(ctx, o, f)
		if err != nil {
			return nil, nil, err
		}
		if moved := (quantile(before, 0.5) < nearNS) != (quantile(after, 0.5) < nearNS); moved && again > 0 {
			again--
			continue
		}
		done++
		for i := range sides {
			all[i].add(got[i]...)
		}
		for _, line := range [][]float64{before, after} {
			switch {
			case line == nil:
			case quantile(line, 0.5) < nearNS:
				near.add(line...)
			default:
				far.add(line...)
			}
		}
	}
	for _, s := range []*series{near, far} {
		if len(s.rounds) > 0 {
			lines = append(lines, s)
		}
	}
	return all, lines, nil
}

// lineTime are round trips of one cache line, nil without a floor.
func lineTime(ctx context.Context, o *Options, f *floor) ([]float64, error) {
	if f == nil {
		return nil, nil
	}
	return f.run(ctx, "probe", o.work(20_000))
}

func find(all []*series, name string) *series {
	for _, s := range all {
		if s.name == name {
			return s
		}
	}
	return nil
}

// ratioAt is the median over the rounds of a's q-th quantile by b's.
func ratioAt(a, b *series, q float64) float64 {
	out := make([]float64, min(len(a.rounds), len(b.rounds)))
	for i := range out {
		out[i] = quantile(a.rounds[i], q) / quantile(b.rounds[i], q)
	}
	return quantile(out, 0.5)
}

// ringTrips are over two bare rings in a segment.
func ringTrips(ctx context.Context, o *Options, n, pauseUS int) ([]float64, error) {
	seg, err := newRings()
	if err != nil {
		return nil, err
	}
	defer seg.Close()
	files := []*os.File{seg.File()}
	return play(ctx, o,
		role{Part: "ring-pong", Core: 1, Files: files},
		role{Part: "ring-ping", Core: 0, Files: files, Count: n, PauseUS: pauseUS, Measures: true})
}

// connTrips are over a conn of the local transport.
func connTrips(ctx context.Context, o *Options, dir string, n, pauseUS int) ([]float64, error) {
	addr := filepath.Join(dir, "conn")
	return play(ctx, o,
		role{Part: "conn-pong", Core: 1, Addr: addr},
		role{Part: "conn-ping", Core: 0, Addr: addr, Count: n, PauseUS: pauseUS, Measures: true})
}

// bytesTrips are over a stream of bytes whose ends are the files.
func bytesTrips(ctx context.Context, o *Options, kind string, n int, ping, pong []*os.File) ([]float64, error) {
	defer func() {
		for _, f := range append(ping, pong...) {
			f.Close()
		}
	}()
	return play(ctx, o,
		role{Part: "bytes-pong", Kind: kind, Core: 1, Files: pong},
		role{Part: "bytes-ping", Kind: kind, Core: 0, Files: ping, Count: n, Measures: true})
}

// socketPair is a pair of connected unix sockets.
func socketPair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

func unixTrips(ctx context.Context, o *Options, kind string, n int) ([]float64, error) {
	a, b, err := socketPair()
	if err != nil {
		return nil, err
	}
	return bytesTrips(ctx, o, kind, n, []*os.File{a}, []*os.File{b})
}

func pipeTrips(ctx context.Context, o *Options, n int) ([]float64, error) {
	r0, w0, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r1, w1, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return bytesTrips(ctx, o, "pipe", n, []*os.File{r0, w1}, []*os.File{r1, w0})
}

func tcpTrips(ctx context.Context, o *Options, n int) ([]float64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer dialed.Close()
	accepted, err := l.Accept()
	if err != nil {
		return nil, err
	}
	defer accepted.Close()
	a, err := dialed.(*net.TCPConn).File()
	if err != nil {
		return nil, err
	}
	b, err := accepted.(*net.TCPConn).File()
	if err != nil {
		a.Close()
		return nil, err
	}
	return bytesTrips(ctx, o, "net", n, []*os.File{a}, []*os.File{b})
}
