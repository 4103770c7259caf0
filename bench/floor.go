package bench

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed floor/floor.c
var floorSource []byte

//go:embed floor/mpi.c
var mpiSource []byte

//go:embed floor/arith.c
var arithSource []byte

var (
	// errNoFloor is why a scenario goes without its C side.
	errNoFloor = errors.New("bench: no C compiler; apt-get install gcc")
	// errNoMPI is why a scenario goes without Open MPI.
	errNoMPI = errors.New("bench: no Open MPI to compile with and run; apt-get install openmpi-bin libopenmpi-dev")
	// errNoPeers is why a scenario goes without libraries in Go that only it needs.
	errNoPeers = errors.New("bench: " + peersDir + " can't be built; cd " + peersDir + " && go mod download")
)

// tool is the command line of a program that prints figures. It is nil where the machine
// can't have it.
type tool []string

// floor compiles the C program of what two processes can do on this machine.
func (r *run) floor() tool { return r.compileC("floor", floorSource, "-O2") }

// arith compiles the C program of what one core can compute at most, for the very
// processor.
func (r *run) arith() tool {
	return r.compileC("arith", arithSource, "-O2", "-march=native", "-ffast-math")
}

func (r *run) compileC(name string, source []byte, args ...string) tool {
	for _, cc := range []string{"cc", "gcc", "clang"} {
		if found(cc) {
			return tool{r.compile(name, source, cc, args...)}
		}
	}
	r.without("C", errNoFloor)
	return nil
}

// mpi compiles the C program of what two ranks of Open MPI can do.
func (r *run) mpi() tool {
	if !foundMPI() {
		r.without("Open MPI", errNoMPI)
		return nil
	}
	run := append(tool{"mpirun", "-np", "2", "--bind-to", "core"}, asRoot()...)
	return append(run, r.compile("mpi", mpiSource, "mpicc", "-O2"))
}

// foundMPI reports whether programs of Open MPI can be compiled and run: its compiler is
// often installed without the headers.
func foundMPI() bool {
	return found("mpicc", "mpirun") && exec.Command("mpicc", "-E", "-include", "mpi.h", "-x", "c", "/dev/null").Run() == nil
}

// asRoot returns the option of mpirun without which it does nothing for root.
func asRoot() []string {
	if os.Geteuid() == 0 {
		return []string{"--allow-run-as-root"}
	}
	return nil
}

// found reports whether all of these programs are installed.
func found(programs ...string) bool {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return false
		}
	}
	return true
}

// compile makes an executable of one C file and returns its path.
func (r *run) compile(name string, source []byte, cc string, args ...string) string {
	path := filepath.Join(r.tempDir(), name)
	check(os.WriteFile(path+".c", source, 0o600))
	if out, err := exec.CommandContext(r.ctx, cc, append(args, "-o", path, path+".c")...).CombinedOutput(); err != nil {
		check(fmt.Errorf("bench: %s %s.c: %w\n%s", cc, name, err, out))
	}
	return path
}

// run returns the figures that the tool measures when it is called with these arguments.
func (t tool) run(ctx context.Context, args ...any) (x []float64) {
	for _, a := range args {
		t = append(t[:len(t):len(t)], fmt.Sprint(a))
	}
	within(fmt.Sprint("bench: ", t), func() {
		cmd := exec.CommandContext(ctx, t[0], t[1:]...)
		cmd.Stderr = os.Stderr
		out := must(cmd.StdoutPipe())
		check(cmd.Start())
		var err error
		x, err = floats(out)
		check(errors.Join(err, cmd.Wait()))
		if len(x) == 0 {
			check(errors.New("it measured nothing"))
		}
	})
	return x
}

// floats reads figures to the end: float32, little endian.
func floats(r io.Reader) ([]float64, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if len(b)%4 != 0 {
		return nil, fmt.Errorf("%d bytes of figures, expected a multiple of 4", len(b))
	}
	out := make([]float64, len(b)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return out, nil
}
