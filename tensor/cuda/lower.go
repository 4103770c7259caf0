package cuda

import (
	"fmt"
	"sync"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// maxLaunch is how many elements the kernels on their way may compute together: a few
// milliseconds of a GPU, for none of them can be stopped.
const maxLaunch = ptx.MaxElems

// maxModules bounds the generated kernels of a device. Steps beyond run on the host.
const maxModules = 4096

// kernel is the kernels of a step, with all choices made that don't depend on the run.
type kernel []tiles

// work returns how many elements they compute.
func (k kernel) work() (n int) {
	for i := range k {
		n += k[i].Elems
	}
	return n
}

// tiles is a generated kernel, loaded.
type tiles struct {
	*ptx.Kernel
	function driver.Function
}

// lowerer finds the kernels of steps, and loads them.
type lowerer struct {
	mem  *memory.Device
	none bool // every step runs on the host

	mu      sync.Mutex
	modules map[string]module // by their text
}

// module is a loaded text of PTX.
type module struct {
	module   driver.Module
	function driver.Function
}

// plan returns the kernel of each step, nil for one that runs on the host.
func (lw *lowerer) plan(p *compile.Plan) ([]kernel, error) {
	out := make([]kernel, len(p.Steps))
	if lw.none {
		return out, nil
	}
	lw.mu.Lock()
	defer lw.mu.Unlock()
	for i := range p.Steps {
		texts := generated(&p.Steps[i])
		if texts == nil || len(lw.modules)+len(texts) > maxModules {
			continue
		}
		for _, t := range texts {
			f, err := lw.load(t.Text)
			if err != nil {
				return nil, fmt.Errorf("cuda: kernel of %s: %w", nameOf(&p.Steps[i]), err)
			}
			out[i] = append(out[i], tiles{t, f})
		}
	}
	return out, nil
}

// generated returns the kernels of a step, nil for one that runs on the host.
func generated(s *compile.Step) []*ptx.Kernel {
	var parts []*compile.Step
	switch {
	case s.Fused == compile.Tiles:
		parts = []*compile.Step{s}
	case s.Fused == compile.AdamW:
		parts = updates(s)
	case s.Fused == compile.Single && s.Op.Info().Class == tensor.ClassElementwise && s.Op != tensor.OpDropout:
		parts = []*compile.Step{ptx.Elementwise(s)}
	}
	var out []*ptx.Kernel
	for _, p := range parts {
		k := ptx.Tiles(p)
		if k == nil {
			return nil
		}
		out = append(out, k)
	}
	return out
}

// updates returns the parts of an AdamW step, one for each parameter, as elementwise
// operations.
func updates(s *compile.Step) (parts []*compile.Step) {
	outs := s.Outs()
	for i := 0; i*compile.AdamWIn < len(s.In); i++ {
		// p, m, v, g, beta1, beta2, lr, wd, eps, c1, c2
		u := &compile.Step{Instr: s.Instr, Op: s.Op, Fused: compile.Tiles, In: s.In[i*compile.AdamWIn:][:compile.AdamWIn]}
		u.Out, u.Also = *outs[3*i], []compile.Operand{*outs[3*i+1], *outs[3*i+2]}
		u.Body = []compile.Inst{
			{Op: tensor.OpAdamM, DType: u.Out.DType, In: []int{1, 3, 4}, Out: 1},
			{Op: tensor.OpAdamV, DType: u.Out.DType, In: []int{2, 3, 5}, Out: 2},
			{Op: tensor.OpAdamW, DType: u.Out.DType, In: []int{0, -1, -2, 6, 7, 8, 9, 10}, Out: 0},
		}
		parts = append(parts, u)
	}
	return parts
}

// load returns the kernel of a text, which the driver compiles once.
func (lw *lowerer) load(text string) (driver.Function, error) {
	if m, ok := lw.modules[text]; ok {
		return m.function, nil
	}
	var m module
	err := lw.mem.Do(func() error {
		var err error
		if m.module, err = lw.mem.API().ModuleLoad(text); err != nil {
			return err
		}
		m.function, err = lw.mem.API().ModuleFunction(m.module, ptx.Name)
		return err
	})
	if err != nil {
		return m.function, err
	}
	if lw.modules == nil {
		lw.modules = map[string]module{}
	}
	lw.modules[text] = m
	return m.function, nil
}

// close gives the modules back. Nothing runs any more.
func (lw *lowerer) close() error {
	lw.mu.Lock()
	defer lw.mu.Unlock()
	err := lw.mem.Do(func() error {
		for _, m := range lw.modules {
			if err := lw.mem.API().ModuleUnload(m.module); err != nil {
				return err
			}
		}
		return nil
	})
	clear(lw.modules)
	return err
}

// Placed says of a step of a plan how it runs on a GPU.
type Placed struct {
	Step    string // outputs, operation, operands
	Kernels int    // launches; 0 for a step that runs on the host
}

// Place returns how the steps of p run on a GPU. It needs none.
func Place(p *tensor.Program) []Placed {
	plan := compile.Compile(p, compileOptions(false))
	out := make([]Placed, len(plan.Steps))
	for i := range plan.Steps {
		out[i] = Placed{plan.StepString(i), len(generated(&plan.Steps[i]))}
	}
	return out
}
