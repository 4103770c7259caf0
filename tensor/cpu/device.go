package cpu

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/isa"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/explain"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// Options configure a Device; nil and the zero value are the defaults.
type Options struct {
	// Level chooses the kernels; nil is the best that the machine has.
	Level *isa.Level
	// Threads is how many cores work on one program, at most MaxThreads; 0 is 1. Results
	// don't depend on it.
	// More than one pays for large steps on cores that are otherwise idle: the threads
	// spin while a program runs, and for a short time after it.
	Threads int
	// MaxBytes bounds the memory of all values and temporaries; 0 is no bound but the
	// machine's.
	MaxBytes int64
	// Plans bounds the compiled programs that are kept; 0 is 1024. Their encodings
	// together are bounded by 16 MiB as well. A compiled program takes about twenty times
	// the memory of its encoding.
	Plans int
	// MaxWork bounds the work of one program, in multiply-adds of a matrix product; an
	// operation on an element counts as 16. 0 is DefaultMaxWork, less is no bound.
	MaxWork int
	// OnSegment is called with every new segment of the arena, before a value lies in it.
	OnSegment func(*shm.Segment)
	// NoFuse runs one operation after another instead of several at once: slower, and
	// with some results in other bits, see package tensor/internal/compile.
	NoFuse bool
	// Trace, if set, is called after every step of every program, in the goroutine that
	// runs it: for tools that show where the time of a program goes. It costs two
	// readings of the clock a step.
	Trace func(p explain.Plan, step int, took time.Duration)
	// Arena configures the memory further; MaxBytes and OnSegment above take precedence.
	Arena shm.ArenaOptions
	// Memory returns the bytes of a block of the arena. nil is (*shm.Block).Bytes. It is
	// for a device whose arena only reserves addresses, see package apart.
	Memory func(*shm.Block) []byte
}

// MaxThreads bounds Options.Threads. No machine has so many cores.
const MaxThreads = 1024

// DefaultMaxWork is hours of one core's work.
const DefaultMaxWork = 1 << 50

// Device is memory, kernels and compiled programs, shared by any number of spaces. It is
// a device.Device; programs run one at a time.
type Device struct {
	arena  *shm.Arena
	memory func(*shm.Block) []byte // nil for (*shm.Block).Bytes
	limit  uint64                  // Options.MaxBytes
	work   int                     // Options.MaxWork, 0 for no bound

	lanes []*run  // one a thread
	pool  *pool   // nil for one thread
	lower lowerer // of programs that are compiled

	compile compile.Options
	trace   func(p *compile.Plan, step int, took time.Duration)
	made    atomic.Uint64 // blocks, whose starts are shifted against each other

	mu   sync.Mutex // held while a program runs; guards the fields below
	temp *shm.Block // temporaries of the program that runs
	need int        // the most of temp that a program needed since Trim
	ran  bool       // a program ran since Trim
	outs []*shm.Block
	sums []uint64          // see run
	told func(device.Step) // see TraceSteps

	runs  atomic.Uint64
	plans *device.Cache[*compiled]
}

// New returns a device. The error is ErrOption for Threads out of range.
func New(o *Options) (*Device, error) {
	opt := *cmp.Or(o, &Options{})
	if opt.Threads < 0 || opt.Threads > MaxThreads {
		return nil, fmt.Errorf("%w: Threads %d, expected 0 to %d", ErrOption, opt.Threads, MaxThreads)
	}
	d := &Device{compile: compile.Options{NoFuse: opt.NoFuse, Orders: true}, memory: opt.Memory, limit: uint64(max(opt.MaxBytes, 0)), work: max(cmp.Or(opt.MaxWork, DefaultMaxWork), 0)}
	if f := opt.Trace; f != nil {
		d.trace = func(p *compile.Plan, step int, took time.Duration) { f(explain.Of(p), step, took) }
	}
	d.lower.threads = max(opt.Threads, 1)
	if opt.Level == nil {
		d.lower.table = kernel.Best()
	} else {
		t, err := kernel.Select(*opt.Level)
		if err != nil {
			return nil, err
		}
		d.lower.table = t
	}
	d.lower.table64 = kernel.Doubles(d.lower.table.Level)
	d.lower.plain = kernel.PlainOf(d.lower.table.Level)
	d.lower.folds = kernel.NewFolds(d.lower.table, d.lower.table64)
	d.lower.loops = newLoops(d.lower.table, d.lower.table64, d.lower.plain)
	if opt.MaxBytes > 0 {
		opt.Arena.MaxBytes = opt.MaxBytes
	}
	if opt.OnSegment != nil {
		opt.Arena.OnSegment = opt.OnSegment
	}
	a, err := shm.NewArena(&opt.Arena)
	if err != nil {
		return nil, err
	}
	d.arena = a
	ints := kernel.IntProductsOf(d.lower.table.Level, d.lower.plain)
	for i := range d.lower.threads {
		d.lanes = append(d.lanes, &run{table: d.lower.table, table64: d.lower.table64, ints: ints, part: i, parts: d.lower.threads, lanes: d.lower.threads})
	}
	d.lanes[0].parts = 1 // but in a shared step
	if len(d.lanes) > 1 {
		d.pool = newPool(d.lanes)
	}
	d.plans = device.NewCache[*compiled](max(opt.Plans, 0))
	return d, nil
}

// NewSession returns a session in this process, on a device of its own.
func NewSession(o *Options, so *tensor.SessionOptions) (*tensor.Session, error) {
	e, err := NewEngine(o)
	if err != nil {
		return nil, err
	}
	return tensor.NewSession(e, so), nil
}

// NewEngine returns an engine for one session, on a device of its own that is closed with
// it.
func NewEngine(o *Options) (tensor.Engine, error) {
	d, err := New(o)
	if err != nil {
		return nil, err
	}
	return device.NewOwner(d), nil
}

// Info returns the device's description. Its speed is not known.
func (d *Device) Info() device.Info {
	name := fmt.Sprintf("cpu %v", d.lower.table.Level)
	if len(d.lanes) > 1 {
		name = fmt.Sprintf("%s %d threads", name, len(d.lanes))
	}
	return device.Info{Name: name, Kind: device.CPU, Bytes: d.limit}
}

// Prompt implements device.Prompt.
func (d *Device) Prompt() {}

// Arena returns the memory that the device's values lie in.
func (d *Device) Arena() *shm.Arena { return d.arena }

// Open returns an empty space.
func (d *Device) Open() device.Space { return &space{dev: d, values: map[uint64]*value{}} }

// Close gives the memory back. Spaces must be closed before.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release()
	if d.pool != nil {
		d.pool.close()
		d.pool = nil
	}
	return d.arena.Close()
}

// Trim implements device.Device.
func (d *Device) Trim(keep func(segment uint64) bool) {
	d.mu.Lock()
	if d.temp != nil && d.temp.Len() > d.need {
		d.release()
	}
	if !d.ran {
		for _, l := range d.lanes {
			l.working = working{}
		}
	}
	d.need, d.ran = 0, false
	d.mu.Unlock()
	d.arena.TrimUnused(keep)
}

// release gives the temporaries back.
func (d *Device) release() {
	if d.temp != nil {
		d.temp.Release()
		d.temp = nil
	}
}

// Stats returns the counters so far.
func (d *Device) Stats() device.Stats {
	s := d.plans.Stats()
	s.Runs, s.Arena = d.runs.Load(), d.arena.Stats()
	s.Values = s.Arena
	return s
}

// alloc returns memory for a value, nil for one of no bytes.
func (d *Device) alloc(n int) (*shm.Block, error) {
	if n == 0 {
		return nil, nil
	}
	return device.Alloc(d.arena, n, d.made.Add(1))
}

// view returns the first n bytes of a block, nil for n of 0.
func (d *Device) view(b *shm.Block, n int) []byte {
	switch {
	case n == 0:
		return nil
	case d.memory != nil:
		return d.memory(b)[:n]
	}
	return b.Bytes()[:n]
}

// compiled is a program made ready for the device.
type compiled struct {
	plan   *compile.Plan
	steps  []lowered
	shares bool // some step is shared among threads
	sums   int  // most that a step needs of run.sums

	told []device.Step // of plan, made when the first is told

	variants []variant // guarded by the device's mu
}

// Parsed implements device.Program.
func (c *compiled) Parsed() *tensor.Program { return c.plan.Program }

// Compile returns the compiled form of an encoded program, from the cache or anew.
// encoded is not kept. The error is tensor.ErrProgram if it is malformed, and
// tensor.ErrWork if it has more work than Options.MaxWork.
func (d *Device) Compile(hash tensor.Hash, encoded []byte) (device.Program, error) {
	c, found, err := d.plans.Get(hash, encoded, d.ready)
	if err != nil {
		return nil, err
	}
	if found && c.shares {
		d.pool.wakeAll() // it is about to run
	}
	return c, nil
}

// ready compiles a program, which it keeps. The error is tensor.ErrWork.
func (d *Device) ready(p *tensor.Program) (*compiled, error) {
	plan := compile.Compile(p, &d.compile)
	if err := d.CheckWork(plan); err != nil {
		return nil, err
	}
	return d.lowered(plan), nil
}

// CheckWork returns tensor.ErrWork if plan has more work than Options.MaxWork.
func (d *Device) CheckWork(plan *compile.Plan) error {
	if work := plan.Work(); d.work > 0 && work > d.work {
		return fmt.Errorf("%w: %.3g multiply-adds, at most %.3g; make the program smaller, or raise cpu.Options.MaxWork (--max-work)", tensor.ErrWork, float64(work), float64(d.work))
	}
	return nil
}

// lowered makes a plan ready.
func (d *Device) lowered(plan *compile.Plan) *compiled {
	c := &compiled{plan: plan, steps: d.lower.plan(plan)}
	for i := range c.steps {
		c.sums = max(c.sums, c.steps[i].sums)
	}
	c.shares = slices.ContainsFunc(c.steps, func(l lowered) bool { return l.parts > 1 })
	return c
}
