package worker

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

// ledger keeps the values of a session of several workers: the layout of each on a mesh,
// and this worker's part of it. Every worker is sent the same messages in the same order
// and keeps the same books. So the workers exchange nothing about them, only where a plan
// has a collective.
type ledger struct {
	*carrier
	parts   int               // shard.Options.Parts
	auto    bool              // layouts that the config leaves open are chosen by cost
	speed   shard.AutoOptions // of the slowest of the session's devices
	hints   shard.Signals
	stageOf map[tensor.Signal]int
	values  map[uint64]*placed // by the client's ids
	moves   planCache          // redistributions
	key     []byte             // of the plan that is looked up
}

// placed is a value of the client as this worker has it.
type placed struct {
	dtype  tensor.DType
	shape  tensor.Shape // of the whole
	stage  int          // whose workers have it
	layout shard.Layout
	lies   bool   // stage and layout are decided
	id     uint64 // of this rank's part in the space; 0 if it is not there

	whole   *shm.Block // an upload of which no part was made yet; nil if it has no bytes
	mine    bool       // whole is this worker's part alone, as the client sent it
	own     bool       // programs update it, so it must not lie in the client's memory
	standIn bool       // it stands for a value that does not exist, for one program
	failed  error      // why this worker has no part: a batch that reads the value fails
}

// bytes returns the size of the whole value.
func (v *placed) bytes() int { return v.shape.Elems() * v.dtype.Size() }

// drop releases the whole of an upload.
func (v *placed) drop() {
	if v.whole != nil {
		v.whole.Release()
		v.whole = nil
	}
}

// closeValues frees the uploads of which no part was made. The space has the rest.
func (l *ledger) closeValues() {
	for _, v := range l.values {
		v.drop()
	}
	clear(l.values)
}

// forget frees a value.
func (l *ledger) forget(id uint64) {
	if v := l.values[id]; v != nil {
		delete(l.values, id)
		v.drop()
		l.space.Free(v.id)
	}
}

// take takes an upload in: this worker's part if the layout is known, otherwise the
// whole, until the first program reads it. An error that does not end the session is this
// worker's alone; the value exists nevertheless.
func (l *ledger) take(u *wire.Upload) error {
	d, shape, err := uploadType(u)
	if err != nil {
		return err
	}
	if l.values[u.ID] != nil {
		return fmt.Errorf("%w: upload %d exists", errProtocol, u.ID)
	}
	v := &placed{dtype: d, shape: shape, own: u.Own}
	bytes := v.bytes()
	switch {
	case u.Lies():
		if err := l.lay(v, u); err != nil {
			return err
		}
		if v.mine = !l.uploads.memory.mapped() && u.Inline == nil; v.mine {
			bytes = l.partBytes(v)
		}
	case u.Own && len(l.stages) == 1 && !l.auto:
		v.lies = true // whole on every worker, for the config says nothing else
	}
	l.values[u.ID] = v
	if v.whole, v.failed = l.uploads.open(u, bytes); v.failed != nil {
		return v.failed
	}
	if v.failed = checkBools(v); v.failed != nil {
		v.drop()
		return v.failed
	}
	if v.lies {
		return l.settle(v)
	}
	return nil
}

// lay gives v the stage and the layout that an upload names.
func (l *ledger) lay(v *placed, u *wire.Upload) error {
	if v.stage = max(int(u.Stage)-1, 0); (u.Stage > 0) != (len(l.stages) > 1) || v.stage >= len(l.stages) {
		return fmt.Errorf("%w: upload %d on stage %d of %d", errProtocol, u.ID, u.Stage, len(l.stages))
	}
	mesh := l.stages[v.stage].Mesh
	layout, ok := mesh.LayoutOf(u.Layout, len(v.shape))
	if !ok {
		return fmt.Errorf("%w: upload %d, %v%v in layout %#x on a mesh of %v", errProtocol, u.ID, v.dtype, v.shape, u.Layout, mesh)
	}
	v.layout, v.lies = layout, true
	return nil
}

// partBytes returns the size of this worker's part of a value whose layout is decided.
func (l *ledger) partBytes(v *placed) int {
	if v.stage != l.stage {
		return 0
	}
	_, local := l.mesh.Local(v.layout, v.shape, l.place)
	return local.Elems() * v.dtype.Size()
}

// checkBools returns ErrDType if a byte of an uploaded bool is neither 0 nor 1.
func checkBools(v *placed) error {
	if v.dtype != tensor.Bool || v.whole == nil {
		return nil
	}
	if i := slices.IndexFunc(v.whole.Bytes(), func(x byte) bool { return x > 1 }); i >= 0 {
		return fmt.Errorf("%w: byte %d of a bool is %d; expected 0 or 1", tensor.ErrDType, i, v.whole.Bytes()[i])
	}
	return nil
}

// settle makes this rank's part of an upload whose layout is decided.
func (l *ledger) settle(v *placed) error {
	if v.stage != l.stage {
		v.drop()
		return nil
	}
	if v.id != 0 || v.failed != nil {
		return v.failed
	}
	start, local := l.mesh.Local(v.layout, v.shape, l.place)
	part := v.whole
	switch {
	case local.Elems() == 0:
		part = nil
	case v.mine || local.Elems() == v.shape.Elems():
		part.Retain()
	default:
		var err error
		size := v.dtype.Size()
		if part, err = l.dev.Arena().Alloc(local.Elems() * size); err != nil {
			return fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
		}
		shard.CopyOut(part.Bytes(), v.whole.Bytes(), size, v.shape, start, local)
	}
	if err := l.space.Import(l.next, v.dtype, local, part, v.own); err != nil {
		return err
	}
	v.id = l.newID()
	v.drop()
	return nil
}
