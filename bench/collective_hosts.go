package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/net/nettest"
)

const (
	maxLargeOverPeer = 1
	maxSmallOverMPI  = 1.3
	// Over twice the buffer, which is what an all-reduce has to send between two hosts.
	maxTraffic   = 1.1
	tcpLarge     = 1 << 20
	trafficBytes = 16 << 20 // of the all-reduce whose traffic is counted
)

// runCollectiveHosts times all-reduces and barriers of ranks that are divided among two
// hosts.
func runCollectiveHosts(ctx context.Context, o *Options, dir string) (*Report, error) {
	hosts, err := nettest.Pair(ctx)
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		defer h.Close()
	}
	choice := o.Collective
	if choice.Ops == nil {
		choice.Ops = []string{"allreduce", "barrier"}
	}
	if choice.DTypes == nil {
		choice.DTypes = []string{"f32"}
	}
	ranks := choice.Ranks
	if ranks == nil {
		ranks = []int{4}
	}
	sides, err := hostSides(ctx, o, dir, hosts)
	if err != nil {
		return nil, err
	}
	b := newCollectiveBook()
	counted := o.Collective.wants(sideOurs) && slices.Contains(choice.Ops, "allreduce") && (choice.Sizes == nil || slices.Contains(choice.Sizes, trafficBytes))
	traffic := &series{name: "sent by a host over 2 S", unit: "ratio", n: 1}
	rounds := o.rounds(collectiveRounds)
	for done := range rounds {
		for _, n := range ranks {
			round, err := measureRound(ctx, o, n, choice.cases(n), sides, nil)
			if err != nil {
				return nil, err
			}
			b.bind(round, choice.cases(n), sides)
			o.progress("round", done+1, "of", rounds, "ranks", n, "hosts", len(hosts))
			if !counted {
				continue
			}
			x, err := hostTraffic(ctx, o, hosts, n)
			if err != nil {
				return nil, err
			}
			traffic.add(x)
		}
	}
	r := b.report("collective-hosts")
	if counted {
		r.measured(traffic)
	}
	for _, n := range ranks {
		large, small := b.pick(n, "allreduce", "f32", false, tcpLarge, math.MaxInt), b.pick(n, "allreduce", "f32", false, 0, smallCall)
		if x, ok := b.worst(large, []string{sideOurs}, []string{sideMPI, sideGloo}); ok {
			r.atMost("tcp_large_over_best_peer", x, maxLargeOverPeer)
		}
		if x, ok := b.worst(small, []string{sideOurs}, []string{sideMPI}); ok {
			r.atMost("tcp_small_over_openmpi", x, maxSmallOverMPI)
		}
	}
	if counted {
		r.atMost("tcp_traffic_over_minimum", quantile(traffic.medians(), 0.5), maxTraffic)
	}
	return r, nil
}

// hostTraffic is what a host sends for an all-reduce of trafficBytes, over the least that
// two hosts can do with: half of the buffer to reduce and half to spread, from each,
// which is 2 S in all.
func hostTraffic(ctx context.Context, o *Options, hosts [2]*nettest.Host, ranks int) (float64, error) {
	const size = trafficBytes
	var total float64
	sum := func() (x float64, err error) {
		for _, h := range hosts {
			s, err := h.Sent()
			if err != nil {
				return 0, err
			}
			x += float64(s)
		}
		return x, nil
	}
	before, err := sum()
	if err != nil {
		return 0, err
	}
	c := collectiveCase{ranks, "allreduce", "f32", size, false}
	got, err := playCollective(ctx, o, ranks, []collectiveCase{c}, false, onHosts(hosts, ranks))
	if err != nil {
		return 0, err
	}
	after, err := sum()
	if err != nil {
		return 0, err
	}
	// One to check, three to find out how many fit, a tenth of them if they are many, and
	// those.
	calls := 1 + 3 + got[0].calls
	if got[0].calls > 100 {
		calls += got[0].calls / 10
	}
	total = after - before
	return total / float64(calls) / (2 * size), nil
}

// onHosts says where rank r of so many runs: the first half of them on the first.
func onHosts(hosts [2]*nettest.Host, ranks int) func(r int) *nettest.Host {
	return func(r int) *nettest.Host { return hosts[r*len(hosts)/ranks] }
}

// hostSides are ours, and the peers over TCP.
func hostSides(ctx context.Context, o *Options, dir string, hosts [2]*nettest.Host) ([]collectiveSide, error) {
	var sides []collectiveSide
	if o.Collective.wants(sideOurs) {
		sides = append(sides, collectiveSide{sideOurs, mpiCan, func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error) {
			return playCollective(ctx, o, ranks, cases, false, onHosts(hosts, ranks))
		}})
	}
	path, err := compileMPI(ctx, o, dir)
	switch {
	case errors.Is(err, errNotWanted):
	case err == nil:
		run, err := mpiOnHosts(dir, path, o, hosts)
		if err != nil {
			return nil, err
		}
		if _, err := run(ctx, 2, []collectiveCase{{2, "barrier", "f32", 0, false}}); err != nil {
			o.without(sideMPI+"tcp", err)
			break
		}
		sides = append(sides, collectiveSide{sideMPI + "tcp", mpiCan, run})
	case errors.Is(err, errNoMPI):
		o.without("Open MPI", fmt.Errorf("%w; apt-get install openmpi-bin libopenmpi-dev", err))
	default:
		return nil, err
	}
	gloo, err := newGloo(ctx, o, dir)
	switch {
	case errors.Is(err, errNotWanted):
	case err == nil:
		sides = append(sides, collectiveSide{sideGloo, glooCan, func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error) {
			return gloo.run(ctx, ranks, cases, onHosts(hosts, ranks))
		}})
	case errors.Is(err, errNoGloo):
		o.without(sideGloo, err)
	default:
		return nil, err
	}
	return sides, nil
}

// mpiOnHosts has mpirun start its daemons by a script in place of ssh.
func mpiOnHosts(dir, path string, o *Options, hosts [2]*nettest.Host) (func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error), error) {
	agent := filepath.Join(dir, "rsh")
	var script strings.Builder
	io.WriteString(&script, "#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
	for _, h := range hosts {
		enter := h.Command(context.Background(), "sh", "-c").Args
		fmt.Fprintf(&script, "%s) exec %s \"$*\" ;;\n", h.Addr, strings.Join(enter, " "))
	}
	io.WriteString(&script, "esac\nexit 1\n")
	if err := os.WriteFile(agent, []byte(script.String()), 0o700); err != nil {
		return nil, err
	}
	return func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error) {
		var places []string
		for i, h := range hosts {
			n := 0
			for r := range ranks {
				if onHosts(hosts, ranks)(r) == hosts[i] {
					n++
				}
			}
			places = append(places, fmt.Sprint(h.Addr, ":", n))
		}
		args := []string{"--allow-run-as-root", "-np", fmt.Sprint(ranks), "--host", strings.Join(places, ","),
			"--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "oob_tcp_if_include", nettest.Link,
			"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", nettest.Link, "--bind-to", "none"}
		if ranks > 2 {
			args = append(args, "--mca", "mpi_yield_when_idle", "1")
		}
		args = append(args, path, fmt.Sprint(ranks), o.budget())
		args = append(args, caseArgs(cases)...)
		return outcomes(hosts[0].Command(ctx, "mpirun", args...))
	}, nil
}
