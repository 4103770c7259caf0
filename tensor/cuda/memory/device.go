package memory

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// Options are the choices of Open; nil means all defaults.
type Options struct {
	// Segment is the size in bytes of a pool's first segment, 256 MiB. Each further one
	// is twice as large, up to Growth, 2 GiB.
	Segment, Growth int64

	// Slots is the number of pinned slots of a stream, 16, and Slot the bytes of each,
	// 256 KiB.
	Slots, Slot int
}

// Info describes a device.
type Info struct {
	Name       string
	UUID       driver.UUID
	Bytes      uint64
	Capability [2]int // major, minor

	// Staged says why the driver can't pin the host's segments, so that all copies go
	// through slots. It is nil where it can.
	Staged error
}

// Device is a device as one process uses it. All methods may be called concurrently.
type Device struct {
	api     driver.API
	device  driver.Device
	context driver.Context
	opt     Options
	info    Info
	opens   atomic.Uint64 // segments of other processes, so far

	mu      sync.Mutex
	lost    error
	pools   map[*Pool]struct{}
	streams map[*Stream]struct{}
	pinned  []hostRange
}

// Open initializes the driver and opens its device with that number.
func Open(api driver.API, number int, o *Options) (*Device, error) {
	d := &Device{api: api, pools: map[*Pool]struct{}{}, streams: map[*Stream]struct{}{}}
	if o != nil {
		d.opt = *o
	}
	d.opt.Segment = cmp.Or(d.opt.Segment, 256<<20)
	d.opt.Growth = cmp.Or(d.opt.Growth, max(2<<30, d.opt.Segment))
	d.opt.Slots = cmp.Or(d.opt.Slots, 16)
	d.opt.Slot = cmp.Or(d.opt.Slot, 256<<10)
	if d.opt.Slots < 1 || d.opt.Slot < 1 {
		return nil, fmt.Errorf("memory: %d slots of %d bytes, expected 1 or more", d.opt.Slots, d.opt.Slot)
	}
	if err := api.Init(); err != nil {
		return nil, err
	}
	var err error
	if d.device, err = api.DeviceGet(number); err != nil {
		return nil, fmt.Errorf("device %d: %w", number, err)
	}
	if err := d.describe(); err != nil {
		return nil, fmt.Errorf("device %d: %w", number, err)
	}
	if d.context, err = api.PrimaryRetain(d.device); err != nil {
		return nil, fmt.Errorf("%s: %w", d.info.Name, err)
	}
	d.info.Staged = d.probe()
	if err := d.Lost(); err != nil {
		return nil, errors.Join(err, api.PrimaryRelease(d.device))
	}
	return d, nil
}

// describe fills in what Info says of the device.
func (d *Device) describe() error {
	var errs [5]error
	d.info.Name, errs[0] = d.api.DeviceName(d.device)
	d.info.UUID, errs[1] = d.api.DeviceUUID(d.device)
	d.info.Bytes, errs[2] = d.api.DeviceMemory(d.device)
	d.info.Capability[0], errs[3] = d.api.DeviceAttribute(d.device, driver.CapabilityMajor)
	d.info.Capability[1], errs[4] = d.api.DeviceAttribute(d.device, driver.CapabilityMinor)
	return errors.Join(errs[:]...)
}

// Info describes the device.
func (d *Device) Info() Info { return d.info }

// Multiprocessors returns how many the device has.
func (d *Device) Multiprocessors() (int, error) {
	return d.api.DeviceAttribute(d.device, driver.Multiprocessors)
}

// API returns the driver, for calls inside Do.
func (d *Device) API() driver.API { return d.api }

// Calls returns how many calls of the driver this process made, 0 where the driver
// doesn't count them.
func (d *Device) Calls() uint64 {
	if c, ok := d.api.(driver.Counted); ok {
		return c.Calls()
	}
	return 0
}

// Opens returns how many segments of other processes were opened on the device.
func (d *Device) Opens() uint64 { return d.opens.Load() }

// Do calls f with the device's context, as driver.Bind does. An error that means that the
// device is lost is kept, see ErrLost.
func (d *Device) Do(f func() error) error {
	if err := d.Lost(); err != nil {
		return err
	}
	err := driver.Bind(d.api, d.context, f)
	var e *driver.Error
	if !errors.As(err, &e) || !e.Result.Lost() {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost == nil {
		d.lost = fmt.Errorf("%w: %s: %w", ErrLost, d.info.Name, err)
	}
	return d.lost
}

// Lost returns nil, or the ErrLost after which the device is of no use to this process.
func (d *Device) Lost() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// Reaches returns nil if kernels of the device reach the memory of the device with that
// UUID, which this process sees.
func (d *Device) Reaches(id driver.UUID) error {
	if id == d.info.UUID {
		return nil
	}
	n, err := d.api.DeviceCount()
	if err != nil {
		return err
	}
	for i := range n {
		peer, err := d.api.DeviceGet(i)
		if err != nil {
			return err
		}
		found, err := d.api.DeviceUUID(peer)
		if err != nil {
			return err
		}
		if found != id {
			continue
		}
		reaches, err := d.api.DeviceCanAccessPeer(d.device, peer)
		if err == nil && !reaches {
			err = fmt.Errorf("%w: %s does not reach the memory of device %x", ErrUnreached, d.info.Name, id)
		}
		return err
	}
	return fmt.Errorf("%w: this process does not see device %x among %d", ErrUnreached, id, n)
}

// reclaim waits for all streams, so that they release their blocks, and gives the unused
// segments of all pools back.
func (d *Device) reclaim() error {
	d.mu.Lock()
	streams, pools := slices.Collect(maps.Keys(d.streams)), slices.Collect(maps.Keys(d.pools))
	d.mu.Unlock()
	for _, s := range streams {
		if err := s.settle(); err != nil {
			return err
		}
	}
	for _, p := range pools {
		p.trim()
	}
	return nil
}

// Close gives the device back. All streams, pools and imports are closed before.
func (d *Device) Close() error {
	if err := d.Lost(); err != nil {
		return nil // its memory went with it
	}
	return d.api.PrimaryRelease(d.device)
}
