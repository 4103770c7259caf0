package worker

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
)

// errQuota is that a session has as much as it may.
var errQuota = errors.New("session's memory quota")

// limited is a space whose values together have at most quota bytes.
type limited struct {
	Space
	quota, used int
}

func (l *limited) room(n int, what string) error {
	if n > l.quota-l.used {
		return fmt.Errorf("%w: %w: %s of %d bytes, the session has %d of at most %d here; free tensors, or give sessions more (--session-mib)",
			tensor.ErrNoSpace, errQuota, what, n, l.used, l.quota)
	}
	return nil
}

func (l *limited) Import(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block) error {
	v := Value{DType: d, Shape: shape}
	n := v.bytes()
	err := l.room(n, "upload")
	if err != nil {
		if b != nil {
			b.Release()
		}
		return err
	}
	if err = l.Space.Import(id, d, shape, b); err == nil {
		l.used += n
	}
	return err
}

// Run counts results as if no donated input were freed for them: what a program needs while it runs.
func (l *limited) Run(p Program, base uint64, inputs []uint64, scalars []float64) error {
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
	freed := 0
	for i, e := range prog.Externals {
		if e.Donated {
			if v, ok := l.Lookup(inputs[i]); ok {
				freed += v.bytes()
			}
		}
	}
	err := l.Space.Run(p, base, inputs, scalars)
	if err == nil {
		l.used += n
	}
	l.used -= freed
	return err
}

func (l *limited) Free(id uint64) {
	if v, ok := l.Lookup(id); ok {
		l.used -= v.bytes()
		l.Space.Free(id)
	}
}

// dropDonated frees what a program that is not run would have freed.
func dropDonated(s Space, p *tensor.Program, inputs []uint64) {
	for i, e := range p.Externals {
		if e.Donated {
			s.Free(inputs[i])
		}
	}
}
