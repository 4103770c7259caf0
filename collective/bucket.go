package collective

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective/plan"
)

// bucketBytes is the bytes that AllReduceMany puts into one all-reduce. On one host a
// bucket, which is copied twice, must stay in a level 2 cache; between hosts a call must
// be large.
const bucketBytes = 256 << 10

// AllReduceMany reduces every buffer in place, with the same bits as AllReduce of each,
// in fewer calls: small buffers are put into buckets, which are filled and emptied while
// the one before is on its way. Every rank gives as many buffers, of the same lengths.
// Buffers do not overlap.
func AllReduceMany[T Element](ctx context.Context, g *Group, op Op, bufs ...[]T) error {
	sizes := make([]int, len(bufs))
	for i, b := range bufs {
		sizes[i] = len(bytesOf(b))
	}
	if err := g.checkFold(&plan.Call{Op: op, DType: dtypeOf[T]()}); err != nil {
		return err
	}
	var room [2][]T
	defer func() {
		for _, r := range room {
			if r != nil {
				_ = Free(g, r) // which fails only in a closed group, whose memory is gone
			}
		}
	}()
	var running [2]*shipment[T]
	next := 0
	for _, b := range plan.Pack(sizes, bucketBytes) {
		if err := running[next].arrive(); err != nil {
			return err
		}
		s := &shipment[T]{bufs: bufs[b[0]:b[1]]}
		running[next] = s
		if len(s.bufs) == 1 {
			s.whole = s.bufs[0]
			s.work = AllReduceAsync(ctx, g, s.whole, s.whole, op)
			next = 1 - next
			continue
		}
		if room[next] == nil {
			var err error
			if room[next], err = Alloc[T](g, bucketBytes/dtypeOf[T]().Size()); err != nil {
				return fmt.Errorf("collective: a bucket: %w", err)
			}
		}
		n := 0
		for _, buf := range s.bufs {
			n += copy(room[next][n:], buf)
		}
		s.whole = room[next][:n]
		s.work = AllReduceAsync(ctx, g, s.whole, s.whole, op)
		next = 1 - next
	}
	for range running {
		if err := running[next].arrive(); err != nil {
			return err
		}
		next = 1 - next
	}
	return nil
}

// shipment is a bucket on its way.
type shipment[T Element] struct {
	bufs  [][]T
	whole []T
	work  *Work
}

// arrive waits for the bucket and empties it; nil is none. The work ends with its own
// context.
func (s *shipment[T]) arrive() error {
	if s == nil {
		return nil
	}
	<-s.work.done
	if s.work.err != nil {
		return s.work.err
	}
	if len(s.bufs) > 1 {
		n := 0
		for _, buf := range s.bufs {
			n += copy(buf, s.whole[n:])
		}
	}
	return nil
}
