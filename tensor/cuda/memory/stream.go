package memory

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// Stream is work that a device does in order. One goroutine at a time uses a stream.
type Stream struct {
	dev    *Device
	stream driver.Stream
	slots  slots
	fence  driver.Event // what After records
	ends   driver.Event // what Sync records
	waiter *ring.Waiter

	busy     bool // it was given work since Sync last waited
	unmarked bool // and since Mark last recorded an event

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

// look is how often a waiter that sleeps looks at its event: nothing wakes it.
const look = 100 * time.Microsecond

// NewStream returns an empty stream.
func (d *Device) NewStream() (*Stream, error) {
	s := &Stream{dev: d}
	err := s.newWaiter()
	if err == nil {
		err = d.Do(s.open)
	}
	if err != nil {
		return nil, fmt.Errorf("stream on %s: %w", d.info.Name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams[s] = struct{}{}
	return s, nil
}

// newWaiter makes the waiter, on a bell that nothing rings.
func (s *Stream) newWaiter() error {
	mem := make([]byte, ring.BellSize)
	if err := ring.InitBell(mem); err != nil {
		return err
	}
	bell, err := ring.NewBell(mem, ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake})
	if err == nil {
		s.waiter = ring.NewWaiter(bell, &ring.WaiterOptions{Park: look})
	}
	return err
}

// open makes what the stream has of the driver.
func (s *Stream) open() (err error) {
	api := s.dev.api
	if s.stream, err = api.StreamCreate(driver.StreamNonBlocking, 0); err != nil {
		return err
	}
	for _, e := range []*driver.Event{&s.fence, &s.ends} {
		if *e, err = api.EventCreate(driver.EventDisableTiming); err != nil {
			return errors.Join(err, s.close())
		}
	}
	if err := s.slots.open(s, s.dev.opt.Slots, s.dev.opt.Slot); err != nil {
		return errors.Join(err, s.close())
	}
	return nil
}

// close gives back what open made but for the slots.
func (s *Stream) close() (err error) {
	for _, e := range append(s.spare, s.fence, s.ends) {
		if e != 0 {
			err = errors.Join(err, s.dev.api.EventDestroy(e))
		}
	}
	return errors.Join(err, s.dev.api.StreamDestroy(s.stream))
}

// Driver returns the driver's stream, for a call inside Device.Do that gives it work.
func (s *Stream) Driver() driver.Stream {
	s.busy, s.unmarked = true, true
	return s.stream
}

// wait waits until the device has come to an event. The thread isn't in the driver
// meanwhile.
func (s *Stream) wait(e driver.Event) (err error) {
	s.waiter.Wait(func() bool {
		var passed bool
		err = s.dev.Do(func() (err error) { passed, err = s.dev.api.EventQuery(e); return err })
		return passed || err != nil
	}, nil)
	return err
}

// Write copies src to the device. src is the caller's again when it returns.
func (s *Stream) Write(dst driver.DevicePtr, src []byte) error {
	return s.slots.write(dst, src)
}

// Read copies len(dst) bytes from the device and waits for them.
func (s *Stream) Read(dst []byte, src driver.DevicePtr) error {
	return s.slots.read(dst, src)
}

// Upload copies the first n bytes of a host block to the device. It takes over a
// reference to b, also when it returns an error. The device reads a registered block
// itself, later; the block is released after that.
func (s *Stream) Upload(dst driver.DevicePtr, b *shm.Block, n int) error {
	src := b.Bytes()[:n]
	if n > 0 && !b.ReadOnly() && s.dev.registered(src) {
		defer s.Release(b)
		return s.dev.Do(func() error { return s.dev.api.CopyHtoDAsync(dst, src, s.Driver()) })
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
	return s.dev.Do(func() error { return s.dev.api.CopyDtoHAsync(dst, src, s.Driver()) })
}

// Release releases references to blocks after all work so far. Mark, Sync and the
// device's need for memory bring it about.
func (s *Stream) Release(blocks ...*shm.Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, blocks...)
}

// Held returns how many blocks Release was given since the last mark.
func (s *Stream) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// Mark notes how far the stream has to come before blocks given to Release are released,
// and releases those of earlier marks that it has passed. It doesn't wait.
func (s *Stream) Mark() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held)+len(s.marks) == 0 {
		return nil
	}
	return s.dev.Do(func() error {
		if len(s.held) > 0 {
			if err := s.mark(); err != nil {
				return err
			}
			s.unmarked = false
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
// of work that failed. It calls the driver only if there was work since it last waited.
func (s *Stream) Sync() error {
	err := s.finish()
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

// finish waits for all work: for the newest mark where nothing follows it, otherwise for
// an event of its own. An event that the driver refuses is no error where the driver
// waits for the stream.
func (s *Stream) finish() error {
	if err := s.dev.Lost(); err != nil || !s.busy {
		return err
	}
	s.mu.Lock()
	end := s.ends
	if n := len(s.marks); n > 0 && !s.unmarked {
		end = s.marks[n-1].event
	}
	s.mu.Unlock()
	var err error
	if end == s.ends {
		err = s.dev.Do(func() error { return s.dev.api.EventRecord(end, s.stream) })
	}
	if err == nil {
		err = s.wait(end)
	}
	if err != nil && s.dev.Lost() == nil {
		// Without an event the thread waits in the driver.
		if s.dev.Do(func() error { return s.dev.api.StreamSynchronize(s.stream) }) == nil {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	s.busy = false
	return nil
}

// After makes what follows in s wait for all work of other so far, without waiting
// itself. The caller uses both streams.
func (s *Stream) After(other *Stream) error {
	return s.dev.Do(func() error {
		// A wait is for the last record before it: the event can be recorded again.
		if err := s.dev.api.EventRecord(other.fence, other.stream); err != nil {
			return err
		}
		return s.dev.api.StreamWaitEvent(s.Driver(), other.fence)
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
		return errors.Join(s.slots.close(), s.close())
	})
}
