package cuda

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/enginetest"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

var writeGenerated = flag.Bool("write-generated", false, "write generated.txt instead of comparing it")

// texts are the generated kernels of programs.
type texts struct {
	mu  sync.Mutex
	all map[string]bool
}

// add adds the kernels of a program, fused and not.
func (x *texts) add(p *tensor.Program) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, noFuse := range []bool{false, true} {
		plan := compile.Compile(p, compileOptions(noFuse))
		for i := range plan.Steps {
			k := lowered(&plan.Steps[i], &products{})
			if k == nil {
				continue
			}
			for _, l := range k.launches {
				if l.name == ptx.Name {
					x.all[l.text] = true
				}
			}
		}
	}
}

// lowering is an engine that adds the kernels of its programs, and runs them on the
// cores.
type lowering struct {
	tensor.Engine
	texts *texts
}

func (l *lowering) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		l.texts.add(b.Program)
	}
	return l.Engine.Submit(ctx, b)
}

// assembled is how many generated kernels TestGenerated assembles for each target.
const assembled = 500

// TestGenerated has NVIDIA's assembler take generated kernels for all targets: of those
// of the programs in the suite of engines, random ones among them, some that are as far
// from each other in the order of their texts. None has a stack, and their registers are
// those of generated.txt.
func TestGenerated(t *testing.T) {
	if testing.Short() || testsize.Sampled() {
		t.Skip("runs the whole suite, and assembles hundreds of kernels four times")
	}
	ptxas := cudatest.Tool(t, os.Getenv, "ptxas")
	if ptxas == "" {
		t.Skip("no ptxas")
	}
	x := &texts{all: map[string]bool{}}
	t.Run("programs", func(t *testing.T) {
		enginetest.Run(t, func(t *testing.T) tensor.Engine {
			d, err := cpu.New(&cpu.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return &lowering{device.NewOwner(d), x}
		}, &enginetest.Options{Programs: 60, Whole: true, Grad: func(loss *tensor.Tensor, xs ...*tensor.Tensor) ([]*tensor.Tensor, error) {
			return autograd.Grad(loss, xs...)
		}})
	})
	if len(x.all) < assembled {
		t.Fatalf("%d kernels, expected %d or more", len(x.all), assembled)
	}
	var some []string
	for i, text := range slices.Sorted(maps.Keys(x.all)) {
		if len(some)*len(x.all) <= i*assembled && len(some) < assembled {
			some = append(some, text)
		}
	}
	t.Logf("%d of %d kernels", len(some), len(x.all))
	all := cudatest.Join(some, ptx.Name)
	var b strings.Builder
	fmt.Fprintf(&b, "target kernels  registers: least median most  with a stack  spilled\n")
	for _, target := range cudatest.Targets {
		u := cudatest.Assemble(t, ptxas, all, target)
		n := len(u.Registers)
		fmt.Fprintf(&b, "%-6s %7d  %16d %6d %4d  %12d  %7d\n", target, n, u.Registers[0], u.Registers[n/2], u.Registers[n-1], u.Stack, u.Spilled)
		if u.Stack+u.Spilled > 0 {
			t.Errorf("for %s %d kernels have a stack, and %d keep registers there", target, u.Stack, u.Spilled)
		}
	}
	if *writeGenerated {
		if err := os.WriteFile("generated.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile("generated.txt"); err != nil || string(want) != b.String() {
		t.Errorf("generated.txt, %v, is not what the assembler makes, which is\n%s\nmake ptx writes it", err, &b)
	}
}
