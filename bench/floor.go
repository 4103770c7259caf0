package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

//go:embed floor/floor.c
var floorSource []byte

//go:embed floor/mpi.c
var mpiSource []byte

//go:embed floor/arith.c
var arithSource []byte

// errNoFloor is why a scenario goes without its C side.
var errNoFloor = errors.New("bench: no C compiler")

// floor is the C program of what two processes can do on this machine.
type floor struct{ path string }

// buildFloor compiles it in dir. errNoFloor when there is no compiler.
func buildFloor(ctx context.Context, dir string) (*floor, error) {
	for _, cc := range []string{"cc", "gcc", "clang"} {
		if _, err := exec.LookPath(cc); err != nil {
			continue
		}
		path, err := compile(ctx, dir, "floor", floorSource, cc, "-O2")
		if err != nil {
			return nil, err
		}
		return &floor{path}, nil
	}
	return nil, errNoFloor
}

// buildArith compiles the C program of what one core can compute at most, for the very
// processor.
func buildArith(ctx context.Context, dir string) (*floor, error) {
	for _, cc := range []string{"cc", "gcc", "clang"} {
		if _, err := exec.LookPath(cc); err != nil {
			continue
		}
		path, err := compile(ctx, dir, "arith", arithSource, cc, "-O2", "-march=native", "-ffast-math")
		if err != nil {
			return nil, err
		}
		return &floor{path}, nil
	}
	return nil, errNoFloor
}

// compile makes an executable of one C file in dir.
func compile(ctx context.Context, dir, name string, source []byte, cc string, args ...string) (string, error) {
	src, path := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
	if err := os.WriteFile(src, source, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, cc, append(args, "-o", path, src)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("bench: %s %s.c: %w\n%s", cc, name, err, out)
	}
	return path, nil
}

// run returns the figures that one of its modes measures.
func (f *floor) run(ctx context.Context, mode string, args ...int) ([]float64, error) {
	words := []string{mode}
	for _, n := range args {
		words = append(words, strconv.Itoa(n))
	}
	return runTool(ctx, exec.CommandContext(ctx, f.path, words...))
}

// runTool returns what a program measured.
func runTool(ctx context.Context, cmd *exec.Cmd) ([]float64, error) {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	x, err := floats(out)
	if e := cmd.Wait(); err == nil {
		err = e
	}
	if err == nil && len(x) == 0 {
		err = errors.New("it measured nothing")
	}
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", cmd.Args, errors.Join(err, ctx.Err()))
	}
	return x, nil
}
