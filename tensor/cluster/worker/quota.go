package worker

import (
	"fmt"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
)

// limited is a space whose values together have at most quota bytes. It counts values
// from when they are made until they are freed, also those of a program that fails late.
type limited struct {
	device.Space
	quota, used int
	sizes       map[uint64]int // of values with bytes
}

// room returns errQuota if n more bytes are over the quota. what names them.
func (l *limited) room(n int, what string) error {
	if n > l.quota-l.used {
		return fmt.Errorf("%w: %w: %s of %d bytes, the session has %d of at most %d here; free tensors, or give sessions more (--session-mib)",
			tensor.ErrNoSpace, errQuota, what, n, l.used, l.quota)
	}
	return nil
}

// count counts value id, which exists now.
func (l *limited) count(id uint64, n int) {
	if n > 0 {
		l.sizes[id] = n
		l.used += n
	}
}

// add makes value id of n bytes if there is room. what names it.
func (l *limited) add(id uint64, n int, what string, make func() error) error {
	err := l.room(n, what)
	if err != nil {
		return err
	}
	if err = make(); err == nil {
		l.count(id, n)
	}
	return err
}

// uncount ends the counting of value id.
func (l *limited) uncount(id uint64) {
	l.used -= l.sizes[id]
	delete(l.sizes, id)
}

func (l *limited) Import(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block, own bool) error {
	n := device.Value{DType: d, Shape: shape}.Bytes()
	err := l.room(n, "upload")
	if err != nil && b != nil {
		b.Release()
	}
	if err == nil {
		err = l.add(id, n, "upload", func() error { return l.Space.Import(id, d, shape, b, own) })
	}
	return err
}

func (l *limited) Make(id uint64, d tensor.DType, shape tensor.Shape) error {
	n := device.Value{DType: d, Shape: shape}.Bytes()
	return l.add(id, n, "result", func() error { return l.Space.Make(id, d, shape) })
}

func (l *limited) Alias(as, id uint64) error {
	return l.add(as, l.sizes[id], "result", func() error { return l.Space.Alias(as, id) })
}

// Run checks that there is room for the results beside the donated inputs, which are not
// free yet: the program needs memory for both while it runs.
func (l *limited) Run(p device.Program, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool) error {
	prog, n := p.Parsed(), 0
	for _, in := range prog.Instrs {
		if in.Keep {
			n += prog.Shapes[in.Shape].Elems() * in.DType.Size()
		}
	}
	if err := l.room(n, "results"); err != nil {
		dropDonated(l, prog, inputs)
		return err
	}
	err := l.Space.Run(p, base, inputs, scalars, stop)
	for i, in := range prog.Instrs {
		id := base + uint64(i)
		if _, exists := l.Space.Lookup(id); in.Keep && exists {
			l.count(id, prog.Shapes[in.Shape].Elems()*in.DType.Size())
		}
	}
	for i, e := range prog.Externals {
		if e.Donated && i < len(inputs) {
			l.uncount(inputs[i])
		}
	}
	return err
}

func (l *limited) Free(id uint64) {
	l.uncount(id)
	l.Space.Free(id)
}

// dropDonated frees the inputs that a program which does not run would have freed.
func dropDonated(s device.Space, p *tensor.Program, inputs []uint64) {
	for i, e := range p.Externals {
		if e.Donated {
			s.Free(inputs[i])
		}
	}
}
