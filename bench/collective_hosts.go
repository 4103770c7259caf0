package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNeedsRoot is returned for two hosts by users who may not make namespaces.
var ErrNeedsRoot = errors.New("bench: two hosts are two network namespaces, which only root can make")

const (
	maxLargeOverPeer = 1
	maxSmallOverMPI  = 1.3
	maxTraffic       = 1.1 // over twice the buffer, which is what an all-reduce has to send between two hosts
	tcpLarge         = 1 << 20
)

// namespace plays a host: network, mounts with a /dev/shm of its own, and host name. It is there as long as a process in
// it, and that as long as its standard input is open, so nothing is left whatever happens to this one.
type namespace struct {
	pid  int
	addr string
	stop func()
}

// newNamespace starts host i.
func newNamespace(ctx context.Context, i int) (*namespace, error) {
	script := fmt.Sprintf("mount -t tmpfs -o size=2g tmpfs /dev/shm && hostname ringside%d && ip link set lo up && echo up && exec cat", i)
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--uts", "--ipc", "sh", "-c", script)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: namespace: %w", err)
	}
	stop := func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		stop()
		return nil, fmt.Errorf("bench: namespace %d did not start: %w", i, err)
	}
	return &namespace{cmd.Process.Pid, fmt.Sprintf("10.77.0.%d", i+1), stop}, nil // unshare became the shell, and that cat
}

// enter is what a command is put behind to run there. Sockets in the file system would lead to the other host, so those
// of this one lie in its /dev/shm.
func (n *namespace) enter() []string {
	return []string{"nsenter", "--target", fmt.Sprint(n.pid), "--net", "--mount", "--uts", "--ipc", "env", "XDG_RUNTIME_DIR=/dev/shm"}
}

// do runs a command there and returns what it printed.
func (n *namespace) do(ctx context.Context, args ...string) (string, error) {
	args = append(n.enter(), args...)
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("bench: %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

const vethName = "ringside0"

// sent is the bytes that left by the link.
func (n *namespace) sent(ctx context.Context) (float64, error) {
	text, err := n.do(ctx, "cat", "/proc/net/dev")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), vethName+":"); ok {
			var x [9]float64
			for i, word := range strings.Fields(rest)[:9] { // eight of what came in, then bytes sent
				if _, err := fmt.Sscan(word, &x[i]); err != nil {
					return 0, err
				}
			}
			return x[8], nil
		}
	}
	return 0, fmt.Errorf("bench: no %s in %q", vethName, text)
}

// twoHosts are namespaces joined by a pair of virtual links.
func twoHosts(ctx context.Context) (hosts []*namespace, stop func(), err error) {
	stop = func() {
		for _, h := range hosts {
			h.stop()
		}
	}
	if os.Geteuid() != 0 {
		return nil, stop, ErrNeedsRoot
	}
	for i := range 2 {
		h, err := newNamespace(ctx, i)
		if err != nil {
			stop()
			return nil, stop, err
		}
		hosts = append(hosts, h)
	}
	// Made inside of the first, so that it never is among the machine's own.
	_, err = hosts[0].do(ctx, "ip", "link", "add", vethName, "type", "veth", "peer", "name", vethName, "netns", fmt.Sprint(hosts[1].pid))
	for _, h := range hosts {
		for _, args := range [][]string{{"ip", "addr", "add", h.addr + "/24", "dev", vethName}, {"ip", "link", "set", vethName, "up"}} {
			if err == nil {
				_, err = h.do(ctx, args...)
			}
		}
	}
	if err != nil {
		stop()
		return nil, stop, err
	}
	return hosts, stop, nil
}

// runCollectiveHosts times all-reduces and barriers of ranks that are divided among two hosts.
func runCollectiveHosts(ctx context.Context, o *Options, dir string) (*Report, error) {
	hosts, stop, err := twoHosts(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
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
	traffic := &series{name: "sent by a host over 2 S", unit: "ratio", n: 1}
	for range o.rounds(collectiveRounds) {
		for _, n := range ranks {
			round, err := measureRound(ctx, n, choice.cases(n), sides)
			if err != nil {
				return nil, err
			}
			b.bind(round, choice.cases(n), sides)
			x, err := hostTraffic(ctx, o, hosts, n)
			if err != nil {
				return nil, err
			}
			traffic.add(x)
		}
	}
	r := b.report("collective, two hosts")
	r.measured(traffic)
	for _, n := range ranks {
		large, small := b.pick(n, "allreduce", "f32", false, tcpLarge, math.MaxInt), b.pick(n, "allreduce", "f32", false, 0, smallCall)
		if x, ok := b.worst(large, []string{sideOurs}, []string{sideMPI, sideGloo}); ok {
			r.atMost("tcp_large_over_best_peer", x, maxLargeOverPeer)
		}
		if x, ok := b.worst(small, []string{sideOurs}, []string{sideMPI}); ok {
			r.atMost("tcp_small_over_openmpi", x, maxSmallOverMPI)
		}
	}
	r.atMost("tcp_traffic_over_minimum", quantile(traffic.medians(), 0.5), maxTraffic)
	return r, nil
}

// hostTraffic is what a host sends for an all-reduce of 16 MiB, over the least that two hosts can do with: half of the
// buffer to reduce and half to spread, from each, which is 2 S in all.
func hostTraffic(ctx context.Context, o *Options, hosts []*namespace, ranks int) (float64, error) {
	const size = 16 << 20
	var total float64
	sum := func() (x float64, err error) {
		for _, h := range hosts {
			s, err := h.sent(ctx)
			if err != nil {
				return 0, err
			}
			x += s
		}
		return x, nil
	}
	before, err := sum()
	if err != nil {
		return 0, err
	}
	c := collectiveCase{ranks, "allreduce", "f32", size, false}
	got, err := playCollective(ctx, o, ranks, []collectiveCase{c}, onHosts(hosts, ranks))
	if err != nil {
		return 0, err
	}
	after, err := sum()
	if err != nil {
		return 0, err
	}
	// One to check, three to find out how many fit, a tenth of them if they are many, and those.
	calls := 1 + 3 + got[0].calls
	if got[0].calls > 100 {
		calls += got[0].calls / 10
	}
	total = after - before
	return total / float64(calls) / (2 * size), nil
}

// onHosts says where rank r of so many runs: the first half of them on the first.
func onHosts(hosts []*namespace, ranks int) func(r int) *namespace {
	return func(r int) *namespace { return hosts[r*len(hosts)/ranks] }
}

// hostSides are ours, and the peers over TCP.
func hostSides(ctx context.Context, o *Options, dir string, hosts []*namespace) ([]collectiveSide, error) {
	sides := []collectiveSide{{sideOurs, mpiCan, func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error) {
		return playCollective(ctx, o, ranks, cases, onHosts(hosts, ranks))
	}}}
	path, err := compileMPI(ctx, dir)
	switch {
	case err == nil:
		run, err := mpiOnHosts(dir, path, o, hosts)
		if err != nil {
			return nil, err
		}
		sides = append(sides, collectiveSide{sideMPI + "tcp", mpiCan, run})
	case errors.Is(err, errNoMPI):
		o.without("Open MPI", fmt.Errorf("%w; apt-get install openmpi-bin libopenmpi-dev", err))
	default:
		return nil, err
	}
	gloo, err := newGloo(ctx, o, dir)
	switch {
	case err == nil:
		sides = append(sides, collectiveSide{sideGloo, glooCan, func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error) {
			return gloo.run(ctx, ranks, cases, vethName, func(r int) []string { return onHosts(hosts, ranks)(r).enter() })
		}})
	case errors.Is(err, errNoGloo):
		o.without(sideGloo, err)
	default:
		return nil, err
	}
	return sides, nil
}

// mpiOnHosts has mpirun start its daemons by a script in place of ssh.
func mpiOnHosts(dir, path string, o *Options, hosts []*namespace) (func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error), error) {
	agent := filepath.Join(dir, "rsh")
	var script strings.Builder
	io.WriteString(&script, "#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
	for _, h := range hosts {
		fmt.Fprintf(&script, "%s) exec %s sh -c \"$*\" ;;\n", h.addr, strings.Join(h.enter(), " "))
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
			places = append(places, fmt.Sprint(h.addr, ":", n))
		}
		args := append(hosts[0].enter(), "mpirun", "--allow-run-as-root", "-np", fmt.Sprint(ranks), "--host", strings.Join(places, ","),
			"--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "oob_tcp_if_include", vethName,
			"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", vethName, "--bind-to", "none")
		if ranks > 2 {
			args = append(args, "--mca", "mpi_yield_when_idle", "1")
		}
		args = append(args, path, fmt.Sprint(ranks), o.budget())
		args = append(args, caseArgs(cases)...)
		return outcomes(exec.CommandContext(ctx, args[0], args[1:]...))
	}, nil
}
