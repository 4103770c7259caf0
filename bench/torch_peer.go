package bench

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

//go:embed torch/*.py
var torchSource embed.FS

// ErrNoTorch is returned by the scenarios that compare with PyTorch on a machine that has
// none, or only one with the reference BLAS.
var ErrNoTorch = errors.New("bench: no PyTorch with a fast BLAS; install it by: apt-get install python3-torch libopenblas0-openmp")

// pythons are the interpreter that distributions install PyTorch for, and where it may be
// otherwise.
var pythons = []string{"/usr/bin/python3", "python3"}

// torchPeer is a process of PyTorch that takes steps when told to.
type torchPeer struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
}

// torchCheck fails without PyTorch, and where that multiplies matrices by Debian's
// reference BLAS, whose loops are plain Fortran.
const torchCheck = `import sys, torch, numpy
sys.exit(any("/blas/libblas.so" in line for line in open("/proc/self/maps")))`

// findTorch returns a Python that has PyTorch with a fast BLAS, or ErrNoTorch.
func findTorch(ctx context.Context) (string, error) {
	for _, p := range pythons {
		if exec.CommandContext(ctx, p, "-c", torchCheck).Run() == nil {
			return p, ctx.Err()
		}
	}
	return "", errors.Join(ErrNoTorch, ctx.Err())
}

// unpackTorch writes the scripts to dir.
func unpackTorch(dir string) error {
	entries, err := torchSource.ReadDir("torch")
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, err := torchSource.ReadFile("torch/" + e.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, e.Name()), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// tuning is how far a process of PyTorch departs from what an installation does by
// itself.
type tuning int

const (
	untuned  tuning = iota
	fastBLAS        // OpenBLAS's fastest kernels, see fastCore
	// These, AVX-512 for elementwise operations and an allocator that keeps its pages.
	fullTuned
)

// startTorch starts a process of so many threads.
func startTorch(ctx context.Context, python, dir string, threads int, how tuning) (*torchPeer, error) {
	core, name := "", "PyTorch, "+count(threads, "thread")
	if how >= fastBLAS {
		var err error
		if core, err = fastCore(ctx, python); err != nil {
			return nil, err
		}
	}
	args := torchEnv(threads, core)
	if how == fullTuned {
		args = append(args, "ATEN_CPU_CAPABILITY=avx512", "MALLOC_MMAP_THRESHOLD_=1073741824", "MALLOC_TRIM_THRESHOLD_=-1", "MALLOC_TOP_PAD_=67108864")
		name += ", tuned"
	}
	if core != "" {
		name += ", OpenBLAS's " + core
	}
	return newTorchPeer(ctx, dir, name, append(args, python, "-B", "peer.py", strconv.Itoa(threads)))
}

// newTorchPeer starts a process that runs one of the scripts in dir: args are env's.
func newTorchPeer(ctx context.Context, dir, name string, args []string) (*torchPeer, error) {
	p := &torchPeer{name: name, cmd: exec.CommandContext(ctx, "env", args...)}
	p.cmd.Dir, p.cmd.Stderr = dir, os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: %s: %w", p.name, err)
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, maxReply)
	return p, nil
}

// maxReply is more than the times of the longest turn take.
const maxReply = 1 << 20

// torchReply is what a peer answers.
type torchReply struct {
	MS     []float64 `json:"ms"`
	Losses []float64 `json:"losses"`
}

// ask sends a line and returns the answer. n is how many numbers that must have.
func (p *torchPeer) ask(question any, n int) (*torchReply, error) {
	line, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("bench: %s: %w", p.name, err)
	}
	if !p.out.Scan() {
		return nil, fmt.Errorf("bench: %s ended: %w", p.name, errors.Join(p.out.Err(), io.ErrUnexpectedEOF))
	}
	var r torchReply
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		return nil, fmt.Errorf("bench: %s said %q: %w", p.name, p.out.Text(), err)
	}
	if got := len(r.MS) + len(r.Losses); got != n {
		return nil, fmt.Errorf("bench: %s gave %d numbers, expected %d", p.name, got, n)
	}
	return &r, nil
}

// load has the peer make a model.
func (p *torchPeer) load(t *trial) error {
	_, err := p.ask(t, 0)
	return err
}

// drop has it forget the model.
func (p *torchPeer) drop(t *trial) error {
	_, err := p.ask(map[string]any{"drop": t.Name}, 0)
	return err
}

func (p *torchPeer) steps(t *trial, n int) ([]float64, error) {
	r, err := p.ask(map[string]any{"model": t.Name, "steps": n}, n)
	if err != nil {
		return nil, err
	}
	return r.MS, nil
}

func (p *torchPeer) losses(t *trial, n int) ([]float64, error) {
	r, err := p.ask(map[string]any{"model": t.Name, "losses": n}, n)
	if err != nil {
		return nil, err
	}
	return r.Losses, nil
}

// save has it write the model's parameters and its optimizer's state to path.
func (p *torchPeer) save(t *trial, path string) error {
	_, err := p.ask(map[string]any{"model": t.Name, "save": path}, 0)
	return err
}

// operation times one operation n times.
func (p *torchPeer) operation(name string, n int, sizes ...int) ([]float64, error) {
	r, err := p.ask(map[string]any{"op": name, "sizes": sizes, "n": n}, n)
	if err != nil {
		return nil, err
	}
	return r.MS, nil
}

func (p *torchPeer) close() {
	p.in.Close()
	_ = p.cmd.Wait()
}

// count is a number and a noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
