package bench

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ringside-go/ringside/net/nettest"
)

//go:embed floor/collective.c
var collectiveSource []byte

//go:embed floor/gloo.py
var glooSource []byte

// errNotWanted is why a side is not looked for.
var errNotWanted = errors.New("bench: not chosen")

// errNoGloo is why a scenario goes without Gloo.
var errNoGloo = errors.New("bench: no python3 with torch.distributed; apt-get install python3-torch")

// collectiveSides are those that this machine has, ours right after the floor.
func collectiveSides(ctx context.Context, o *Options, dir string) ([]collectiveSide, error) {
	var sides []collectiveSide
	floor, err := collectiveFloor(ctx, o, dir)
	switch {
	case errors.Is(err, errNotWanted):
	case err == nil:
		sides = append(sides, floor)
	case errors.Is(err, errNoFloor):
		o.without("C", fmt.Errorf("%w for AVX-512; apt-get install gcc", err))
	default:
		return nil, err
	}
	if o.Collective.wants(sideOurs) {
		any := func(collectiveCase) bool { return true }
		sides = append(sides, collectiveSide{sideOurs, any, func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error) {
			return playCollective(ctx, o, ranks, cases, false, nil)
		}})
	}
	if o.Collective.wants(sidePersistent) {
		// Of larger ones what is saved can't be seen.
		small := func(c collectiveCase) bool { return c.ranks == 2 && c.bytes < largeCall }
		sides = append(sides, collectiveSide{sidePersistent, small, func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error) {
			return playCollective(ctx, o, ranks, cases, true, nil)
		}})
	}
	mpi, err := collectiveMPI(ctx, o, dir)
	switch {
	case errors.Is(err, errNotWanted):
	case err == nil:
		sides = append(sides, mpi...)
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
			return gloo.run(ctx, ranks, cases, nil)
		}})
	case errors.Is(err, errNoGloo):
		o.without(sideGloo, err)
	default:
		return nil, err
	}
	return sides, nil
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

// collectiveFloor compiles it for this machine: errNoFloor without a compiler, or on a
// processor that it isn't written for.
func collectiveFloor(ctx context.Context, o *Options, dir string) (collectiveSide, error) {
	if !o.Collective.wants(sideFloor) {
		return collectiveSide{}, errNotWanted
	}
	if runtime.GOARCH != "amd64" || !strings.Contains(field("/proc/cpuinfo", "flags"), "avx512bw") {
		return collectiveSide{}, errNoFloor
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		return collectiveSide{}, errNoFloor
	}
	path, err := compile(ctx, dir, "collective", collectiveSource, "gcc", "-O3", "-march=native")
	if err != nil {
		return collectiveSide{}, err
	}
	can := func(c collectiveCase) bool { return c.ranks <= 8 }
	return collectiveSide{sideFloor, can, func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error) {
		return outcomes(exec.CommandContext(ctx, path, append([]string{fmt.Sprint(ranks), o.budget()}, caseArgs(cases)...)...))
	}}, nil
}

// outcomes runs a program that prints a line for every case.
func outcomes(cmd *exec.Cmd) ([]outcome, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	var all []outcome
	for line := range strings.Lines(string(text)) {
		var x outcome
		if _, err := fmt.Sscan(line, &x.micros, &x.wrong, &x.calls); err != nil || x.micros <= 0 {
			return nil, fmt.Errorf("%s printed %q, expected microseconds, wrong elements, calls", cmd.Args[0], line)
		}
		all = append(all, x)
	}
	return all, nil
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

func compileMPI(ctx context.Context, o *Options, dir string) (string, error) {
	if !o.Collective.wants(sideMPI) {
		return "", errNotWanted
	}
	for _, tool := range []string{"mpicc", "mpirun"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", errNoMPI
		}
	}
	return compile(ctx, dir, "collective-mpi", collectiveSource, "mpicc", "-DMPI", "-O3", "-march=native")
}

// collectiveMPI are the transports that work here.
func collectiveMPI(ctx context.Context, o *Options, dir string) ([]collectiveSide, error) {
	path, err := compileMPI(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	var sides []collectiveSide
	for _, how := range []string{"cma", "copy", "ucx"} {
		run := func(ctx context.Context, ranks int, cases []collectiveCase) ([]outcome, error) {
			args := append([]string{"-np", fmt.Sprint(ranks)}, mpiTransports()[how]...)
			if ranks <= runtime.NumCPU() {
				args = append(args, "--bind-to", "core")
			} else {
				args = append(args, "--oversubscribe")
			}
			if os.Geteuid() == 0 {
				args = append(args, "--allow-run-as-root")
			}
			args = append(args, path, fmt.Sprint(ranks), o.budget())
			return outcomes(exec.CommandContext(ctx, "mpirun", append(args, caseArgs(cases)...)...))
		}
		if _, err := run(ctx, 2, []collectiveCase{{2, "barrier", "f32", 0, false}}); err != nil {
			o.without(sideMPI+how, err)
			continue
		}
		sides = append(sides, collectiveSide{sideMPI + how, mpiCan, run})
	}
	return sides, nil
}

// gloo runs PyTorch's Gloo.
type gloo struct {
	python, script, dir string
	o                   *Options
	runs                int
}

// newGloo looks for a Python that has it.
func newGloo(ctx context.Context, o *Options, dir string) (*gloo, error) {
	if !o.Collective.wants(sideGloo) {
		return nil, errNotWanted
	}
	script := filepath.Join(dir, "gloo.py")
	if err := os.WriteFile(script, glooSource, 0o600); err != nil {
		return nil, err
	}
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, python, "-c", "import torch.distributed as d; assert d.is_gloo_available()").Run() == nil {
			return &gloo{python, script, dir, o, 0}, nil
		}
	}
	return nil, errNoGloo
}

// glooCan is what the limits beside Gloo are for. PyTorch's has no reduce-scatter, and
// takes as long for the rest as all other sides together.
func glooCan(c collectiveCase) bool { return mpiCan(c) && (c.op == "allreduce" || c.op == "barrier") }

// run starts a process for each rank; host, if not nil, is where rank r runs.
func (g *gloo) run(ctx context.Context, ranks int, cases []collectiveCase, host func(r int) *nettest.Host) ([]outcome, error) {
	g.runs++
	store := filepath.Join(g.dir, fmt.Sprint("store", g.runs))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	command := func(r int) *exec.Cmd {
		args := append([]string{g.script, fmt.Sprint(r), fmt.Sprint(ranks), store, g.o.budget()}, caseArgs(cases)...)
		if host == nil {
			return exec.CommandContext(ctx, g.python, args...)
		}
		cmd := host(r).Command(ctx, g.python, args...)
		cmd.Env = append(cmd.Environ(), "GLOO_SOCKET_IFNAME="+nettest.Link)
		return cmd
	}
	var others []*exec.Cmd
	defer func() {
		cancel() // those that wait for a rank that failed
		for _, cmd := range others {
			_ = cmd.Wait()
		}
	}()
	for r := 1; r < ranks; r++ {
		cmd := command(r)
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		others = append(others, cmd)
	}
	return outcomes(command(0))
}
