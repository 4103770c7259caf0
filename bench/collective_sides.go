package bench

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/net/nettest"
)

//go:embed floor/collective.c
var collectiveSource []byte

//go:embed floor/gloo.py
var glooSource []byte

var (
	// errNoGloo is why a scenario goes without Gloo.
	errNoGloo = errors.New("bench: no python3 with torch.distributed; apt-get install python3-torch")
	// errNoAVX512 is why it goes without C on a machine that has a compiler.
	errNoAVX512 = errors.New("bench: the C side is written for AVX-512")
)

// collectiveRun measures the cases with so many ranks.
type collectiveRun func(ranks int, cases []collectiveCase) []outcome

// collectiveSides are those that this machine has, ours right after the floor. With hosts
// the ranks are divided among them.
func collectiveSides(r *run, hosts []*nettest.Host) (sides []collectiveSide) {
	add := func(name string, can func(collectiveCase) bool, run collectiveRun) {
		if run != nil {
			sides = append(sides, collectiveSide{name, can, run})
		}
	}
	ours := func(persistent bool) collectiveRun {
		return func(ranks int, cases []collectiveCase) []outcome {
			return playCollective(r, ranks, cases, persistent, hosts)
		}
	}
	wants := r.Collective.wants
	if wants(sideFloor) && hosts == nil {
		add(sideFloor, func(c collectiveCase) bool { return c.ranks <= 8 }, collectiveFloor(r))
	}
	if wants(sideOurs) {
		add(sideOurs, func(c collectiveCase) bool { return hosts == nil || mpiCan(c) }, ours(false))
	}
	if wants(sidePersistent) && hosts == nil {
		// Of larger ones what is saved can't be seen.
		add(sidePersistent, func(c collectiveCase) bool { return c.ranks == 2 && c.bytes < largeCall }, ours(true))
	}
	if wants(sideMPI) {
		sides = append(sides, collectiveMPI(r, hosts)...)
	}
	if wants(sideGloo) {
		add(sideGloo, glooCan, gloo(r, hosts))
	}
	return sides
}

// budget is the arguments that all sides begin with.
func (o *Options) budget() string { return fmt.Sprint(o.work(budgetMS)) }

// caseArgs are those they end with.
func caseArgs(cases []collectiveCase) (args []string) {
	for _, c := range cases {
		args = append(args, c.String())
	}
	return args
}

// collectiveFloor compiles it for this machine. It returns nil without a compiler, or on
// a processor that it isn't written for.
func collectiveFloor(r *run) collectiveRun {
	if !hasAVX512() {
		r.without("C", errNoAVX512)
		return nil
	}
	if !found("gcc") {
		r.without("C", errNoFloor)
		return nil
	}
	path := r.compile("collective", collectiveSource, "gcc", "-O3", "-march=native")
	return func(ranks int, cases []collectiveCase) []outcome {
		return outcomes(exec.CommandContext(r.ctx, path, append([]string{fmt.Sprint(ranks), r.budget()}, caseArgs(cases)...)...))
	}
}

// outcomes runs a program that prints a line for every case.
func outcomes(cmd *exec.Cmd) (all []outcome) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		check(fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes()))
	}
	for line := range strings.Lines(string(text)) {
		var x outcome
		if _, err := fmt.Sscan(line, &x.micros, &x.wrong, &x.calls); err != nil || x.micros <= 0 {
			check(fmt.Errorf("%s printed %q, expected microseconds, wrong elements, calls", cmd.Args[0], line))
		}
		all = append(all, x)
	}
	return all
}

// mpiTransports are the ways between processes of one host that Debian's Open MPI has.
func mpiTransports() map[string][]string {
	return map[string][]string{
		"cma":  {"--mca", "pml", "ob1", "--mca", "btl", "self,vader"},
		"copy": {"--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"},
		"ucx":  {"--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"},
	}
}

// mpiCan: it has no 16-bit floats, and all memory is the same to it.
func mpiCan(c collectiveCase) bool { return c.dtype == "f32" && !c.private }

// collectiveMPI are the transports that work here: between hosts TCP alone.
func collectiveMPI(r *run, hosts []*nettest.Host) (sides []collectiveSide) {
	if !foundMPI() {
		r.without("Open MPI", errNoMPI)
		return nil
	}
	path := r.compile("collective-mpi", collectiveSource, "mpicc", "-DMPI", "-O3", "-march=native")
	ways := slices.Sorted(maps.Keys(mpiTransports()))
	command := func(name string, arg ...string) *exec.Cmd { return exec.CommandContext(r.ctx, name, arg...) }
	options := func(how string, ranks int) []string {
		args := append(mpiTransports()[how], asRoot()...)
		if ranks <= runtime.NumCPU() {
			return append(args, "--bind-to", "core")
		}
		return append(args, "--oversubscribe")
	}
	if hosts != nil {
		ways = []string{"tcp"}
		command = func(name string, arg ...string) *exec.Cmd { return hosts[0].Command(r.ctx, name, arg...) }
		options = mpiOnHosts(r, hosts)
	}
	for _, how := range ways {
		run := func(ranks int, cases []collectiveCase) []outcome {
			args := append([]string{"-np", fmt.Sprint(ranks)}, options(how, ranks)...)
			args = append(args, path, fmt.Sprint(ranks), r.budget())
			return outcomes(command("mpirun", append(args, caseArgs(cases)...)...))
		}
		if err := try(func() { run(2, []collectiveCase{{2, "barrier", "f32", 0, false}}) }); err != nil {
			r.without(sideMPI+how, err)
			continue
		}
		sides = append(sides, collectiveSide{sideMPI + how, mpiCan, run})
	}
	return sides
}

// glooCan is what the limits beside Gloo are for. PyTorch's has no reduce-scatter, and
// takes as long for the rest as all other sides together.
func glooCan(c collectiveCase) bool { return mpiCan(c) && (c.op == "allreduce" || c.op == "barrier") }

// gloo runs PyTorch's Gloo, a process for each rank. It returns nil without a Python that
// has it.
func gloo(r *run, hosts []*nettest.Host) collectiveRun {
	python := ""
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(r.ctx, p, "-c", "import torch.distributed as d; assert d.is_gloo_available()").Run() == nil {
			python = p
		}
	}
	if python == "" {
		r.without(sideGloo, errNoGloo)
		return nil
	}
	dir := r.tempDir()
	script := filepath.Join(dir, "gloo.py")
	check(os.WriteFile(script, glooSource, 0o600))
	runs := 0
	return func(ranks int, cases []collectiveCase) []outcome {
		runs++
		store := filepath.Join(dir, fmt.Sprint("store", runs))
		ctx, cancel := context.WithCancel(r.ctx)
		command := func(rank int) *exec.Cmd {
			args := append([]string{script, fmt.Sprint(rank), fmt.Sprint(ranks), store, r.budget()}, caseArgs(cases)...)
			host := hostOf(hosts, rank, ranks)
			if host == nil {
				return exec.CommandContext(ctx, python, args...)
			}
			cmd := host.Command(ctx, python, args...)
			cmd.Env = append(cmd.Environ(), "GLOO_SOCKET_IFNAME="+nettest.Link)
			return cmd
		}
		for rank := 1; rank < ranks; rank++ {
			cmd := command(rank)
			check(cmd.Start())
			defer func() { _ = cmd.Wait() }()
		}
		defer cancel() // those that wait for a rank that failed
		return outcomes(command(0))
	}
}
