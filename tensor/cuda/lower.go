package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// maxModules bounds the generated kernels of a device. Steps beyond run on the host.
const maxModules = 4096

// lowerer finds the kernels of steps, and loads them.
type lowerer struct {
	mem   *memory.Device
	count *counters
	none  bool // every step runs on the host

	products products

	mu      sync.Mutex
	modules map[string]*module // by their text
}

// module is a loaded text of PTX.
type module struct {
	module    driver.Module
	functions map[string]driver.Function
}

// plan returns the kernel of each step, nil for one that runs on the host.
func (lw *lowerer) plan(p *compile.Plan) ([]*kernel, error) {
	out := make([]*kernel, len(p.Steps))
	if lw.none {
		return out, nil
	}
	lw.mu.Lock()
	defer lw.mu.Unlock()
	for i := range p.Steps {
		k := lowered(&p.Steps[i], &lw.products)
		if k != nil && k.err != nil {
			return nil, fmt.Errorf("cuda: kernel of %s: %w", nameOf(&p.Steps[i]), k.err)
		}
		if k == nil || len(lw.modules)+len(k.launches) > maxModules {
			continue
		}
		for j := range k.launches {
			l := &k.launches[j]
			if l.product != nil {
				continue
			}
			var err error
			if l.function, err = lw.load(l.text, l.name); err != nil {
				return nil, fmt.Errorf("cuda: kernel of %s: %w", nameOf(&p.Steps[i]), err)
			}
		}
		out[i] = k
	}
	return out, nil
}

// lowered returns the kernel of a step, nil for one that runs on the host. The kernel's
// err is set if the library lacks a part of it.
func lowered(s *compile.Step, p *products) *kernel {
	k := &kernel{products: p}
	if slices.ContainsFunc(s.Outs(), func(o *compile.Operand) bool { return o.Shape.Elems() > 0 }) || checksIndex(s) {
		k.step(s)
	}
	if k.err == nil && k.host {
		return nil
	}
	return k
}

// checksIndex reports whether s fails by what an operand holds, also where it makes
// nothing.
func checksIndex(s *compile.Step) bool {
	switch s.Op {
	case tensor.OpIndexSelect, tensor.OpIndexAdd, tensor.OpGather, tensor.OpScatterAdd, tensor.OpOneHot, tensor.OpCrossEntropy, tensor.OpCrossEntropyGrad:
		return true
	}
	return s.Fused == compile.LossGrad
}

// step adds the launches of a step.
func (k *kernel) step(s *compile.Step) {
	switch s.Fused {
	case compile.Tiles:
		k.tiles(s)
	case compile.AdamW:
		for _, u := range updates(s) {
			k.tiles(u)
		}
	case compile.Attention:
		k.attention(s)
	case compile.AttentionGrad:
		k.attentionGrad(s)
	case compile.NormGrad:
		k.normGrads(s)
	case compile.LossGrad:
		k.crossEntropy(s, &s.Out, &s.Also[0], &s.In[2])
	case compile.TilesFold:
		k.tilesFold(s)
	case compile.Single:
		k.single(s)
	}
}

// single adds the launches of a single operation.
func (k *kernel) single(s *compile.Step) {
	switch s.Op {
	case tensor.OpMatmul:
		k.product(s.Out, s.In[0], s.In[1])
	case tensor.OpFull:
		k.full(s.Out, s.In[0])
	case tensor.OpCast:
		k.copy(s.Out, s.In[0])
	case tensor.OpPad:
		k.pad(s)
	case tensor.OpConcat:
		k.concat(s)
	case tensor.OpIndexSelect:
		k.indexSelect(s)
	case tensor.OpIndexAdd:
		k.indexAdd(s)
	case tensor.OpGather:
		k.gather(s)
	case tensor.OpScatterAdd:
		k.scatterAdd(s)
	case tensor.OpCumsum:
		k.cumsum(s)
	case tensor.OpProdGrad:
		k.prodGrad(s)
	case tensor.OpCrossEntropy:
		k.crossEntropy(s, nil, &s.Out, nil)
	case tensor.OpSoftmax, tensor.OpLogSoftmax, tensor.OpSoftmaxGrad, tensor.OpLogSoftmaxGrad, tensor.OpCausalSoftmax:
		k.softmax(s)
	case tensor.OpLayerNorm, tensor.OpRMSNorm:
		k.norm(s)
	case tensor.OpLayerNormGradX, tensor.OpLayerNormGradW, tensor.OpRMSNormGradX, tensor.OpRMSNormGradW:
		k.normGrads(s)
	case tensor.OpCrossEntropyGrad:
		k.crossEntropy(s, &s.Out, nil, &s.In[2])
	case tensor.OpRope:
		k.rope(s)
	case tensor.OpMaxPool2D, tensor.OpMaxPool2DGrad, tensor.OpAvgPool2D, tensor.OpAvgPool2DGrad:
		k.pool(s)
	case tensor.OpConv2D, tensor.OpConv2DGradX, tensor.OpConv2DGradW:
		k.conv(s)
	case tensor.OpOneHot:
		k.oneHot(s)
	default:
		switch class := s.Op.Info().Class; {
		case class == tensor.ClassReduction:
			k.reduction(s.Op, s.Out, s.In[0], s.Ints[1:])
		case class == tensor.ClassElementwise || ptx.Numbered(s.Op):
			k.tiles(ptx.Elementwise(s))
		}
	}
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

// function is load for a caller that is not within plan.
func (lw *lowerer) function(text, name string) (driver.Function, error) {
	lw.mu.Lock()
	defer lw.mu.Unlock()
	return lw.load(text, name)
}

// load returns a kernel of a text, which the driver compiles once. Called with mu.
func (lw *lowerer) load(text, name string) (driver.Function, error) {
	m := lw.modules[text]
	if m != nil {
		if f, ok := m.functions[name]; ok {
			return f, nil
		}
	}
	var f driver.Function
	begin := time.Now()
	err := lw.mem.Do(func() error {
		if m == nil {
			loaded, err := lw.mem.API().ModuleLoad(text)
			if err != nil {
				return err
			}
			m = &module{loaded, map[string]driver.Function{}}
			if lw.modules == nil {
				lw.modules = map[string]*module{}
			}
			lw.modules[text] = m
		}
		var err error
		f, err = lw.mem.API().ModuleFunction(m.module, name)
		return err
	})
	if err == nil {
		m.functions[name] = f
		lw.count.add(&Counters{Kernels: 1, Loading: time.Since(begin)})
	}
	return f, err
}

// close gives the modules back. Nothing runs any more.
func (lw *lowerer) close() error {
	lw.mu.Lock()
	defer lw.mu.Unlock()
	err := lw.products.close()
	err = errors.Join(err, lw.mem.Do(func() (err error) {
		for _, m := range lw.modules {
			err = errors.Join(err, lw.mem.API().ModuleUnload(m.module))
		}
		return err
	}))
	clear(lw.modules)
	return err
}

// Placed says of a step of a plan how it runs on a GPU.
type Placed struct {
	Step    string // outputs, operation, operands
	Host    bool   // it runs on the host
	Kernels int    // launches else; 0 for a step that makes nothing
}

// Place returns how the steps of p run on a GPU without a library of products. It needs
// no GPU.
func Place(p *tensor.Program) []Placed {
	plan := compile.Compile(p, compileOptions(false))
	out := make([]Placed, len(plan.Steps))
	for i := range plan.Steps {
		out[i].Step = plan.StepString(i)
		if k := lowered(&plan.Steps[i], &products{}); k != nil {
			out[i].Kernels = len(k.launches)
		} else {
			out[i].Host = true
		}
	}
	return out
}
