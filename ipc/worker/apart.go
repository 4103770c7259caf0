package worker

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/ipc/wire"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
)

// maxArriving bounds the bytes of one session's uploads that have arrived, in part or as a whole, and that no Run has
// made a value of yet. Clients are ahead by less, but for a single upload that is larger.
const maxArriving = 4 << 30

// arrival is an upload of a client that shares no memory with us, on its way.
type arrival struct {
	block *shm.Block // nil when there was no memory for it
	have  uint64
	err   error // why there was none
}

// arrive takes a part of an upload.
func (s *session) arrive(src []byte) error {
	var m wire.Data
	if err := wire.ParseData(src, &m); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if !s.apart {
		return fmt.Errorf("%w: Data in a session that shares memory", errProtocol)
	}
	if m.Off == 0 { // a client that gave up before may begin again
		s.dropArrival(m.Handle)
		s.arriving[m.Handle] = s.expect(m.Handle.Len)
	}
	a := s.arriving[m.Handle]
	if a == nil || m.Off != a.have || len(m.Part) == 0 {
		return fmt.Errorf("%w: %d bytes at %d of an upload, out of turn", errProtocol, len(m.Part), m.Off)
	}
	if a.block != nil {
		copy(a.block.Bytes()[m.Off:], m.Part)
	}
	a.have += uint64(len(m.Part))
	return nil
}

// expect has room for an upload of n bytes, or the reason why not.
func (s *session) expect(n uint64) *arrival {
	if len(s.arriving) >= wire.MaxUploads || n > maxArriving-s.arrivingB {
		return &arrival{err: fmt.Errorf("%w: an upload of %d bytes, %d uploads of %d bytes wait for their run",
			tensor.ErrNoSpace, n, len(s.arriving), s.arrivingB)}
	}
	b, err := s.w.dev.Arena().Alloc(int(n))
	if err != nil {
		return &arrival{err: fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)}
	}
	s.arrivingB += n
	return &arrival{block: b}
}

// arrived returns the block of an upload that has come as a whole. Its memory at the client's is not needed any more.
func (s *session) arrived(h wire.Handle) (*shm.Block, error) {
	a := s.arriving[h]
	if a == nil || a.have != h.Len {
		return nil, fmt.Errorf("%w: a run with an upload that has not come, %v", errProtocol, h)
	}
	if a.block != nil {
		a.block.Retain()
	}
	s.dropArrival(h)
	s.giveBack(h)
	return a.block, a.err
}

// dropArrival forgets an upload that no value is made of.
func (s *session) dropArrival(h wire.Handle) {
	a := s.arriving[h]
	delete(s.arriving, h)
	if a != nil && a.block != nil {
		s.arrivingB -= h.Len
		a.block.Release()
	}
}

// read answers a client that shares no memory with us with a part of a result that is leased to it.
func (s *session) read(ctx context.Context, src []byte) error {
	var m wire.Read
	if err := wire.ParseRead(src, &m); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if !s.apart || m.Bytes == 0 {
		return fmt.Errorf("%w: Read of %d bytes, in a session that shares memory: %v", errProtocol, m.Bytes, !s.apart)
	}
	b, err := s.w.dev.Arena().Leased(m.Handle, s.id)
	if err != nil {
		return fmt.Errorf("%w: Read: %w", errProtocol, err)
	}
	defer b.Release()
	reply := wire.Data{Session: s.id, Handle: m.Handle, Off: m.Off, Part: b.Bytes()[m.Off:][:m.Bytes]}
	return s.w.send(ctx, wire.KindData, reply.Size(), func(dst []byte) []byte { return wire.AppendData(dst, &reply) })
}
