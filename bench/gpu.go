package bench

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/optim"
)

// GPUOptions chooses what the scenario gpu times.
type GPUOptions struct {
	// Open opens the GPU, with a library of matrix products or without. Nil: there is no
	// GPU.
	Open func(products bool) (*cuda.Device, error)

	// Training is the model whose steps are timed, qwen_t64.
	Training string
}

const (
	gpuBytes = 1 << 30 // of an operand
	gpuWidth = 1024    // of its rows
	gpuSide  = 8192    // of square matrices
	gpuSmall = 2048    // of those that kernels multiply
	gpuSeq   = 2048    // of an attention

	minOverCopy   = 0.9
	minOverFused  = 0.9
	maxGPUProduct = 1e-3 // the largest difference of two ways, over the largest element
)

// gpuParts are the parts of the scenario gpu, in the order they run.
var gpuParts = []struct {
	name string
	run  func(g *gpuRun)
}{
	{"kernels", (*gpuRun).kernels}, {"latency", (*gpuRun).latency}, {"bandwidth", (*gpuRun).bandwidth}, {"products", (*gpuRun).products},
	{"attention", (*gpuRun).attention}, {"training", (*gpuRun).training},
}

// gpuRun is the scenario gpu under way.
type gpuRun struct {
	*run
	dev  *cuda.Device
	sess *tensor.Session
}

// runGPU times what a GPU does beside what it could: passes over memory beside its own
// copy, products by the library beside the kernels.
func runGPU(r *run) {
	if r.GPU.Open == nil {
		check(ErrNoGPU)
	}
	g := &gpuRun{run: r}
	g.dev, g.sess = g.open(true)
	for _, part := range gpuParts {
		if r.Only == "" || r.Only == part.name {
			part.run(g)
		}
	}
}

// open opens the GPU with a session.
func (g *gpuRun) open(products bool) (*cuda.Device, *tensor.Session) {
	d := must(g.GPU.Open(products))
	s := tensor.NewSession(device.NewOwner(d), nil)
	g.atEnd(s.Close)
	return d, s
}

// gpuKinds are models of each kind.
var gpuKinds = []string{"mlp_adamw", "lenet", "gpt_t64", "qwen_t64"}

// kernels times for how long the first two steps of a model wait for their kernels, on a
// device that has none: what this process takes to plan programs and to generate PTX, and
// what the driver takes to load it. Nothing runs on the device.
func (g *gpuRun) kernels() {
	for _, name := range gpuKinds {
		programs := programsOf(name)
		count := &series{name: name + ", kernels", unit: "kernels"}
		generated, loaded := &series{name: name + ", generated", unit: "ms"}, &series{name: name + ", loaded", unit: "ms"}
		for range g.rounds(3) {
			check(g.ctx.Err())
			d := must(g.GPU.Open(false))
			took := g.samples(1, millis, func() {
				for _, p := range programs {
					must(d.Compile(p.Hash, p.Encoded))
				}
			})[0]
			c := d.Counters()
			check(d.Close())
			driver := float64(c.Loading) / float64(millis)
			count.add(float64(c.Kernels))
			generated.add(took - driver)
			loaded.add(driver)
		}
		g.measured(count)
		g.measured(generated)
		g.measured(loaded)
	}
}

// programsOf returns the programs of the first two steps of a model, each once.
func programsOf(name string) []tensor.Batch {
	d := must(cpu.New(nil))
	e := &recorder{Engine: device.NewOwner(d)}
	s := tensor.NewSession(e, nil)
	defer s.Close()
	t := newTrainer(s, must(findTrial(name)))
	t.step()
	t.step()
	return e.programs
}

// recorder is an engine that keeps the programs that it runs.
type recorder struct {
	tensor.Engine
	programs []tensor.Batch // each once, with Hash and Encoded
}

// Submit implements tensor.Engine.
func (e *recorder) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil && !slices.ContainsFunc(e.programs, func(p tensor.Batch) bool { return p.Hash == b.Hash }) {
		e.programs = append(e.programs, tensor.Batch{Hash: b.Hash, Encoded: slices.Clone(b.Encoded)})
	}
	return e.Engine.Submit(ctx, b)
}

// side returns n by the root of the scale, at least 16: what a product's work is by.
func (g *gpuRun) side(n int) int { return max(16, int(float64(n)/math.Sqrt(float64(max(g.Scale, 1))))) }

// each times an operation that is waited for, whose results are freed.
func (g *gpuRun) each(s *tensor.Session, f func() []*tensor.Tensor) []float64 {
	var out []*tensor.Tensor
	return g.samples(1, micros, func() { out = f(); check(s.Sync()) }, func() {
		for _, x := range out {
			x.Free()
		}
	})
}

// latency times calls that have next to nothing to compute: one launch, a graph of
// several, values that go up and come down.
func (g *gpuRun) latency() {
	s := g.sess
	x := tensor.RandN(s, tensor.F32, 16)
	m := tensor.RandN(s, tensor.F32, 16, 16)
	large := make([]float32, max(16, g.work(16<<20)/4))
	y := tensor.From(s, large)
	check(s.Sync())
	some := func(name string, f func() []*tensor.Tensor) side {
		return sampled(name, "µs", 500, func(n int) []float64 {
			var all []float64
			for range n {
				all = append(all, g.each(s, f)...)
			}
			return all
		})
	}
	g.measure(turns{rounds: g.rounds(5), warm: true},
		some("launch", func() []*tensor.Tensor { return []*tensor.Tensor{x.AddS(1)} }),
		some("graph of 8", func() []*tensor.Tensor {
			z := m
			s.Scope(func(sc *tensor.Scope) {
				for range 8 {
					z = z.Softmax(-1)
				}
				z = sc.Keep(z)
			})
			return []*tensor.Tensor{z}
		}),
		some("scalar read", func() []*tensor.Tensor {
			z := x.Sum()
			_ = must(z.Item())
			return []*tensor.Tensor{z}
		}),
		some("upload 16 MiB", func() []*tensor.Tensor { return []*tensor.Tensor{tensor.From(s, large)} }),
		some("download 16 MiB", func() []*tensor.Tensor {
			z := y.AddS(1) // what was read before is not copied again
			check(tensor.View(z, func([]float32) error { return nil }))
			return []*tensor.Tensor{z}
		}),
	)
}

// pass is an operation that does little but read and write memory.
type pass struct {
	name   string
	floats int // moved by it, in units of an operand
	f      func() []*tensor.Tensor
}

// bandwidth times passes over operands of 1 GiB beside the device's own copy of one.
func (g *gpuRun) bandwidth() {
	s, rows := g.sess, max(1, g.work(gpuBytes)/4/gpuWidth)
	x, y := tensor.RandN(s, tensor.F32, rows, gpuWidth), tensor.RandN(s, tensor.F32, rows, gpuWidth)
	w, b := tensor.RandN(s, tensor.F32, gpuWidth), tensor.RandN(s, tensor.F32, gpuWidth)
	p := tensor.RandN(s, tensor.F32, rows, gpuWidth).RequireGrad()
	o := optim.NewAdamW([]tensor.Named{{Name: "p", T: p}}, optim.AdamWOptions{LR: 1e-3})
	check(s.Sync())
	one := func(z *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{z} }
	passes := []pass{
		{"add", 3, func() []*tensor.Tensor { return one(x.Add(y)) }},
		{"chain of 4", 3, func() (out []*tensor.Tensor) {
			s.Scope(func(sc *tensor.Scope) { out = one(sc.Keep(x.Mul(y).AddS(1).SiLU().MulS(0.5))) })
			return out
		}},
		{"softmax", 2, func() []*tensor.Tensor { return one(x.Softmax(-1)) }},
		{"layer norm", 2, func() []*tensor.Tensor { return one(x.LayerNorm(w, b, 1e-5, 1)) }},
		{"RMS norm", 2, func() []*tensor.Tensor { return one(x.RMSNorm(w, 1e-5)) }},
		{"sum", 1, func() []*tensor.Tensor { return one(x.Sum(1)) }},
		{"AdamW", 7, func() []*tensor.Tensor {
			s.NoGrad(func() { check(o.Step([]*tensor.Tensor{x})) })
			return nil
		}},
	}
	bytes := rows * gpuWidth * 4
	rate := func(name string, floats int, took func() float64) side {
		return number(name, "GB/s", 1, func() float64 { return float64(floats*bytes) / took() / 1e3 })
	}
	sides := []side{rate("device copy", 2, func() float64 { return g.copied(bytes) })}
	for _, p := range passes {
		sides = append(sides, rate(p.name, p.floats, func() float64 { return slices.Min(g.each(s, p.f)) }))
	}
	g.measure(turns{rounds: g.rounds(9), warm: true}, sides...)
	worst := math.Inf(1)
	for _, side := range sides[1:] {
		worst = min(worst, ratio(side.series, sides[0].series))
	}
	g.atLeast("gpu_copy_bound", worst, minOverCopy)
	g.atLeast("gpu_chain_over_add", ratio(sides[2].series, sides[1].series), minOverFused)
	for _, z := range []*tensor.Tensor{x, y, p} {
		z.Free()
	}
}

// copied returns how long the driver takes to copy so many bytes on the device, in µs.
func (g *gpuRun) copied(bytes int) (took float64) {
	mem := g.dev.Memory()
	api := mem.API()
	stream := must(mem.NewStream())
	check(mem.Do(func() error {
		var at [2]driver.DevicePtr
		for i := range at {
			p, err := api.Alloc(uint64(bytes))
			if err != nil {
				return err
			}
			defer api.Free(p)
			at[i] = p
		}
		took = g.samples(1, micros, func() {
			check(api.CopyDtoDAsync(at[0], at[1], uint64(bytes), stream.Driver()))
			check(api.StreamSynchronize(stream.Driver()))
		})[0]
		return nil
	}))
	check(stream.Close())
	return took
}

// products times square products by the library, and smaller ones by the library beside
// the kernels. It compares the results of these.
func (g *gpuRun) products() {
	_, own := g.open(false)
	var sides []side
	var results [][]float32
	large, small := g.side(gpuSide), g.side(gpuSmall)
	for _, way := range []struct {
		name string
		sess *tensor.Session
		n    int
	}{{"%v by the library", g.sess, large}, {"%v small, by the library", g.sess, small}, {"%v small, by kernels", own, small}} {
		s, n := way.sess, way.n
		s.Seed(1)
		a, b := tensor.RandN(s, tensor.F32, n, n), tensor.RandN(s, tensor.F32, n, n)
		if n == small {
			results = append(results, must(tensor.Data[float32](a.Matmul(b))))
		}
		half := [2]*tensor.Tensor{a.Cast(tensor.BF16), b.Cast(tensor.BF16)}
		check(s.Sync())
		for _, d := range []tensor.DType{tensor.F32, tensor.BF16} {
			sides = append(sides, number("product "+fmt.Sprintf(way.name, d), "GFLOP/s", 1, func() float64 {
				took := slices.Min(g.each(s, func() (out []*tensor.Tensor) {
					s.Scope(func(sc *tensor.Scope) {
						x, y := a, b
						if d == tensor.BF16 {
							x, y = half[0].Cast(tensor.F32), half[1].Cast(tensor.F32)
						}
						out = []*tensor.Tensor{sc.Keep(x.Matmul(y))}
					})
					return out
				}))
				return 2 * math.Pow(float64(n), 3) / took / 1e3
			}))
		}
	}
	g.measure(turns{rounds: g.rounds(5), warm: true}, sides...)
	most, off := 0.0, 0.0
	for i, x := range results[0] {
		most, off = max(most, math.Abs(float64(x))), max(off, math.Abs(float64(x-results[1][i])))
	}
	g.single("products by the library", "products", float64(g.dev.Counters().Products))
	g.atMost("gpu_products_apart", off/most, maxGPUProduct)
}

// attention times causal attentions of 16 heads of 128.
func (g *gpuRun) attention() {
	s, n := g.sess, g.side(gpuSeq)
	const heads, dim = 16, 128
	var x [3]*tensor.Tensor
	for i := range x {
		x[i] = tensor.RandN(s, tensor.F32, 1, heads, n, dim)
	}
	check(s.Sync())
	flops := 4 * heads * dim * float64(n) * float64(n)
	g.measure(turns{rounds: g.rounds(5), warm: true}, number("attention", "GFLOP/s", 1, func() float64 {
		return flops / slices.Min(g.each(s, func() []*tensor.Tensor {
			return []*tensor.Tensor{tensor.Attention(x[0], x[1], x[2], 1/math.Sqrt(dim), true)}
		})) / 1e3
	}))
}

// training times steps of a model, each of which waits for its loss.
func (g *gpuRun) training() {
	name := g.GPU.Training
	if name == "" {
		name = "qwen_t64"
	}
	t := must(findTrial(name))
	tr := newTrainer(g.sess, t)
	g.measure(turns{rounds: g.rounds(5), warm: true}, sampled("training step of "+name, "ms", 50, func(n int) []float64 {
		each, _ := tr.steps(g.ctx, n, 1)
		return each
	}))
}
