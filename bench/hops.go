package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const minHopsRatio = 8

// hopCase is a chain client → dispatcher → worker and back under some load.
type hopCase struct {
	name             string
	clients, workers int
	workUS           int
	oneCore          bool
}

func hopCases() []hopCase {
	return []hopCase{
		{"1 client, 1 worker", 1, 1, 0, false},
		{"2 clients, 1 worker", 2, 1, 0, false},
		{"1 client, 2 workers", 1, 2, 0, false},
		{"2 clients, 2 workers", 2, 2, 0, false},
		{"20 µs of work", 1, 1, 20, false},
		{"one core", 1, 1, 0, true},
		{"one core, 20 µs of work", 1, 1, 20, true},
	}
}

// runHops times 64 bytes through a process in the middle, over conns of the local
// transport and over unix sockets. The process in the middle forwards and does nothing
// else, in both.
//
// Which two of three processes share a core is for the kernel to say, which also moves
// them, and worth a factor of two. So each round of each side starts its processes anew,
// and there are enough rounds that the median speaks for the machine and not for one
// placement.
func runHops(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "latency-hops"}
	dir, err := os.MkdirTemp("", "ringside-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	f, err := buildFloor(ctx, dir)
	if err != nil && !errors.Is(err, errNoFloor) {
		return nil, err
	}
	var sides []side
	for _, c := range hopCases() {
		sides = append(sides,
			side{"ring, " + c.name, 20_000, func(ctx context.Context, n int) ([]float64, error) { return ringHops(ctx, o, dir, c, n) }},
			side{"unix, " + c.name, 2000, func(ctx context.Context, n int) ([]float64, error) { return unixHops(ctx, o, c, n) }})
	}
	all, lines, err := interleave(ctx, o, f, o.rounds(7), "ns", sides)
	if err != nil {
		return nil, err
	}
	for _, s := range append(lines, all...) {
		r.measured(s)
	}
	name := hopCases()[0].name
	ours, theirs := find(all, "ring, "+name), find(all, "unix, "+name)
	r.atLeast("hops_p50_unix_over_ring", ratio(theirs, ours), minHopsRatio)
	r.atLeast("hops_p99_unix_over_ring", ratioAt(theirs, ours, 0.99), minHopsRatio)
	return r, nil
}

// ringHops plays a case over conns: the hub listens, clients and workers dial it.
func ringHops(ctx context.Context, o *Options, dir string, c hopCase, n int) ([]float64, error) {
	addr := filepath.Join(dir, "hub")
	base := role{Kind: "ring", Addr: addr, Core: -1, OneCore: c.oneCore, Clients: c.clients, Workers: c.workers, WorkUS: c.workUS, Count: n}
	roles := []role{base.as("hop-hub")}
	for range c.workers {
		roles = append(roles, base.as("hop-worker"))
	}
	for range c.clients {
		roles = append(roles, base.as("hop-client"))
	}
	return play(ctx, o, roles...)
}

// as is the role for another part; clients measure.
func (r role) as(part string) role {
	r.Part, r.Measures = part, part == "hop-client"
	return r
}

// unixHops plays it over pairs of sockets, the hub's ends in the order clients, workers.
func unixHops(ctx context.Context, o *Options, c hopCase, n int) ([]float64, error) {
	base := role{Kind: "unix", Core: -1, OneCore: c.oneCore, Clients: c.clients, Workers: c.workers, WorkUS: c.workUS, Count: n}
	hub := base.as("hop-hub")
	var clients, workers []role
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for i := range c.clients + c.workers {
		theirs, ours, err := socketPair()
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		files = append(files, theirs, ours)
		hub.Files = append(hub.Files, ours)
		end := base.as("hop-worker")
		if i < c.clients {
			end = base.as("hop-client")
		}
		end.Files = []*os.File{theirs}
		if i < c.clients {
			clients = append(clients, end)
		} else {
			workers = append(workers, end)
		}
	}
	roles := append([]role{hub}, workers...)
	return play(ctx, o, append(roles, clients...)...)
}
