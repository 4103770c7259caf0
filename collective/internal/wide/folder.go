package wide

import (
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// folder reduces the same piece of all ranks' buffers to one, in the order of the comm's
// plan.Fold. It keeps the partial results of groups in the wide type, so f16 and bf16 are
// rounded once, as if one rank after the other had been added in f32.
type folder struct {
	set    kernel.Set
	op     element.Reduction
	dtype  element.DType
	scale  float64
	groups plan.Fold
	plain  bool
	parts  [][]byte // one for each group's result, when there are brackets
	cut    [][]byte // parts, as long as the piece
	dst    [1][]byte
}

// prepare makes the folder ready for pieces of at most bytes. Memory for brackets comes
// from m.
func (f *folder) prepare(call *plan.Call, groups plan.Fold, bytes int, m *scratch) {
	f.set = kernel.Best()
	f.op, f.dtype, f.scale = call.Op, call.DType, call.Scale
	f.groups, f.plain = groups, groups.Plain()
	if f.plain {
		return
	}
	f.parts, f.cut = f.parts[:0], f.cut[:0]
	for range groups {
		f.parts = append(f.parts, m.take(f.wide(bytes)))
	}
}

// room returns the bytes that prepare takes.
func (f *folder) room(dt element.DType, groups plan.Fold, bytes int) int {
	if groups.Plain() {
		return 0
	}
	return room(len(groups), bytes/dt.Size()*dt.Wide().Size())
}

// wide returns the bytes of as many elements of the wide type.
func (f *folder) wide(bytes int) int { return bytes / f.dtype.Size() * f.dtype.Wide().Size() }

// fold stores the reduced srcs, one for each rank, in dst, which may be one of them.
func (f *folder) fold(dst []byte, srcs [][]byte) {
	if f.dst[0] = dst; f.plain {
		f.set.Reduce(f.op, f.dtype, f.scale, f.dst[:], srcs)
		return
	}
	narrow := f.dtype.Wide() != f.dtype
	f.cut = f.cut[:0]
	for i, size := range f.groups {
		group := srcs[:size]
		srcs = srcs[size:]
		if size == 1 && !narrow {
			f.cut = append(f.cut, group[0])
			continue
		}
		part := f.parts[i][:f.wide(len(dst))]
		if f.dst[0] = part; narrow {
			f.set.ReduceWiden(f.op, f.dtype, 1, f.dst[:], group)
		} else {
			f.set.Reduce(f.op, f.dtype, 1, f.dst[:], group)
		}
		f.cut = append(f.cut, part)
	}
	if f.dst[0] = dst; narrow {
		f.set.ReduceNarrow(f.op, f.dtype, f.scale, f.dst[:], f.cut)
	} else {
		f.set.Reduce(f.op, f.dtype, f.scale, f.dst[:], f.cut)
	}
}
