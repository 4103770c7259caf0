package nccl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// handle is a communicator. It is a comm.Comm.
type handle struct {
	*Library
	comm uintptr // an ncclComm_t
}

var (
	types = map[comm.Type]uintptr{comm.U8: typeU8, comm.I32: typeI32, comm.I64: typeI64, comm.F16: typeF16, comm.BF16: typeBF16, comm.F32: typeF32, comm.F64: typeF64}
	ops   = map[comm.Op]uintptr{comm.Sum: opSum, comm.Prod: opProd, comm.Max: opMax, comm.Min: opMin}
)

// NewID implements comm.Library.
func (l *Library) NewID() (comm.ID, error) {
	id := new(comm.ID)
	err := l.call(0, getUniqueID, uintptr(unsafe.Pointer(id)))
	return *id, err
}

// Join implements comm.Library.
//
// The C function takes the id by value. On amd64 the System V ABI puts a structure of 128
// bytes on the stack, after the arguments in registers: six words fill these. On arm64
// the AAPCS64 passes a pointer to a copy.
func (l *Library) Join(id comm.ID, rank, size int) (comm.Comm, error) {
	c := &config{size: uint64(unsafe.Sizeof(config{})), magic: configMagic, version: configVersion, blocking: 0}
	h, copied := new(uintptr), new(comm.ID)
	*copied = id
	var err error
	if runtime.GOARCH == "arm64" {
		err = l.call(0, commInit, uintptr(unsafe.Pointer(h)), uintptr(size), uintptr(unsafe.Pointer(copied)), uintptr(rank), uintptr(unsafe.Pointer(c)))
	} else {
		var w [comm.IDSize / 8]uintptr
		for k := range w {
			w[k] = uintptr(binary.NativeEndian.Uint64(id[8*k:]))
		}
		err = l.call(0, commInit, uintptr(unsafe.Pointer(h)), uintptr(size), uintptr(rank), uintptr(unsafe.Pointer(c)), 0, 0,
			w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15])
	}
	if err != nil {
		return nil, err
	}
	return &handle{l, *h}, nil
}

// Ready implements comm.Comm.
func (h *handle) Ready() error {
	s := new(int32)
	if err := h.call(h.comm, commState, h.comm, uintptr(unsafe.Pointer(s))); err != nil {
		return err
	}
	if Status(*s) == InProgress {
		return comm.ErrBusy
	}
	return h.failure(h.comm, commState, Status(*s))
}

// Do implements comm.Comm. The thread stays the same between ncclGroupStart and
// ncclGroupEnd, which belong to a thread.
func (h *handle) Do(calls []comm.Call, s driver.Stream) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := h.call(h.comm, groupStart); err != nil {
		return err
	}
	var err error
	for i := range calls {
		if err = h.one(&calls[i], uintptr(s)); err != nil {
			break
		}
	}
	end := h.call(h.comm, groupEnd) // also after a failure, which it returns again
	if err != nil {
		return err
	}
	return end
}

// one makes one call.
func (h *handle) one(x *comm.Call, stream uintptr) error {
	src, dst, n, t, op, peer := uintptr(x.Src), uintptr(x.Dst), uintptr(x.Count), types[x.Type], ops[x.Op], uintptr(x.Peer)
	switch x.Kind {
	case comm.AllReduce:
		return h.call(h.comm, allReduce, src, dst, n, t, op, h.comm, stream)
	case comm.AllGather:
		return h.call(h.comm, allGather, src, dst, n, t, h.comm, stream)
	case comm.ReduceScatter:
		return h.call(h.comm, reduceScatter, src, dst, n, t, op, h.comm, stream)
	case comm.Broadcast:
		return h.call(h.comm, broadcast, src, dst, n, t, peer, h.comm, stream)
	case comm.Reduce:
		return h.call(h.comm, reduce, src, dst, n, t, op, peer, h.comm, stream)
	case comm.Send:
		return h.call(h.comm, send, src, n, t, peer, h.comm, stream)
	case comm.Recv:
		return h.call(h.comm, receive, dst, n, t, peer, h.comm, stream)
	}
	return fmt.Errorf("nccl: a call of kind %d, expected %d to %d", x.Kind, comm.AllReduce, comm.Recv)
}

// Finish implements comm.Comm.
func (h *handle) Finish() error { return h.call(h.comm, commFinalize, h.comm) }

// Close implements comm.Comm.
func (h *handle) Close() error { return h.end(commDestroy) }

// Abort implements comm.Comm.
func (h *handle) Abort() error { return h.end(commAbort) }

// errOver is returned for a communicator that was given back.
var errOver = errors.New("nccl: the communicator is over")

// end gives the communicator back. Afterwards it is no argument any more.
func (h *handle) end(f symbol) error {
	c := h.comm
	if c == 0 {
		return errOver
	}
	h.comm = 0
	return h.call(0, f, c)
}
