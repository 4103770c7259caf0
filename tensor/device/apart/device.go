package apart

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// Options configure a device; nil and the zero value are the defaults.
type Options struct {
	// Seed decides how late programs run. Each space draws from a sequence of its own, by
	// the order in which spaces are opened.
	Seed uint64

	// CPU configures what computes. MaxBytes bounds the memory of values; Arena and
	// OnSegment are those of the host memory. Memory is ignored.
	CPU cpu.Options

	// Kind, Flops and Bandwidth are what Info says, see device.Info. Default CPU, not
	// known.
	Kind             device.Kind
	Flops, Bandwidth float64
}

// Device is a device.Device whose values other code cannot touch.
type Device struct {
	info  device.Info
	cpu   *cpu.Device // its arena is of reserved addresses
	host  *shm.Arena
	seed  uint64
	opens atomic.Uint64 // spaces so far

	backing shm.Options // of the bytes behind reserved segments

	mu     sync.RWMutex
	memory map[uint64]*shm.Segment // the bytes behind each reserved segment
}

// New returns a device.
func New(o *Options) (*Device, error) {
	opt := *cmp.Or(o, &Options{})
	host := opt.CPU.Arena
	d := &Device{seed: opt.Seed, backing: host.Segment, memory: map[uint64]*shm.Segment{}}
	d.backing.PeersRead = false
	if opt.CPU.OnSegment != nil {
		host.OnSegment = opt.CPU.OnSegment
	}
	var err error
	if d.host, err = shm.NewArena(&host); err != nil {
		return nil, err
	}
	opt.CPU.OnSegment, opt.CPU.Memory = nil, d.bytes
	opt.CPU.Arena = shm.ArenaOptions{
		Segment: shm.Options{Backing: shm.Reserved}, First: 1 << 20, Checked: true,
		NewSegment: d.newSegment, OnTrim: d.dropSegment, Fill: d.fill,
	}
	if d.cpu, err = cpu.New(&opt.CPU); err != nil {
		return nil, err
	}
	d.info = d.cpu.Info()
	d.info.Name = "apart, " + d.info.Name
	d.info.Flops, d.info.Bandwidth = opt.Flops, opt.Bandwidth
	if opt.Kind != 0 {
		d.info.Kind = opt.Kind
	}
	return d, nil
}

// newSegment makes the bytes behind a reserved segment.
func (d *Device) newSegment(id uint64, size int64) error {
	s, err := shm.Create(size, &d.backing)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory[id] = s
	return nil
}

// dropSegment gives up the bytes behind a reserved segment that is unmapped.
func (d *Device) dropSegment(id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory[id].Close()
	delete(d.memory, id)
}

// at returns the bytes that a handle names.
func (d *Device) at(h shm.Handle) []byte {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.memory[h.Segment].Bytes()[h.Off:][:h.Len]
}

func (d *Device) bytes(b *shm.Block) []byte { return d.at(b.Handle()) }

func (d *Device) fill(h shm.Handle, x byte) {
	mem := d.at(h)
	for i := range mem {
		mem[i] = x
	}
}

// Info implements device.Device.
func (d *Device) Info() device.Info { return d.info }

// Arena implements device.Device. No value lies there.
func (d *Device) Arena() *shm.Arena { return d.host }

// Compile implements device.Device.
func (d *Device) Compile(hash tensor.Hash, encoded []byte) (device.Program, error) {
	return d.cpu.Compile(hash, encoded)
}

// Open implements device.Device.
func (d *Device) Open() device.Space {
	return &space{
		dev: d, cpu: d.cpu.Open(), values: map[uint64]device.Value{}, ended: map[uint64]bool{},
		rng: rand.New(rand.NewPCG(d.seed, d.opens.Add(1))),
	}
}

// Stats implements device.Device.
func (d *Device) Stats() device.Stats {
	s := d.cpu.Stats()
	s.Arena = d.host.Stats()
	return s
}

// Trim implements device.Device.
func (d *Device) Trim(keep func(segment uint64) bool) {
	d.cpu.Trim(func(uint64) bool { return false })
	d.host.TrimUnused(keep)
}

// Close implements device.Device.
func (d *Device) Close() error {
	if err := d.cpu.Close(); err != nil {
		return fmt.Errorf("apart: memory of values: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.memory {
		s.Close()
	}
	clear(d.memory)
	return d.host.Close()
}
