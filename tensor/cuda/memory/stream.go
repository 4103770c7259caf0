package memory

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// Stream is work that a device does in order. One goroutine at a time uses a stream.
type Stream struct {
	dev    *Device
	stream driver.Stream
	slots  slots
	fence  driver.Event // what After records

	mu    sync.Mutex     // the stream's user beside Device.reclaim
	held  []*shm.Block   // released by the next mark
	marks []mark         // oldest first
	spare []driver.Event // without a mark
}

// mark is a place in a stream and the blocks that are no longer used behind it.
type mark struct {
	event  driver.Event
	blocks []*shm.Block
}

// NewStream returns an empty stream.
func (d *Device) NewStream() (*Stream, error) {
	s := &Stream{dev: d}
	err := d.Do(func() error {
		var err error
		if s.stream, err = d.api.StreamCreate(driver.StreamNonBlocking, 0); err != nil {
			return err
		}
		if s.fence, err = d.api.EventCreate(driver.EventDisableTiming); err != nil {
			return errors.Join(err, d.api.StreamDestroy(s.stream))
		}
		if err := s.slots.open(d.api, d.opt.Slots, d.opt.Slot); err != nil {
			return errors.Join(err, d.api.EventDestroy(s.fence), d.api.StreamDestroy(s.stream))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("stream on %s: %w", d.info.Name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams[s] = struct{}{}
	return s, nil
}

// Driver returns the driver's stream, for calls inside Device.Do.
func (s *Stream) Driver() driver.Stream { return s.stream }

// Write copies src to the device. src is the caller's again when it returns.
func (s *Stream) Write(dst driver.DevicePtr, src []byte) error {
	return s.dev.Do(func() error { return s.slots.write(dst, src, s.stream) })
}

// Read copies len(dst) bytes from the device and waits for them.
func (s *Stream) Read(dst []byte, src driver.DevicePtr) error {
	return s.dev.Do(func() error { return s.slots.read(dst, src, s.stream) })
}

// Upload copies the first n bytes of a host block to the device. It takes over a
// reference to b, also when it returns an error. The device reads a registered block
// itself, later; the block is released after that.
func (s *Stream) Upload(dst driver.DevicePtr, b *shm.Block, n int) error {
	src := b.Bytes()[:n]
	if n > 0 && !b.ReadOnly() && s.dev.registered(src) {
		defer s.Release(b)
		return s.dev.Do(func() error { return s.dev.api.CopyHtoDAsync(dst, src, s.stream) })
	}
	defer b.Release()
	return s.Write(dst, src)
}

// Download copies n bytes from the device to the first n bytes of a host block, which are
// there after Sync. It takes a reference of its own to b.
func (s *Stream) Download(b *shm.Block, src driver.DevicePtr, n int) error {
	dst := b.Bytes()[:n]
	if n == 0 || !s.dev.registered(dst) {
		return s.Read(dst, src)
	}
	b.Retain()
	defer s.Release(b)
	return s.dev.Do(func() error { return s.dev.api.CopyDtoHAsync(dst, src, s.stream) })
}

// Release releases references to blocks after all work so far. Mark, Sync and the
// device's need for memory bring it about.
func (s *Stream) Release(blocks ...*shm.Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, blocks...)
}

// Mark notes how far the stream has to come before blocks given to Release are released,
// and releases those of earlier marks that it has passed. It doesn't wait.
func (s *Stream) Mark() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dev.Do(func() error {
		if err := s.mark(); err != nil {
			return err
		}
		for len(s.marks) > 0 {
			passed, err := s.dev.api.EventQuery(s.marks[0].event)
			if err != nil || !passed {
				return err
			}
			s.pass()
		}
		return nil
	})
}

// mark records an event behind which the held blocks are released. Called with mu.
func (s *Stream) mark() error {
	if len(s.held) == 0 {
		return nil
	}
	if len(s.spare) == 0 {
		e, err := s.dev.api.EventCreate(driver.EventDisableTiming | driver.EventBlockingSync)
		if err != nil {
			return err
		}
		s.spare = append(s.spare, e)
	}
	last := len(s.spare) - 1
	if err := s.dev.api.EventRecord(s.spare[last], s.stream); err != nil {
		return err
	}
	s.marks = append(s.marks, mark{s.spare[last], s.held})
	s.spare, s.held = s.spare[:last], nil
	return nil
}

// pass releases the blocks of the oldest mark. Called with mu.
func (s *Stream) pass() {
	m := s.marks[0]
	for _, b := range m.blocks {
		b.Release()
	}
	s.marks, s.spare = s.marks[1:], append(s.spare, m.event)
}

// settle waits for all marks.
func (s *Stream) settle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dev.Do(func() error {
		if err := s.mark(); err != nil {
			return err
		}
		for len(s.marks) > 0 {
			if err := s.dev.api.EventSynchronize(s.marks[0].event); err != nil {
				return err
			}
			s.pass()
		}
		return nil
	})
}

// Alone calls f as Device.Do does. No other goroutine records an event in the stream
// meanwhile, as one does that needs memory: that would invalidate a capture.
func (s *Stream) Alone(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dev.Do(f)
}

// Sync waits for all work and releases what Release was given. It returns the first error
// of work that failed.
func (s *Stream) Sync() error {
	err := s.dev.Do(func() error { return s.dev.api.StreamSynchronize(s.stream) })
	if err != nil && !errors.Is(err, ErrLost) {
		return err // of the call: the work may go on
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.marks) > 0 {
		s.pass()
	}
	for _, b := range s.held {
		b.Release()
	}
	s.held = nil
	return err
}

// After makes what follows in s wait for all work of other so far, without waiting
// itself. The caller uses both streams.
func (s *Stream) After(other *Stream) error {
	return s.dev.Do(func() error {
		// A wait is for the last record before it: the event can be recorded again.
		if err := s.dev.api.EventRecord(other.fence, other.stream); err != nil {
			return err
		}
		return s.dev.api.StreamWaitEvent(s.stream, other.fence)
	})
}

// Close waits for all work and ends the stream. Blocks are released even where the
// device is lost.
func (s *Stream) Close() error {
	err := s.Sync()
	s.dev.mu.Lock()
	delete(s.dev.streams, s)
	s.dev.mu.Unlock()
	if err != nil {
		return err
	}
	return s.dev.Do(func() error {
		err := s.slots.close()
		for _, e := range s.spare {
			err = errors.Join(err, s.dev.api.EventDestroy(e))
		}
		return errors.Join(err, s.dev.api.EventDestroy(s.fence), s.dev.api.StreamDestroy(s.stream))
	})
}
