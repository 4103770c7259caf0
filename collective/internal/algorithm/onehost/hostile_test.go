package onehost

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// hostile plays rank 1 towards rank 0: it comes to every meeting in the right call, so
// that what it says is listened to, and what it says is taken from data.
type hostile struct {
	c    *Comm // of rank 1, whose page it writes and which makes no call
	data []byte
	at   int
}

// next is n bytes of the data, which repeats.
func (h *hostile) next(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = h.data[h.at%len(h.data)]
		h.at++
	}
	return b
}

// play comes to meetings until stop.
func (h *hostile) play(stop <-chan struct{}) {
	victim, own := h.c.peers[0].page, h.c.self
	given, notices := uint64(0), uint64(0)
	for epoch := uint64(1); ; {
		parity := epoch & 1
		theirs, mine := &victim.lines[parity], &own.lines[parity]
		for atomic.LoadUint64(theirs.mark)>>32 != epoch {
			select {
			case <-stop:
				return
			default:
			}
			if atomic.LoadUint64(victim.state) != alive {
				return
			}
			// it waits for a notice
			if place := atomic.LoadUint64(h.posted(victim)); place != given {
				given = place
				notices++
				h.give(victim, notices, place)
			}
		}
		if h.next(1)[0]%4 == 0 {
			copy(mine.payload, h.next(payloadSize))
			copy(mine.word, h.next(wordSize))
			copy(mine.table, h.next(len(mine.table)))
		} else { // almost right
			copy(mine.payload, theirs.payload)
			copy(mine.word, theirs.word)
			copy(mine.table, theirs.table)
			mine.payload[int(h.next(1)[0])%24] ^= h.next(1)[0]
			mine.room(wordSize)[int(h.next(1)[0])%wordSize] ^= h.next(1)[0]
			mine.table[int(h.next(1)[0])%len(mine.table)] ^= h.next(1)[0]
		}
		copy(mine.call, h.next(protocol.CallBytes))
		letter := own.message(0, epoch)
		copy(letter[8:], h.next(messageSize-8))
		if h.next(1)[0]%2 == 0 {
			// of a call between two, perhaps, which comes to no meeting
			if call, err := protocol.DecodeCall(theirs.call); err == nil {
				binary.LittleEndian.PutUint64(letter[8:], hashOf(call))
			}
			binary.LittleEndian.PutUint64(letter[16:], 1000)
		}
		storeRelease(word64(letter, 0), epoch)
		storeRelease(own.ack(0), binary.LittleEndian.Uint64(h.next(8)))
		mark := atomic.LoadUint64(theirs.mark)
		switch h.next(1)[0] {
		case 7:
			mark++
		case 8:
			mark += 2 << 32
		case 9:
			copy(own.mem[offDeath+8:offCalls], h.next(offCalls-offDeath-8))
			storeRelease(own.state, uint64(h.next(1)[0])%8)
		}
		storeRelease(mine.mark, mark)
		victim.bell.Ring()
		epoch++
	}
}

// posted is where a rank says at which place it waits for a notice.
func (h *hostile) posted(p *page) *uint64 { return word64(p.mem, p.shape.board+offPosted) }

// give puts the notice for which the victim waits on the board, or one that is almost
// right, and says nonsense about where this rank is besides.
func (h *hostile) give(victim *page, number, place uint64) {
	own, le := h.c.self, binary.LittleEndian
	copy(own.inRoom(0, 256), h.next(256))
	notice := own.entry(number)
	copy(notice[8:], h.next(entrySize-8))
	if h.next(1)[0]%8 != 0 {
		le.PutUint64(notice[offEntryPosition:], place)
		copy(notice[offEntryHash:], victim.mem[victim.shape.board+offPosted+8:][:8])
	}
	if h.next(1)[0]%4 == 0 {
		le.PutUint64(notice[offEntryText:], 1<<offsetBits|uint64(h.next(1)[0])<<8)
	}
	if h.next(1)[0]%8 == 0 {
		copy(own.mem[own.shape.board+offPosted:], h.next(16+protocol.CallBytes))
	}
	storeRelease(own.acknowledged(), le.Uint64(h.next(8)))
	storeRelease(word64(notice, 0), number)
	victim.bell.Ring()
}

// FuzzPeer has rank 0 make all calls with a hostile rank 1: each ends, with an error that
// says so or with nonsense.
func FuzzPeer(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	f.Add([]byte{4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Add([]byte{255, 9, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		cs := comms(t, pipes(t, 2), &Options{Chunk: 4 << 10})
		for _, c := range cs { // so that places can be right
			if _, err := c.Alloc(64 << 10); err != nil {
				t.Fatal(err)
			}
		}
		cs[0].timeout = 20 * time.Millisecond // from now on
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			(&hostile{c: cs[1], data: data}).play(stop)
		}()
		c := cs[0]
		buf, err := c.Alloc(64 << 10)
		if err != nil {
			t.Fatal(err)
		}
		private := make([]byte, 64<<10)
		for seq := uint64(1); err == nil && seq < 60; seq++ {
			call := protocol.Call{Seq: seq, Kind: protocol.Kind(1 + seq%10), Op: element.Sum, DType: element.U8, Count: 30_000}
			b := buf
			if seq%3 == 0 {
				b = private
			}
			dst, src := b[:30_000], b[30_000:60_000]
			half := []int{15_000, 15_000}
			switch call.Kind {
			case protocol.AllReduce:
				err = c.AllReduce(ctx, call, 1, dst, dst)
			case protocol.Reduce:
				err = c.Reduce(ctx, call, 1, dst, src, int(seq/10)%2)
			case protocol.AllToAll:
				err = c.AllToAll(ctx, call, dst, src, half, half)
			case protocol.ReduceScatter:
				err = c.ReduceScatter(ctx, call, 1, dst[:15_000], src, half)
			case protocol.Broadcast:
				call.Count = []int64{30_000, 20, 1000}[seq/10%3]
				err = c.Broadcast(ctx, call, dst[:call.Count], 1)
			case protocol.Scatter:
				err = c.Scatter(ctx, call, dst[:15_000], src, half, 1)
			case protocol.AllGather:
				err = c.AllGather(ctx, call, dst, src[:15_000], half)
			case protocol.Gather:
				err = c.Gather(ctx, call, dst, src[:15_000], half, 0)
			default:
				if err = c.Send(ctx, call, 1, src[:100]); err == nil {
					err = c.Recv(ctx, call, 1, dst[:1000])
				}
			}
		}
		close(stop)
		<-done
		if err == nil {
			return
		}
		var pe *protocol.PeerError
		if !errors.As(err, &pe) {
			t.Fatalf("not a PeerError: %v", err)
		}
		for _, sentinel := range []error{protocol.ErrPeerLost, protocol.ErrTimeout, protocol.ErrMismatch, protocol.ErrAborted} {
			if errors.Is(err, sentinel) {
				return
			}
		}
		t.Fatalf("an error of no kind: %v", err)
	})
}

// TestHostilePage maps pages and memory that are not what they should be.
func TestHostilePage(t *testing.T) {
	for name, spoil := range map[string]func(c *Comm){
		"magic":   func(c *Comm) { c.seg.Bytes()[0]++ },
		"version": func(c *Comm) { c.seg.Bytes()[offVersion]++ },
		"rank":    func(c *Comm) { c.seg.Bytes()[offRank]++ },
		"ranks":   func(c *Comm) { c.seg.Bytes()[offRanks]++ },
		"flat":    func(c *Comm) { c.flat += 64 },
	} {
		conns := pipes(t, 2)
		bad, err := open(1, conns[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		spoil(bad)
		greeted := make(chan error)
		go func() { greeted <- bad.greet(ctx) }()
		short, cancel := context.WithTimeout(ctx, hang)
		_, err = New(short, 0, conns[0], nil)
		cancel()
		var pe *protocol.PeerError
		if !errors.As(err, &pe) || pe.Rank != 1 || !errors.Is(err, protocol.ErrPeerLost) && !errors.Is(err, protocol.ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
		<-greeted
		bad.release()
	}
}
