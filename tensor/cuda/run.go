package cuda

import (
	"cmp"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// running is a program that runs.
type running struct {
	*space
	c       *compiled
	scalars []float64
	stop    *atomic.Bool
	outs    []*shm.Block     // of the results
	buffers []buffer         // of the plan
	bytes   [][]byte         // of the buffers' copies on the host
	scratch driver.DevicePtr // what kernels use for themselves
	did     Counters

	failures driver.DevicePtr // where kernels that may fail write it
	checked  []int            // their steps, so far
}

// buffer is a buffer of the plan, on the device and on the host. Steps on the host and
// kernels write to one of the two, and make the other old.
type buffer struct {
	at          driver.DevicePtr
	here, there bool       // the copy on the host, or the one on the device, is current
	copy        *shm.Block // on the host, nil for none yet
	uploading   bool       // the stream may still read copy
}

// never is the stop flag of programs without one.
var never atomic.Bool

// execute runs c over the inputs in s.got and makes its results.
func (s *space) execute(c *compiled, base uint64, scalars []float64, stop *atomic.Bool) error {
	s.dev.runs.Add(1)
	r := &running{space: s, c: c, scalars: scalars, stop: cmp.Or(stop, &never)}
	err := r.bind()
	for i := 0; i < len(c.plan.Steps) && err == nil; i++ {
		err = r.step(i)
	}
	if err == nil {
		err = r.uploadResults()
	}
	if c.hosted || err != nil {
		if e := r.failed(); e != nil {
			err = e // before what a step on the host made of it
		}
		r.checked = nil
	}
	var late *pending
	if err == nil {
		late, err = r.note(base)
	}
	for i := range r.buffers {
		r.drop(&r.buffers[i])
	}
	s.dev.count.add(&r.did)
	for i, b := range r.outs {
		o := &c.plan.Outputs[i]
		taken := b != nil && o.Take >= 0 && s.got[o.Take].block == b
		switch {
		case err != nil && !taken:
			s.release(b)
		case err == nil:
			if taken {
				s.got[o.Take].block = nil // moved
			}
			s.result(c, base, o.Instr, b, late)
		}
	}
	return err
}

// result makes the result of an instruction of a block. from may be nil.
func (s *space) result(c *compiled, base uint64, instr int, b *shm.Block, from *pending) {
	in := &c.plan.Program.Instrs[instr]
	s.put(base+uint64(instr), in.DType, c.plan.Program.Shapes[in.Shape], b).from = from
}

// bind finds the device memory of the buffers: that of the inputs, the temporaries, and
// blocks for the results. A result takes the block of a donated input where the plan
// allows it and no other reference to the block exists.
func (r *running) bind() error {
	plan := r.c.plan
	own := (plan.Temp + alignment - 1) / alignment * alignment
	if n := own + r.c.scratch + r.c.checks*failureBytes; n > 0 && (r.temp == nil || r.temp.Len() < n) {
		r.release(r.temp)
		r.temp = nil
		var err error
		if r.temp, err = r.alloc(n); err != nil {
			return fmt.Errorf("temporaries: %w", err)
		}
	}
	temp := r.at(r.temp)
	r.scratch = temp + driver.DevicePtr(own)
	r.failures = r.scratch + driver.DevicePtr(r.c.scratch)
	if r.c.checks > 0 {
		err := r.dev.mem.Do(func() error {
			return r.dev.mem.API().Fill32Async(r.failures, math.MaxUint32, uint64(r.c.checks*failureBytes/4), r.stream.Driver())
		})
		if err != nil {
			return err
		}
	}
	r.buffers, r.bytes = make([]buffer, len(plan.Buffers)), make([][]byte, len(plan.Buffers))
	for i := range plan.Buffers {
		switch b := &plan.Buffers[i]; b.Place {
		case compile.External:
			r.buffers[i] = buffer{at: r.at(r.got[b.Index].block), there: true}
		case compile.Temp:
			r.buffers[i] = buffer{at: temp + driver.DevicePtr(b.Off)}
		}
	}
	for i := range plan.Outputs {
		o := &plan.Outputs[i]
		var block *shm.Block
		var err error
		if o.Take >= 0 && r.got[o.Take].exclusive() {
			block = r.got[o.Take].block
		} else if block, err = r.alloc(plan.Buffers[o.Buf].Size); err != nil {
			return fmt.Errorf("result of instruction %d: %w", o.Instr, err)
		}
		r.outs = append(r.outs, block)
		r.buffers[o.Buf] = buffer{at: r.at(block)}
	}
	return nil
}

// step runs step i.
func (r *running) step(i int) error {
	s := &r.c.plan.Steps[i]
	if r.stop.Load() {
		return r.c.plan.RunError(s.Instr, tensor.ErrStopped)
	}
	var err error
	if k := r.c.kernels[i]; k != nil {
		err = r.launch(i, k)
	} else {
		err = r.onHost(i)
	}
	for _, buf := range r.c.ends[i] {
		if r.c.plan.Buffers[buf].Place != compile.Output {
			r.drop(&r.buffers[buf])
		}
	}
	return err
}

// launch puts the kernels of step i into the stream, and what they read on the device.
func (r *running) launch(i int, k *kernel) error {
	s := &r.c.plan.Steps[i]
	var err error
	each(s, func(buf int) {
		if err == nil {
			err = r.upload(buf)
		}
	})
	if err != nil {
		return err
	}
	if r.queued += k.work(); r.queued > maxLaunch {
		if err := r.settle(); err != nil {
			return err
		}
	}
	if k.bound > 0 {
		r.checked = append(r.checked, i)
	}
	for i := range k.launches {
		if err := r.launchOne(&k.launches[i]); err != nil {
			return fmt.Errorf("launching %s: %w", nameOf(s), err)
		}
		r.did.Launches++
	}
	for _, o := range s.Outs() {
		b := &r.buffers[o.Buf]
		b.here, b.there = false, true
	}
	return nil
}

// launchOne puts a kernel into the stream.
func (r *running) launchOne(l *launch) error {
	var a driver.Args
	for _, arg := range l.args {
		switch v := arg.(type) {
		case compile.Operand:
			a.Pointer(r.operand(&v))
		case ptx.Scalar:
			a.Uint64(ptx.Bits(v.DType, v.Of(r.scalars)))
		case failure:
			a.Pointer(r.failureAt())
		case uint32:
			a.Uint32(v)
		case uint64:
			a.Uint64(v)
		}
	}
	d := driver.Launch{Grid: l.grid, Block: l.block, Stream: r.stream.Driver()}
	return r.dev.mem.Do(func() error { return r.dev.mem.API().Launch(l.function, d, &a) })
}

// operand returns where an operand's first element lies on the device.
func (r *running) operand(o *compile.Operand) driver.DevicePtr {
	at := r.scratch
	if o.Buf != scratch {
		at = r.buffers[o.Buf].at
	}
	return at + driver.DevicePtr(o.Off*o.DType.Size())
}
