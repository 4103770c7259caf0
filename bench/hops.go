package bench

import (
	"os"

	"github.com/ringside-go/ringside/ipc"
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
func runHops(r *run) {
	var sides []side
	for _, c := range hopCases() {
		sides = append(sides,
			sampled("ring, "+c.name, "ns", 20_000, func(n int) []float64 { return c.play(r, "conn", n) }),
			sampled("unix, "+c.name, "ns", 2000, func(n int) []float64 { return c.play(r, "raw", n) }))
	}
	r.measure(turns{rounds: r.rounds(7), line: r.floor()}, sides...)
	ours, theirs := sides[0].series, sides[1].series
	r.atLeast("hops_p50_unix_over_ring", ratio(theirs, ours), minHopsRatio)
	r.atLeast("hops_p99_unix_over_ring", ratioAt(theirs, ours, 0.99), minHopsRatio)
}

// play plays the case over conns, where the hub listens and clients and workers dial it,
// or over pairs of sockets, with the hub's ends in the order clients, workers. Workers
// are ready before clients start.
func (c hopCase) play(r *run, kind string, n int) []float64 {
	base := role{Kind: kind, Core: -1, OneCore: c.oneCore, Clients: c.clients, Workers: c.workers, WorkUS: c.workUS, Count: n}
	hub := base.as("hop-hub")
	if kind == "conn" {
		base.Addr = r.socket()
		hub.Addr = base.Addr
	}
	var clients, workers []role
	for i := range c.clients + c.workers {
		end := base
		if kind == "raw" {
			theirs, ours := socketPair()
			defer closeAll([]*os.File{theirs, ours})
			hub.Files = append(hub.Files, ours)
			end.Files = []*os.File{theirs}
		}
		if i < c.clients {
			end.Hello = ipc.RoleClient
			clients = append(clients, end.as("ping"))
		} else {
			end.Hello = ipc.RoleWorker
			workers = append(workers, end.as("pong"))
		}
	}
	return play(r.ctx, r.Options, append(append([]role{hub}, workers...), clients...)...)
}
