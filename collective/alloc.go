package collective

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/shm"
)

// Alloc returns n elements of zeroed memory that the ranks on this host read and write in
// place: calls on it copy nothing. Any other slice works too, at the price of a copy
// through shared memory. Where no other rank shares this host it is ordinary memory.
//
// The group owns it: it is gone after Free or Close. A rank of the group that breaks the
// protocol could write it.
func Alloc[T Element](g *Group, n int) ([]T, error) {
	if most := shm.MaxSegment / dtypeOf[T]().Size(); n < 0 || n > most {
		return nil, fmt.Errorf("%w: %d elements of %v, expected 0 to %d", ErrLength, n, dtypeOf[T](), most)
	}
	if g.shared == nil || n == 0 {
		return make([]T, n), nil
	}
	b, err := g.shared.Alloc(n * dtypeOf[T]().Size())
	if err != nil {
		return nil, g.notHanded(err, fmt.Sprintf("alloc of %d %v", n, dtypeOf[T]()))
	}
	return elements[T](b)[:n], nil
}

// Free gives back what Alloc returned, the whole of it. No call may be using it.
func Free[T Element](g *Group, buf []T) error {
	if g.shared == nil || len(buf) == 0 {
		return nil
	}
	return g.shared.Free(bytesOf(buf))
}

// Show lets the ranks on this host read a segment of the caller's in place. From then on
// large calls with buffers that lie in it are not copied through shared memory of the
// group, and only its owner can store into it. The others can read all of it. It must be
// a Memfd (else protocol.ErrBadCall), and stay mapped until the group is closed. Showing
// a segment again does nothing. Where no other rank shares this host nothing happens. Any
// goroutine may call it, and ranks need not do so alike.
func (g *Group) Show(s *shm.Segment) error {
	if g.shared == nil {
		return nil
	}
	if err := g.shared.Show(s); err != nil {
		return g.notHanded(err, fmt.Sprintf("show of %d bytes", s.Size()))
	}
	return nil
}

// Copied returns how many large contributions to calls this rank has copied through
// shared memory so far, and how many were read where they lay. It waits for the call
// under way.
func (g *Group) Copied() (staged, inPlace uint64) {
	if g.shared == nil {
		return 0, 0
	}
	s := g.shared.Stats()
	return s.Staged, s.Direct
}

// notHanded returns the error of handing memory to the others. If it is about one of
// them, that rank is lost, and the group fails.
func (g *Group) notHanded(err error, call string) error {
	var pe *protocol.PeerError
	if !errors.As(err, &pe) {
		return err
	}
	g.findCause(&protocol.Request{}, lift(err, g.sharers))
	return g.refuse(call)
}
