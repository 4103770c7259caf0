package tcp

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

// # Bytes that get lost
//
// TCP loses no bytes, but a program that forwards connections may. A checksum that never
// comes is not wrong, so an end that has sent something says so again for a while:
//
//  1. Every beatEvery it sends a frame with the number of bytes that it has sent as bulk
//     transfers, maxBeats times after the last message or transfer.
//  2. If frames before it are missing, its checksum is wrong.
//  3. If a part of a frame is missing, beats fall into the gap. A frame that is not
//     complete, and of which no more than beats come during maxSilence, is damaged.
//  4. Bulk bytes that were sent, and do not come while a receive waits for them during
//     maxSilence, are lost.
const (
	beatEvery  = time.Second
	maxBeats   = 15 // more than maxSilence
	maxSilence = 10 // times beatEvery
)

// beats is what a conn knows for them. The poller's clock calls beat; other goroutines
// write the atomics.
type beats struct {
	left   int    // beats to send
	pushed uint64 // frames and bulk bytes sent at the last beat

	partial  atomic.Bool   // a frame, or a record of TLS, has begun to arrive
	arrived  atomic.Uint64 // bytes of frames as they are on the wire
	promised atomic.Uint32 // bulk bytes that the peer has sent, modulo 2^32

	messages, bulk silence
}

// silence counts the beats at which something was missing.
type silence struct {
	at    uint64
	count int
}

// lasts notes how many bytes have arrived, and reports whether some are missing and no
// more than a few have come during maxSilence.
func (s *silence) lasts(missing bool, arrived, few uint64) bool {
	if !missing || arrived-s.at > few {
		s.count = 0
	} else {
		s.count++
	}
	s.at = arrived
	return s.count >= maxSilence
}

// beat is called every beatEvery.
func (c *conn) beat() {
	if c.state.Load() != 0 {
		return
	}
	b := &c.beats
	c.writer.beat(c)
	received := c.bulk.received.Load()
	few := uint64(frameHeader)
	if c.sock.tls != nil {
		few += recordMore
	}
	missing := int32(b.promised.Load() - received)
	switch {
	case b.messages.lasts(b.partial.Load(), b.arrived.Load(), few):
		_ = c.corrupt(fmt.Errorf("%w: the rest of a message did not come in %v", ipc.ErrDamaged, maxSilence*c.transport.beatEvery))
	case b.bulk.lasts(missing > 0 && c.bulk.wants.Load()&unix.EPOLLIN != 0, uint64(received), 0):
		_ = c.corrupt(fmt.Errorf("%w: %d bytes of bulk transfers did not come in %v", ipc.ErrDamaged, missing, maxSilence*c.transport.beatEvery))
	}
}

// beat sends a beat if one is due and no frame waits to be written.
func (w *writer) beat(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &c.beats
	if n := w.pushed + uint64(c.bulk.sent.Load()); n != b.pushed {
		b.pushed, b.left = n, maxBeats
	}
	if b.left == 0 || w.waiting || w.first < len(w.frames) {
		return
	}
	b.left--
	w.push(frame{kind: beat, sum: c.bulk.sent.Load()}, nil)
	w.flush(c)
}
