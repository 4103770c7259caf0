package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// Options configure a Device; nil and the zero value are the defaults.
type Options struct {
	// Host configures the host memory and the steps that run on the host. Its Plans,
	// MaxWork and NoFuse are those of the device. MaxBytes, Trace and Memory are ignored.
	Host cpu.Options

	// Memory configures the segments of values and the pinned slots of streams.
	Memory memory.Options

	// HostSteps runs every step on the host, for tests and to look for a wrong kernel.
	HostSteps bool

	// Products is a library of matrix products, nil for this package's kernels alone.
	// These compute the products that the library has no algorithm for, and all if it
	// can't be opened on the device. See Device.Products.
	Products blas.Library

	// TF32 lets the library round the operands of f32 products to 10 bits of fraction.
	TF32 bool

	// TwoShot is the bytes from which an all-reduce with other GPUs of the host is done
	// in two steps, in which each GPU folds a slice, 512 KiB. The least of a group's
	// counts.
	TwoShot int

	// Collectives is a library of collectives with other GPUs of the host, nil for those
	// of this package. Its order of folding is its own, and all members of a group need
	// it, each on a GPU of its own. It is used or Connect fails.
	Collectives comm.Library
}

// Device is a GPU as one process uses it. It is a device.Device. Programs of different
// spaces run in streams of their own.
type Device struct {
	info    device.Info
	mem     *memory.Device
	pool    *memory.Pool
	host    *cpu.Device // has the host memory, and runs steps that have no kernel
	compile compile.Options
	lower   lowerer
	twoShot int // see Options
	plans   *device.Cache[*compiled]

	collectives comm.Library // see Options

	runs  atomic.Uint64
	made  atomic.Uint64 // blocks of host memory
	count counters

	mu     sync.Mutex
	spaces map[*space]struct{}
}

// Open opens the device with that number of a driver. The errors are those of package
// driver.
func Open(api driver.API, number int, o *Options) (*Device, error) {
	opt := *cmp.Or(o, &Options{})
	mem, err := memory.Open(api, number, &opt.Memory)
	if err != nil {
		return nil, err
	}
	d := &Device{
		mem: mem, plans: device.NewCache[*compiled](max(opt.Host.Plans, 0)),
		compile: *compileOptions(opt.Host.NoFuse),
		lower:   lowerer{mem: mem, none: opt.HostSteps, products: products{tf32: opt.TF32}},
		twoShot: cmp.Or(max(opt.TwoShot, 0), 512<<10),
		spaces:  map[*space]struct{}{}, collectives: opt.Collectives,
	}
	d.lower.count = &d.count
	if d.pool, err = mem.NewPool(memory.Handles); err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	if d.host, err = cpu.New(d.hostOptions(opt.Host)); err != nil {
		return nil, errors.Join(err, d.pool.Close(), mem.Close())
	}
	d.lower.products.open(opt.Products, mem)
	i := mem.Info()
	d.info = device.Info{
		Name: fmt.Sprintf("cuda%d %s sm_%d%d%s", number, i.Name, i.Capability[0], i.Capability[1], d.lower.products.suffix()),
		Kind: device.CUDA, ID: i.UUID, Bytes: i.Bytes,
	}
	return d, nil
}

// leave reports the fused steps that stay others: what AdamW and matrix products gain on
// cores by joining them, a GPU has no use for.
func leave(f compile.Fused) bool {
	return f == compile.AdamWProduct || f == compile.Epilogue || f == compile.JoinPads || f == compile.HalfRows
}

// compileOptions returns how programs are compiled for a GPU.
func compileOptions(noFuse bool) *compile.Options {
	return &compile.Options{NoFuse: noFuse, Align: alignment, Leave: leave}
}

// hostOptions returns the options of the device for steps on the host. The segments of
// its arena are pinned where the driver can; copies go through slots where it can't.
func (d *Device) hostOptions(o cpu.Options) *cpu.Options {
	o.MaxBytes, o.Trace, o.Memory = 0, nil, nil
	user, free := cmpFunc(o.OnSegment, o.Arena.OnSegment), o.Arena.FreeSegment
	o.OnSegment = func(s *shm.Segment) {
		_ = d.mem.Register(s) // a segment that is not pinned is copied through slots
		if user != nil {
			user(s)
		}
	}
	o.Arena.FreeSegment = func(s *shm.Segment) {
		_ = d.mem.Unregister(s) // the driver forgets it with the context at the latest
		if free != nil {
			free(s)
		}
	}
	return &o
}

// cmpFunc returns the first of both that is not nil.
func cmpFunc(a, b func(*shm.Segment)) func(*shm.Segment) {
	if a != nil {
		return a
	}
	return b
}

// Info implements device.Device. The speed of the device is not known.
func (d *Device) Info() device.Info { return d.info }

// Arena implements device.Device. No value lies there.
func (d *Device) Arena() *shm.Arena { return d.host.Arena() }

// Products returns the library that computes matrix products, false for none, and why
// there is none where Options named one.
func (d *Device) Products() (info blas.Info, has bool, err error) {
	p := &d.lower.products
	if p.handle == nil {
		return info, false, p.err
	}
	return p.library.Info(), true, nil
}

// Rounding implements device.Rounder: kernels of this package have the same bits on every
// device, a library's on those of one kind and by one version.
func (d *Device) Rounding() string {
	var all []string
	if d.collectives != nil {
		all = append(all, "collectives by "+d.collectives.Info().Name)
	}
	if info, has, _ := d.Products(); has {
		i, mode := d.mem.Info(), ""
		if d.lower.products.tf32 {
			mode = " with TF32"
		}
		all = append(all, fmt.Sprintf("%s%s on sm_%d%d with %d multiprocessors, %.96s", info.Name, mode, i.Capability[0], i.Capability[1], d.lower.products.multiprocessors, i.Name))
	}
	return strings.Join(all, ", ")
}

// Memory returns the memory of the device, for those that share it with other processes.
func (d *Device) Memory() *memory.Device { return d.mem }

// compiled is a program made ready for the device.
type compiled struct {
	plan    *compile.Plan
	host    *cpu.Steps
	kernels []*kernel // of each step; nil for one that runs on the host
	scratch int       // bytes that the kernels use for themselves, one after another
	checks  int       // kernels that may fail
	hosted  bool      // it has steps on the host
	last    [][]int   // the buffers that no step after this one touches
	ends    int       // bytes for results that its runs copy to the host

	segments []segment
	page     []ptx.Scalar // in memory, for generated kernels
	values   []ptx.Scalar // arguments of other kernels
}

// Parsed implements device.Program.
func (c *compiled) Parsed() *tensor.Program { return c.plan.Program }

// Lost implements device.Losable.
func (d *Device) Lost() error { return d.mem.Lost() }

// Compile implements device.Device.
func (d *Device) Compile(hash tensor.Hash, encoded []byte) (device.Program, error) {
	c, _, err := d.plans.Get(hash, encoded, func(p *tensor.Program) (*compiled, error) {
		plan := compile.Compile(p, &d.compile)
		if err := d.host.CheckWork(plan); err != nil {
			return nil, err
		}
		kernels, err := d.lower.plan(plan)
		if err != nil {
			return nil, err
		}
		c := &compiled{plan: plan, host: d.host.Steps(plan), kernels: kernels, last: lastOf(plan), segments: segmentsOf(kernels)}
		for _, k := range kernels {
			c.hosted = c.hosted || k == nil
			if k != nil {
				c.scratch = max(c.scratch, k.scratch)
				c.checks += min(k.bound, 1)
				c.addScalars(k)
			}
		}
		if !c.hosted {
			c.ends = maxResult * min(len(plan.Outputs), maxResults)
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// addScalars finds a place in the page for the scalars of a kernel.
func (c *compiled) addScalars(k *kernel) {
	for i := range k.launches {
		l := &k.launches[i]
		l.page = 8 * len(c.page)
		c.page = append(c.page, l.scalars...)
		for _, a := range l.args {
			if s, ok := a.(ptx.Scalar); ok {
				c.values = append(c.values, s)
			}
		}
	}
}

// lastOf returns for each step the buffers that are not touched after it.
func lastOf(p *compile.Plan) [][]int {
	last := make([]int, len(p.Buffers))
	for i := range last {
		last[i] = -1
	}
	for k := range p.Steps {
		each(&p.Steps[k], func(buf int) { last[buf] = k })
	}
	ends := make([][]int, len(p.Steps))
	for buf, k := range last {
		if k >= 0 {
			ends[k] = append(ends[k], buf)
		}
	}
	return ends
}

// each calls f with the buffer of each operand and output of s.
func each(s *compile.Step, f func(buf int)) {
	for _, o := range s.In {
		if o.Scalar < 0 {
			f(o.Buf)
		}
	}
	for _, o := range s.Outs() {
		f(o.Buf)
	}
}

// Open implements device.Device.
func (d *Device) Open() device.Space {
	s := &space{dev: d, values: map[uint64]*value{}, graphs: map[*compiled]*graphs{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spaces[s] = struct{}{}
	return s
}

// Stats implements device.Device. The memory that sessions have to spare is not in use.
func (d *Device) Stats() device.Stats {
	s := d.plans.Stats()
	s.Runs, s.Arena, s.Values = d.runs.Load(), d.host.Arena().Stats(), d.pool.Arena().Stats()
	s.Values.InUse = max(0, s.Values.InUse-d.spare())
	s.Work = d.count.work()
	s.Work.Calls, s.Work.Opens = d.mem.Calls(), d.mem.Opens()
	return s
}

// Counters returns the counters so far that Stats doesn't have.
func (d *Device) Counters() Counters {
	c := d.count.get()
	c.Spare = d.spare()
	return c
}

// hostBlock returns n > 0 bytes of host memory.
func (d *Device) hostBlock(n int) (*shm.Block, error) {
	return device.Alloc(d.host.Arena(), n, d.made.Add(1))
}

// Trim implements device.Device. It is about host memory alone.
func (d *Device) Trim(keep func(segment uint64) bool) { d.host.Trim(keep) }

// Close implements device.Device.
func (d *Device) Close() error {
	for _, s := range d.host.Arena().Segments() {
		_ = d.mem.Unregister(s) // it may outlive the device, if a block is still in use
	}
	return errors.Join(d.host.Close(), d.pool.Close(), d.lower.close(), d.mem.Close())
}
