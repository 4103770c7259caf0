package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
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

// hostBars adds the figures of two hosts for so many ranks that both sides of were
// measured.
func (b *collectiveBook) hostBars(r *Report, ranks int) {
	large, small := b.pick(ranks, "allreduce", "f32", false, tcpLarge, math.MaxInt), b.pick(ranks, "allreduce", "f32", false, 0, smallCall)
	if x, ok := b.worst(large, []string{sideOurs}, []string{sideMPI, sideGloo}); ok {
		r.atMost("tcp_large_over_best_peer", x, maxLargeOverPeer)
	}
	if x, ok := b.worst(small, []string{sideOurs}, []string{sideMPI}); ok {
		r.atMost("tcp_small_over_openmpi", x, maxSmallOverMPI)
	}
}

// hostTraffic is what a host sends for an all-reduce of trafficBytes, over the least that
// two hosts can do with: half of the buffer to reduce and half to spread, from each,
// which is 2 S in all.
func hostTraffic(r *run, hosts []*nettest.Host, ranks int) float64 {
	sent := func() (x float64) {
		for _, h := range hosts {
			x += float64(must(h.Sent()))
		}
		return x
	}
	before := sent()
	got := playCollective(r, ranks, []collectiveCase{{ranks, "allreduce", "f32", trafficBytes, false}}, false, hosts)
	// One to check, three to find out how many fit, a tenth of them if they are many, and
	// those.
	calls := 1 + 3 + got[0].calls
	if got[0].calls > 100 {
		calls += got[0].calls / 10
	}
	return (sent() - before) / float64(calls) / (2 * trafficBytes)
}

// hostOf returns where a rank of so many runs: the first half of them on the first host;
// nil if there are none.
func hostOf(hosts []*nettest.Host, rank, ranks int) *nettest.Host {
	if hosts == nil {
		return nil
	}
	return hosts[rank*len(hosts)/ranks]
}

// mpiOnHosts returns the options by which mpirun starts its daemons by a script in place
// of ssh.
func mpiOnHosts(r *run, hosts []*nettest.Host) func(how string, ranks int) []string {
	agent := filepath.Join(r.tempDir(), "rsh")
	var script strings.Builder
	io.WriteString(&script, "#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
	for _, h := range hosts {
		enter := h.Command(context.Background(), "sh", "-c").Args
		fmt.Fprintf(&script, "%s) exec %s \"$*\" ;;\n", h.Addr, strings.Join(enter, " "))
	}
	io.WriteString(&script, "esac\nexit 1\n")
	check(os.WriteFile(agent, []byte(script.String()), 0o700))
	return func(_ string, ranks int) []string {
		on := map[*nettest.Host]int{}
		for rank := range ranks {
			on[hostOf(hosts, rank, ranks)]++
		}
		var places []string
		for _, h := range hosts {
			places = append(places, fmt.Sprint(h.Addr, ":", on[h]))
		}
		args := []string{"--allow-run-as-root", "--host", strings.Join(places, ","),
			"--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "oob_tcp_if_include", nettest.Link,
			"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", nettest.Link, "--bind-to", "none"}
		if ranks > 2 {
			args = append(args, "--mca", "mpi_yield_when_idle", "1")
		}
		return args
	}
}
