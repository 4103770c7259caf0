package collective

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective/protocol"
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
	if err := g.checkFold(&protocol.Call{Op: op, DType: dtypeOf[T]()}); err != nil {
		return err
	}
	buckets := protocol.Pack(sizes, bucketBytes)
	works := make([]*Work, len(buckets))
	var rooms, whole [2][]T // of the last two buckets
	defer func() {
		for _, r := range rooms {
			_ = Free(g, r) // which fails only in a closed group, whose memory is gone
		}
	}()
	// arrive waits for a bucket and empties it. The work ends with its own context.
	arrive := func(i int) error {
		if i < 0 {
			return nil
		}
		<-works[i].done
		if b := buckets[i]; works[i].err == nil && b[1]-b[0] > 1 {
			n := 0
			for _, buf := range bufs[b[0]:b[1]] {
				n += copy(buf, whole[i%2][n:])
			}
		}
		return works[i].err
	}
	for i, b := range buckets {
		if err := arrive(i - 2); err != nil {
			return err
		}
		room, all := &rooms[i%2], bufs[b[0]]
		if b[1]-b[0] > 1 {
			if *room == nil {
				var err error
				if *room, err = Alloc[T](g, bucketBytes/dtypeOf[T]().Size()); err != nil {
					return fmt.Errorf("collective: a bucket: %w", err)
				}
			}
			n := 0
			for _, buf := range bufs[b[0]:b[1]] {
				n += copy((*room)[n:], buf)
			}
			all = (*room)[:n]
		}
		whole[i%2], works[i] = all, AllReduceAsync(ctx, g, all, all, op)
	}
	if err := arrive(len(buckets) - 2); err != nil {
		return err
	}
	return arrive(len(buckets) - 1)
}
