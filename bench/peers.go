package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// errNoMPI is why a scenario goes without Open MPI.
var errNoMPI = errors.New("bench: no mpicc or no mpirun")

// mpi runs a C program as two ranks.
type mpi struct{ path string }

// buildMPI compiles it in dir. errNoMPI when there is no MPI.
func buildMPI(ctx context.Context, dir string) (*mpi, error) {
	for _, tool := range []string{"mpicc", "mpirun"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, errNoMPI
		}
	}
	path, err := compile(ctx, dir, "mpi", mpiSource, "mpicc", "-O2")
	if err != nil {
		return nil, err
	}
	return &mpi{path}, nil
}

// run returns what one of its modes measures.
func (m *mpi) run(ctx context.Context, mode string, n int) ([]float64, error) {
	args := []string{"-np", "2", "--bind-to", "core"}
	if os.Geteuid() == 0 {
		args = append(args, "--allow-run-as-root")
	}
	return runTool(ctx, exec.CommandContext(ctx, "mpirun", append(args, m.path, mode, strconv.Itoa(n))...))
}

// peersDir is where the module of the heavy peers lies: libraries that only they need
// stay out of ours.
const peersDir = "bench/peers"

// heavyPeers are other Go libraries. They are there when this runs inside the source tree
// and there is a go command that can build them; otherwise there are none.
func heavyPeers(ctx context.Context, o *Options, dir string) []side {
	src, ok := findUp(filepath.Join(peersDir, "go.mod"))
	if !ok {
		o.without("netpoll and shmipc-go", errors.New(peersDir+" is not here"))
		return nil
	}
	path := filepath.Join(dir, "peers")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, ".")
	build.Dir = filepath.Dir(src)
	if out, err := build.CombinedOutput(); err != nil {
		o.without("netpoll and shmipc-go", fmt.Errorf("%w: %s", err, out))
		return nil
	}
	var out []side
	for _, p := range []struct{ name, mode string }{
		{"netpoll, TCP loopback", "netpoll"},
		{"shmipc-go", "shmipc"},
	} {
		out = append(out, side{p.name, 4000, func(ctx context.Context, n int) ([]float64, error) {
			return runTool(ctx, exec.CommandContext(ctx, path, p.mode, fmt.Sprint(n)))
		}})
	}
	return out
}

// without says which side is left out, and why.
func (o *Options) without(what string, why error) {
	if o.Logger != nil {
		o.Logger.Warn("bench: left out", "side", what, "err", why)
	}
}

// progress says how far a scenario that takes minutes has come.
func (o *Options) progress(what ...any) {
	if o.Logger != nil {
		o.Logger.Info("bench: measured", what...)
	}
}

// findUp looks for a file in the working directory and those above it.
func findUp(name string) (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}
