package memory

import (
	"errors"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// slots is a ring of pinned pieces of host memory. A copy takes the oldest slot, and
// waits until the copy that had it before is done.
type slots struct {
	api  driver.API
	size int
	mem  []byte
	done []driver.Event // of each slot: after its last copy
	next int            // the oldest
}

// open is called in the device's context, as are all methods.
func (s *slots) open(api driver.API, n, size int) error {
	s.api, s.size = api, size
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
		err = errors.Join(err, s.api.EventDestroy(e))
	}
	if s.mem != nil {
		err = errors.Join(err, s.api.HostFree(s.mem))
	}
	*s = slots{}
	return err
}

// take returns the number of the next slot. Its last copy is done.
func (s *slots) take() (int, error) {
	i := s.next
	s.next = (i + 1) % len(s.done)
	return i, s.api.EventSynchronize(s.done[i])
}

// record notes where the copy of slot i ends. If the driver can't, it waits for the copy:
// take would not.
func (s *slots) record(i int, in driver.Stream) error {
	err := s.api.EventRecord(s.done[i], in)
	if err == nil {
		return nil
	}
	return errors.Join(err, s.api.StreamSynchronize(in))
}

// slot returns the first n bytes of slot i.
func (s *slots) slot(i, n int) []byte { return s.mem[i*s.size:][:n:n] }

// write copies src to the device in stream order. src is the caller's when it returns.
func (s *slots) write(dst driver.DevicePtr, src []byte, to driver.Stream) error {
	for len(src) > 0 {
		i, err := s.take()
		if err != nil {
			return err
		}
		b := s.slot(i, min(len(src), s.size))
		copy(b, src)
		if err := s.api.CopyHtoDAsync(dst, b, to); err != nil {
			return err
		}
		if err := s.record(i, to); err != nil {
			return err
		}
		src, dst = src[len(b):], dst+driver.DevicePtr(len(b))
	}
	return nil
}

// read copies from the device in stream order and waits. All slots but one hold copies
// on their way while the host copies from the oldest.
func (s *slots) read(dst []byte, src driver.DevicePtr, from driver.Stream) error {
	type piece struct{ slot, bytes int }
	var ahead []piece
	for at := 0; at < len(dst) || len(ahead) > 0; {
		if at < len(dst) && len(ahead) < len(s.done) {
			i, err := s.take()
			if err != nil {
				return err
			}
			n := min(len(dst)-at, s.size)
			if err := s.api.CopyDtoHAsync(s.slot(i, n), src+driver.DevicePtr(at), from); err != nil {
				return err
			}
			if err := s.record(i, from); err != nil {
				return err
			}
			ahead, at = append(ahead, piece{i, n}), at+n
			continue
		}
		oldest := ahead[0]
		if err := s.api.EventSynchronize(s.done[oldest.slot]); err != nil {
			return err
		}
		n := copy(dst, s.slot(oldest.slot, oldest.bytes))
		dst, src, at, ahead = dst[n:], src+driver.DevicePtr(n), at-n, ahead[1:]
	}
	return nil
}
