package bench

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

//go:embed torch/*.py
var torchSource embed.FS

// pythons returns the interpreters to try: that of a virtual environment that comes first
// on PATH, the one that distributions install PyTorch for, and where it may be otherwise.
func pythons() []string {
	const distributions, onPath = "/usr/bin/python3", "python3"
	if found, err := exec.LookPath(onPath); err == nil {
		if _, err := os.Stat(filepath.Join(filepath.Dir(found), "..", "pyvenv.cfg")); err == nil {
			return []string{found, distributions}
		}
	}
	return []string{distributions, onPath}
}

// torchPeer is PyTorch, which takes steps when told to: a process, or several ranks that
// take each step together.
type torchPeer struct {
	name  string
	procs []torchProcess
}

type torchProcess struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

// torchCheck fails without PyTorch, and where that multiplies matrices by Debian's
// reference BLAS, whose loops are plain Fortran.
const torchCheck = `import sys, torch, numpy
sys.exit(any("/blas/libblas.so" in line for line in open("/proc/self/maps")))`

// findTorch returns a Python that has PyTorch with a fast BLAS, or ErrNoTorch.
func findTorch(ctx context.Context) (string, error) {
	for _, p := range pythons() {
		if exec.CommandContext(ctx, p, "-c", torchCheck).Run() == nil {
			return p, ctx.Err()
		}
	}
	return "", errors.Join(ErrNoTorch, ctx.Err())
}

// torch is an installation of PyTorch.
type torch struct {
	python, dir string // the interpreter, and the folder with our scripts

	core  string // see fastCore
	tried bool   // core is known
}

// torch finds PyTorch and writes the scripts.
func (r *run) torch() *torch {
	t := &torch{python: must(findTorch(r.ctx)), dir: r.tempDir()}
	check(os.CopyFS(t.dir, must(fs.Sub(torchSource, "torch"))))
	return t
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

// torchPeer starts a process of so many threads.
func (r *run) torchPeer(t *torch, threads int, how tuning) *torchPeer {
	core, name := "", "PyTorch, "+count(threads, "thread")
	if how >= fastBLAS {
		core = t.fastCore(r.ctx)
	}
	args := torchEnv(threads, core)
	if how == fullTuned {
		args = append(args, "MALLOC_MMAP_THRESHOLD_=1073741824", "MALLOC_TRIM_THRESHOLD_=-1", "MALLOC_TOP_PAD_=67108864")
		if hasAVX512() {
			args = append(args, "ATEN_CPU_CAPABILITY=avx512")
		}
		name += ", tuned"
	}
	if core != "" {
		name += ", OpenBLAS's " + core
	}
	p := &torchPeer{name: name}
	p.start(r, t, append(args, t.python, "-B", "peer.py", strconv.Itoa(threads)))
	return p
}

// start starts a process that runs one of the scripts, until the scenario ends: args are
// env's.
func (p *torchPeer) start(r *run, t *torch, args []string) {
	cmd := exec.CommandContext(r.ctx, "env", args...)
	cmd.Dir, cmd.Stderr = t.dir, os.Stderr
	in, out := must(cmd.StdinPipe()), bufio.NewScanner(must(cmd.StdoutPipe()))
	within("bench: "+p.name, func() { check(cmd.Start()) })
	out.Buffer(nil, maxReply)
	p.procs = append(p.procs, torchProcess{in, out})
	r.atEnd(func() error {
		in.Close()
		_ = cmd.Wait()
		return nil
	})
}

// maxReply is more than the times of the longest turn take.
const maxReply = 1 << 20

// torchReply is what a process answers.
type torchReply struct {
	MS     []float64 `json:"ms"`
	Losses []float64 `json:"losses"`
	Lacks  bool      `json:"lacks"` // PyTorch lacks a row for the dtype
	Error  string    `json:"error"` // of a row
}

// anyCount is that an answer may have any number of numbers.
const anyCount = -1

// ask sends a line to all processes, which may wait for each other, and returns their
// answers. n is how many numbers each must have, or anyCount.
func (p *torchPeer) ask(question any, n int) []torchReply {
	all := make([]torchReply, len(p.procs))
	within("bench: "+p.name, func() {
		line := append(must(json.Marshal(question)), '\n')
		for _, x := range p.procs {
			must(x.in.Write(line))
		}
		for i, x := range p.procs {
			if !x.out.Scan() {
				check(fmt.Errorf("it ended: %w", errors.Join(x.out.Err(), io.ErrUnexpectedEOF)))
			}
			if err := json.Unmarshal(x.out.Bytes(), &all[i]); err != nil {
				check(fmt.Errorf("it said %q: %w", x.out.Text(), err))
			}
			if got := len(all[i].MS) + len(all[i].Losses); n != anyCount && got != n {
				check(fmt.Errorf("it gave %d numbers, expected %d", got, n))
			}
		}
	})
	return all
}

// load has the peer make a model.
func (p *torchPeer) load(t *trial) { p.ask(t, 0) }

// drop has it forget the model.
func (p *torchPeer) drop(t *trial) { p.ask(map[string]any{"drop": t.Name}, 0) }

// steps is the mean ms of n steps; of ranks, which say no more, by the slowest's clock.
func (p *torchPeer) steps(t *trial, n int) float64 {
	question, numbers := map[string]any{"model": t.Name, "steps": n}, n
	if len(p.procs) > 1 {
		numbers = 1
	}
	slowest := 0.0
	for _, x := range p.ask(question, numbers) {
		slowest = max(slowest, mean(x.MS))
	}
	return slowest
}

// losses are those of n steps on the whole batch: the means of the ranks', whose parts
// are equally large.
func (p *torchPeer) losses(t *trial, n int) []float64 {
	out := make([]float64, n)
	for _, x := range p.ask(map[string]any{"model": t.Name, "losses": n}, n) {
		for i, loss := range x.Losses {
			out[i] += loss / float64(len(p.procs))
		}
	}
	return out
}

// save has it write the model's parameters and its optimizer's state to path.
func (p *torchPeer) save(t *trial, path string) {
	p.ask(map[string]any{"model": t.Name, "save": path}, 0)
}

// operation returns the mean ms of one operation, of n.
func (p *torchPeer) operation(name string, n int, sizes ...int) float64 {
	return mean(p.ask(map[string]any{"op": name, "sizes": sizes, "n": n}, n)[0].MS)
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// count is a number and a noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
