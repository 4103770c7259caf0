package collective

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/shm"
)

// Alloc gives n elements of zeroed memory that the ranks on this host read and write in place: calls on it copy nothing. Any
// other slice works too, at the price of a copy through shared memory. Where nobody shares this host it is ordinary memory.
//
// The group owns it: it is gone after Free or Close, and a rank of the group that breaks the protocol could write it.
func Alloc[T Element](g *Group, n int) ([]T, error) {
	if most := shm.MaxSegment / dtypeOf[T]().Size(); n < 0 || n > most {
		return nil, fmt.Errorf("%w: %d elements of %v, expected 0 to %d", ErrLength, n, dtypeOf[T](), most)
	}
	if g.alloc == nil || n == 0 {
		return make([]T, n), nil
	}
	b, err := g.alloc.Alloc(n * dtypeOf[T]().Size())
	var pe *plan.PeerError
	if errors.As(err, &pe) { // the others are handed the memory: one of them is gone
		g.findCause(&job{}, lift(err, g.sharers))
		return nil, g.refuse(fmt.Sprintf("alloc of %d %v", n, dtypeOf[T]()))
	}
	if err != nil {
		return nil, err
	}
	return elements[T](b)[:n], nil
}

// Free gives back what Alloc gave, the whole of it. No call may be using it.
func Free[T Element](g *Group, buf []T) error {
	if g.alloc == nil || len(buf) == 0 {
		return nil
	}
	return g.alloc.Free(bytesOf(buf))
}
