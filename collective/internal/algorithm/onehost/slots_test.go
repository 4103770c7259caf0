package onehost

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// slotsHeld is the staging slots that one of two ranks holds, as rank 0 numbers them.
func slotsHeld(c *Comm) (numbers []uint64) {
	for _, n := range c.held {
		numbers = append(numbers, n^uint64(2*c.rank))
	}
	return numbers
}

// TestSlotsChangeHands: whatever two ranks call, each slot is held by one of them, and
// results are right.
func TestSlotsChangeHands(t *testing.T) {
	rng := seeded(t)
	const chunk = 4096
	cs := comms(t, pipes(t, 2), &Options{Chunk: chunk})
	var registered [2][]byte
	for r, c := range cs {
		var err error
		if registered[r], err = c.Alloc(5 * chunk); err != nil {
			t.Fatal(err)
		}
	}
	moved := map[[2]uint64]bool{} // what rank 0 held
	for seq := uint64(1); seq <= 400; seq++ {
		size := []int{8, 12, 64, 1000, 2048, chunk - 4, chunk, chunk + 4, 2*chunk + 4, 5 * chunk}[rng.IntN(10)]
		srcs := [][]byte{fill(rng, element.F32, size/4), fill(rng, element.F32, size/4)}
		sum := reference(element.Sum, element.F32, 1, nil, srcs)
		kind := []protocol.Kind{protocol.AllReduce, protocol.AllReduce, protocol.Reduce, protocol.AllGather, protocol.ReduceScatter, protocol.Barrier}[rng.IntN(6)]
		where, root := rng.IntN(4), rng.IntN(2)
		call := protocol.Call{Seq: seq, Kind: kind, DType: element.F32, Count: int64(size / 4)}
		if kind != protocol.AllGather && kind != protocol.Barrier {
			call.Op = element.Sum
		}
		first := size / 8 * 4
		each(t, cs, func(c *Comm) error {
			src, dst, want := srcs[c.rank], make([]byte, size), sum
			if where == c.rank { // the other's is staged
				src = registered[c.rank][:size]
				copy(src, srcs[c.rank])
				dst = src
			}
			var err error
			switch kind {
			case protocol.AllReduce:
				err = c.AllReduce(ctx, call, 1, dst, src)
			case protocol.Reduce:
				if err = c.Reduce(ctx, call, 1, dst, src, root); c.rank != root {
					return err
				}
			case protocol.AllGather:
				dst, want = make([]byte, 2*size), append(append([]byte{}, srcs[0]...), srcs[1]...)
				err = c.AllGather(ctx, call, dst, src, []int{size, size})
			case protocol.ReduceScatter:
				counts := []int{first, size - first}
				dst, want = make([]byte, counts[c.rank]), sum[c.rank*first:][:counts[c.rank]]
				err = c.ReduceScatter(ctx, call, 1, dst, src, counts)
			default:
				return c.Barrier(ctx, call)
			}
			if err == nil && !bytes.Equal(dst, want) {
				err = fmt.Errorf("%v of %d bytes, rank %d registered: the result is wrong", kind, size, where)
			}
			return err
		})
		a, b := slotsHeld(cs[0]), slotsHeld(cs[1])
		var held [4]int
		for _, n := range append(a, b...) {
			held[n]++
		}
		if held != [4]int{1, 1, 1, 1} {
			t.Fatalf("after %v of %d bytes rank 0 holds slots %v and rank 1 %v", kind, size, a, b)
		}
		moved[[2]uint64{a[0], a[1]}] = true
	}
	if len(moved) < 4 {
		t.Errorf("rank 0 held %v", moved)
	}
}

// TestSlotsWhileRead: what a rank has given stays until the other, which may be reading
// it, comes to the next meeting; and it fills the slot that it has read.
func TestSlotsWhileRead(t *testing.T) {
	rng := seeded(t)
	const chunk, pieces = 4096, 7
	for _, size := range []int{12, 1000, chunk} {
		cs := comms(t, pipes(t, 2), &Options{Chunk: chunk})
		// the reader makes no call: the test is in its place
		reader, giver := cs[0], cs[1]
		mine, theirs := fill(rng, element.F32, pieces*size/4), fill(rng, element.F32, pieces*size/4)
		got := make([]byte, len(theirs))
		done := make(chan error, 1)
		go func() {
			if size == chunk { // all pieces in one call
				done <- giver.AllReduce(ctx, protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32}, 1, got, theirs)
				return
			}
			for i := range pieces {
				lo, hi := i*size, (i+1)*size
				if err := giver.AllReduce(ctx, protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32}, 1, got[lo:hi], theirs[lo:hi]); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		// the slots of the piece that has come and of the one before
		var given, before []byte
		for i := range pieces {
			lo, hi := i*size, (i+1)*size
			epoch := uint64(i + 1)
			parity := epoch & 1
			mark := giver.self.lines[parity].mark
			for atomic.LoadUint64(mark)>>32 != epoch {
				if len(done) > 0 {
					t.Fatal(<-done)
				}
				runtime.Gosched()
			}
			if i > 0 && !bytes.Equal(given[:size], theirs[lo-size:lo]) {
				t.Fatalf("%d bytes: piece %d is not there any more, while it may be read", size, i-1)
			}
			filled := before // by the reader, for the meeting before
			if size == chunk {
				reader.epoch = epoch - 1
				reader.stage(&move{src: mine}, i)
				before = reader.slot(0, reader.held[reader.turn])
			} else {
				before = reader.self.lines[parity].flat
				copy(before, mine[lo:hi])
			}
			reader.epoch = epoch
			storeRelease(reader.self.lines[parity].mark, atomic.LoadUint64(mark))
			if given = reader.peers[1].lines[parity].flat; size == chunk {
				given = reader.takeSlot(1)
			}
			if !bytes.Equal(given[:size], theirs[lo:hi]) {
				t.Fatalf("%d bytes: piece %d is not in the slot that was said", size, i)
			}
			if i > 0 && &given[0] != &filled[0] {
				t.Fatalf("%d bytes: piece %d is not in the slot that its giver has read before", size, i)
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if want := reference(element.Sum, element.F32, 1, nil, [][]byte{mine, theirs}); !bytes.Equal(got, want) {
			t.Errorf("%d bytes: the sum is wrong", size)
		}
	}
}
