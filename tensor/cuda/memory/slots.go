package memory

import (
	"errors"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// slots is a ring of pinned pieces of host memory. A copy takes the oldest slot, and
// waits until the copy that had it before is done.
type slots struct {
	in   *Stream
	size int
	mem  []byte
	done []driver.Event // of each slot: after its last copy
	next int            // the oldest
}

// open makes n slots. It is called in the device's context, as is close.
func (s *slots) open(in *Stream, n, size int) error {
	s.in, s.size = in, size
	api := in.dev.api
	var err error
	if s.mem, err = api.HostAlloc(n*size, driver.HostPortable); err != nil {
		return err
	}
	for range n {
		e, err := api.EventCreate(driver.EventDisableTiming | driver.EventBlockingSync)
		if err != nil {
			return errors.Join(err, s.close())
		}
		s.done = append(s.done, e)
	}
	return nil
}

func (s *slots) close() error {
	var err error
	for _, e := range s.done {
		err = errors.Join(err, s.in.dev.api.EventDestroy(e))
	}
	if s.mem != nil {
		err = errors.Join(err, s.in.dev.api.HostFree(s.mem))
	}
	*s = slots{}
	return err
}

// take returns the number of the next slot. Its last copy is done.
func (s *slots) take() (int, error) {
	i := s.next
	s.next = (i + 1) % len(s.done)
	return i, s.in.wait(s.done[i])
}

// copy calls f, which puts a copy of slot i into the stream, and notes where the copy
// ends. If the driver can't, it waits for the copy: take would not.
func (s *slots) copy(i int, f func(api driver.API, in driver.Stream) error) error {
	api, in := s.in.dev.api, s.in.Driver()
	return s.in.dev.Do(func() error {
		if err := f(api, in); err != nil {
			return err
		}
		err := api.EventRecord(s.done[i], in)
		if err == nil {
			return nil
		}
		return errors.Join(err, api.StreamSynchronize(in))
	})
}

// slot returns the first n bytes of slot i.
func (s *slots) slot(i, n int) []byte { return s.mem[i*s.size:][:n:n] }

// write copies src to the device in stream order. src is the caller's when it returns.
func (s *slots) write(dst driver.DevicePtr, src []byte) error {
	for len(src) > 0 {
		i, err := s.take()
		if err != nil {
			return err
		}
		b := s.slot(i, min(len(src), s.size))
		copy(b, src)
		err = s.copy(i, func(api driver.API, in driver.Stream) error { return api.CopyHtoDAsync(dst, b, in) })
		if err != nil {
			return err
		}
		src, dst = src[len(b):], dst+driver.DevicePtr(len(b))
	}
	return nil
}

// read copies from the device in stream order and waits. All slots but one hold copies
// on their way while the host copies from the oldest.
func (s *slots) read(dst []byte, src driver.DevicePtr) error {
	type piece struct{ slot, bytes int }
	var ahead []piece
	for at := 0; at < len(dst) || len(ahead) > 0; {
		if at < len(dst) && len(ahead) < len(s.done) {
			i, err := s.take()
			if err != nil {
				return err
			}
			n := min(len(dst)-at, s.size)
			from := src + driver.DevicePtr(at)
			err = s.copy(i, func(api driver.API, in driver.Stream) error { return api.CopyDtoHAsync(s.slot(i, n), from, in) })
			if err != nil {
				return err
			}
			ahead, at = append(ahead, piece{i, n}), at+n
			continue
		}
		oldest := ahead[0]
		if err := s.in.wait(s.done[oldest.slot]); err != nil {
			return err
		}
		n := copy(dst, s.slot(oldest.slot, oldest.bytes))
		dst, src, at, ahead = dst[n:], src+driver.DevicePtr(n), at-n, ahead[1:]
	}
	return nil
}
