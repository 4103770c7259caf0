package cuda

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// A library of collectives knows equal parts alone. Values whose parts are not equal are
// gathered by a broadcast of each, and scattered by a fold for each.

// commTypes are the types of a library, by dtype. Bools are folded as bytes.
var commTypes = map[tensor.DType]comm.Type{
	tensor.Bool: comm.U8, tensor.U8: comm.U8, tensor.I32: comm.I32, tensor.I64: comm.I64,
	tensor.F16: comm.F16, tensor.BF16: comm.BF16, tensor.F32: comm.F32, tensor.F64: comm.F64,
}

var commOps = map[element.Reduction]comm.Op{element.Sum: comm.Sum, element.Prod: comm.Prod, element.Max: comm.Max, element.Min: comm.Min}

// calls returns the calls of a collective, and lists the kernel that multiplies the
// result where the fold has a scale. All members have the same, or the same error.
func (c *collecting) calls() ([]comm.Call, error) {
	typ, known := commTypes[c.x.DType]
	op, folds := commOps[c.x.Op]
	reduces := c.x.Kind == protocol.AllReduce || c.x.Kind == protocol.ReduceScatter
	if !known || reduces && !folds {
		return nil, fmt.Errorf("cuda: %v by %v of %v, which the library of collectives does not have", c.x.Kind, c.x.Op, c.x.DType)
	}
	call := comm.Call{Src: c.s.at(c.src), Dst: c.s.at(c.dst), Type: typ, Op: op}
	all := c.parted(call)
	all = slices.DeleteFunc(all, func(x comm.Call) bool { return x.Count == 0 })
	if reduces && c.x.Scale != 1 && c.out > 0 {
		c.values = []place{{c.s.at(c.dst), c.out}}
		return all, c.fold(0, 0, c.out)
	}
	return all, nil
}

// parted returns the calls of a collective, some of which may have no elements.
func (c *collecting) parted(call comm.Call) (all []comm.Call) {
	// add adds a call of count elements. off is the place in the value, to in the result.
	add := func(kind comm.Kind, off, to, count, peer int) {
		x := call
		x.Kind, x.Count, x.Peer = kind, count, peer
		x.Src += driver.DevicePtr(off * c.size)
		x.Dst += driver.DevicePtr(to * c.size)
		all = append(all, x)
	}
	off, to := 0, 0
	switch {
	case c.x.Kind == protocol.AllReduce:
		add(comm.AllReduce, 0, 0, c.out/c.size, 0)
	case c.x.Kind == protocol.ReduceScatter && even(c.x.Send):
		add(comm.ReduceScatter, 0, 0, c.x.Send[0], 0)
	case c.x.Kind == protocol.AllGather && even(c.x.Recv):
		add(comm.AllGather, 0, 0, c.x.Recv[0], 0)
	case c.x.Kind == protocol.ReduceScatter:
		for r, n := range c.x.Send {
			add(comm.Reduce, off, 0, n, r)
			off += n
		}
	case c.x.Kind == protocol.AllGather:
		for r, n := range c.x.Recv {
			add(comm.Broadcast, 0, to, n, r)
			to += n
		}
	default:
		for r := range c.others {
			add(comm.Send, off, 0, c.x.Send[r], r)
			add(comm.Recv, 0, to, c.x.Recv[r], r)
			off, to = off+c.x.Send[r], to+c.x.Recv[r]
		}
	}
	return all
}

// even reports whether all counts are the same.
func even(counts []int) bool {
	return !slices.ContainsFunc(counts, func(n int) bool { return n != counts[0] })
}
