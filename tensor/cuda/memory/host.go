package memory

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// hostRange is addresses of the host that are pinned.
type hostRange struct{ from, to uintptr }

// Register pins a segment that this process made, so that streams copy to and from it
// directly. It must be unregistered before it is unmapped. Where Info.Staged is not nil
// it does nothing.
func (d *Device) Register(s *shm.Segment) error {
	if d.info.Staged != nil {
		return nil
	}
	err := d.Do(func() error { return d.api.HostRegister(s.Bytes(), driver.HostPortable) })
	if err != nil {
		return fmt.Errorf("pinning a segment of %d bytes: %w", s.Size(), err)
	}
	at := address(s.Bytes())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pinned = append(d.pinned, hostRange{at, at + uintptr(s.Size())})
	return nil
}

// Unregister undoes Register, after all streams are done with the segment. A segment that
// is not pinned stays as it is.
func (d *Device) Unregister(s *shm.Segment) error {
	at := address(s.Bytes())
	d.mu.Lock()
	i := slices.IndexFunc(d.pinned, func(r hostRange) bool { return r.from == at })
	if i >= 0 {
		d.pinned = slices.Delete(d.pinned, i, i+1)
	}
	d.mu.Unlock()
	if i < 0 {
		return nil
	}
	return d.Do(func() error { return d.api.HostUnregister(s.Bytes()) })
}

// registered reports whether all of b is pinned. It compares addresses, since a peer
// chooses the ids of its segments.
func (d *Device) registered(b []byte) bool {
	from := address(b)
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.pinned, func(r hostRange) bool {
		return r.from <= from && from+uintptr(len(b)) <= r.to
	})
}

// probe returns nil if the driver can pin a segment and copies its bytes right.
func (d *Device) probe() error {
	s, err := shm.Create(int64(os.Getpagesize()), &shm.Options{Backing: shm.Memfd})
	if err != nil {
		return err
	}
	defer s.Close()
	want := bytes.Repeat([]byte{0x5a}, len(s.Bytes()))
	copy(s.Bytes(), want)
	return d.Do(func() error {
		if err := d.api.HostRegister(s.Bytes(), driver.HostPortable); err != nil {
			return err
		}
		err := d.roundTrip(s.Bytes())
		if e := d.api.HostUnregister(s.Bytes()); err == nil {
			err = e
		}
		if err == nil && !bytes.Equal(s.Bytes(), want) {
			err = fmt.Errorf("bytes of pinned memory came back different")
		}
		return err
	})
}

// roundTrip copies b to the device and, after clearing it, back.
func (d *Device) roundTrip(b []byte) error {
	p, err := d.api.Alloc(uint64(len(b)))
	if err != nil {
		return err
	}
	if err = d.api.CopyHtoD(p, b); err == nil {
		clear(b)
		err = d.api.CopyDtoH(b, p)
	}
	if e := d.api.Free(p); err == nil {
		err = e
	}
	return err
}
