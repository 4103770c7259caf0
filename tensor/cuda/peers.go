package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/device"
)

// Events of a member, which the others open. Between two records of one event there is a
// meeting, after which all have put their waits for the first into their streams.
const (
	eventReady  = iota // its value is there
	eventFolded        // its slice of a two-shot all-reduce is folded
	eventDone          // it reads the others' memory no more
	peerEvents
)

// peers are the members of a group, each with a device of its own or shared with others.
//
// # Ownership
//
// A value lies in memory of the member that made it. The others open the segment it is
// in when they first hear of it, and read there; each writes to its own memory alone. The
// owner keeps the value's block until its stream has come past the last reader, and the
// segment until all have closed it.
//
// # A member that ends
//
// A stream that waits for an event of a process which was killed may wait for good, and
// with it every call of the driver that waits for the stream. So a process's end is
// watched, and the others record its events in its place, after which none waits for them
// any more. Their results are of no use
// then, and are not used: the group's next meeting fails.
type peers struct {
	dev     *Device
	rank    int
	twoShot int // bytes from which an all-reduce has two steps

	stream  *memory.Stream // of collectives, beside that of programs
	imports *memory.Imports
	events  [peerEvents]driver.Event
	others  []peer          // by rank; the own is empty
	held    map[uint64]bool // segments that the others may have open
	told    map[uint64]bool // those of them that all others have open
	last    *space          // whose stream may still read the others' memory
	kept    []*shm.Block    // see keep
	pieces  pieces

	mu     sync.Mutex
	rescue driver.Stream // in which events of processes that ended are recorded
}

// peer is another member.
type peer struct {
	process *memory.Process
	device  driver.UUID
	events  [peerEvents]driver.Event
}

// MaxPeers is the most members of a group that reach each other's memory.
const MaxPeers = ptx.MaxFold

// trialBytes is how much of each other's memory the members read before they rely on it.
const trialBytes = 256

// offerBytes is the size of what a member says of itself.
const offerBytes = 1 + 4 + 8 + 8 + peerEvents*len(driver.IPCHandle{}) + memory.ExportSize + shm.HandleSize

// offer is what a member says of itself.
type offer struct {
	obstacle  device.Obstacle
	process   uint32
	namespace uint64
	twoShot   uint64
	events    [peerEvents]driver.IPCHandle
	export    memory.Export // of the segment that the trial is in
	trial     shm.Handle
}

// append appends the encoded offer.
func (o *offer) append(b []byte) []byte {
	b = append(b, byte(o.obstacle))
	b = binary.LittleEndian.AppendUint32(b, o.process)
	b = binary.LittleEndian.AppendUint64(b, o.namespace)
	b = binary.LittleEndian.AppendUint64(b, o.twoShot)
	for _, e := range o.events {
		b = append(b, e[:]...)
	}
	return o.trial.Append(o.export.Append(b))
}

// parse decodes what another member sent.
func (o *offer) parse(b []byte) error {
	if len(b) != offerBytes {
		return fmt.Errorf("an offer of %d bytes, expected %d", len(b), offerBytes)
	}
	o.obstacle = device.Obstacle(b[0])
	o.process, o.namespace = binary.LittleEndian.Uint32(b[1:]), binary.LittleEndian.Uint64(b[5:])
	o.twoShot = binary.LittleEndian.Uint64(b[13:])
	b = b[21:]
	for i := range o.events {
		b = b[copy(o.events[i][:], b):]
	}
	if o.obstacle != device.None {
		return nil // the rest is not there
	}
	o.trial = shm.GetHandle(b[memory.ExportSize:])
	var err error
	o.export, err = memory.ParseExport(b[:memory.ExportSize])
	return err
}

// Connect implements device.Connector. Each member reads a few bytes of every other's
// memory and opens its events, so that what the driver refuses is known before anything
// relies on it. With a library of collectives its errors are those of the library, too.
func (d *Device) Connect(rank, size int, meet device.Meet) (device.Peers, device.Obstacle, error) {
	if d.collectives != nil {
		return d.join(rank, size, meet)
	}
	p, obstacle, err := d.connect(rank, size, meet)
	if p == nil {
		return nil, obstacle, err
	}
	return p, obstacle, err
}

// connect is Connect without a library, and returns nil for no peers.
func (d *Device) connect(rank, size int, meet device.Meet) (*peers, device.Obstacle, error) {
	p := &peers{dev: d, pieces: pieces{dev: d}, rank: rank, others: make([]peer, size), held: map[uint64]bool{}, told: map[uint64]bool{},
		imports: d.mem.NewImports(&memory.ImportOptions{Others: true})}
	mine, trial := p.open()
	if trial != nil {
		defer trial.Release()
	}
	all, err := meet(mine.append(nil))
	if err != nil {
		return nil, device.None, errors.Join(err, p.Close(gone))
	}
	obstacle := p.accept(all)
	if all, err = meet([]byte{byte(obstacle)}); err != nil {
		return nil, device.None, errors.Join(err, p.Close(gone))
	}
	for _, b := range all {
		found := device.Refused
		if len(b) == 1 && device.Obstacle(b[0]).Valid() {
			found = device.Obstacle(b[0])
		}
		obstacle = max(obstacle, found)
	}
	if obstacle == device.None {
		p.told[mine.trial.Segment] = true
		return p, obstacle, nil
	}
	var broken error
	err = p.Close(func(b []byte) ([][]byte, error) {
		var all [][]byte
		all, broken = meet(b)
		return all, broken
	})
	if broken == nil {
		err = nil // the obstacle is what is told
	}
	return nil, obstacle, err
}

// errGone says that members can't be met any more.
var errGone = errors.New("cuda: the group is over")

// gone is the Meet of a group that is over.
func gone([]byte) ([][]byte, error) { return nil, errGone }

// open makes what this member has, and returns its offer and the block of its trial, nil
// where there is an obstacle.
func (p *peers) open() (*offer, *shm.Block) {
	o := &offer{process: uint32(os.Getpid()), twoShot: uint64(p.dev.twoShot)}
	if len(p.others) > MaxPeers {
		o.obstacle = device.TooMany
		return o, nil
	}
	b, err := p.make(o)
	if err != nil {
		o.obstacle = device.Refused
	}
	return o, b
}

// make does the work of open.
func (p *peers) make(o *offer) (*shm.Block, error) {
	var err error
	if o.namespace, err = memory.Namespace(); err != nil {
		return nil, err
	}
	if p.stream, err = p.dev.mem.NewStream(); err != nil {
		return nil, err
	}
	api := p.dev.mem.API()
	err = p.dev.mem.Do(func() error {
		var err error
		if p.rescue, err = api.StreamCreate(driver.StreamNonBlocking, 0); err != nil {
			return err
		}
		for i := range p.events {
			if p.events[i], err = api.EventCreate(driver.EventDisableTiming | driver.EventInterprocess); err != nil {
				return err
			}
			if o.events[i], err = api.IPCGetEvent(p.events[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	b, err := p.dev.pool.Alloc(trialBytes)
	if err != nil {
		return nil, err
	}
	o.trial = b.Handle()
	err = errors.Join(p.stream.Write(p.dev.pool.Address(b), trialOf(p.rank)), p.stream.Sync())
	if err == nil {
		o.export, err = p.export(o.trial.Segment)
	}
	return b, err
}

// trialOf returns the bytes of a member's trial.
func trialOf(rank int) []byte { return bytes.Repeat([]byte{byte(rank), ^byte(rank)}, trialBytes/2) }

// export describes a segment to the others, which may open it now. It is held until they
// have closed it. The caller holds a block of it.
func (p *peers) export(id uint64) (memory.Export, error) {
	e, _, err := p.dev.pool.Export(id)
	if err == nil && !p.held[id] {
		p.held[id] = true
		p.dev.pool.Hold(id)
	}
	return e, err
}

// accept takes the offers of all members, and returns what stands in the way.
func (p *peers) accept(all [][]byte) device.Obstacle {
	if len(all) != len(p.others) {
		return device.Refused
	}
	offers := make([]offer, len(all))
	worst := device.None
	for i := range offers {
		o := &offers[i]
		if o.parse(all[i]) != nil || !o.obstacle.Valid() {
			o.obstacle = device.Refused
		}
		worst = max(worst, o.obstacle)
	}
	mine := &offers[p.rank]
	p.twoShot = int(mine.twoShot)
	for i := range offers {
		o := &offers[i]
		p.twoShot = min(p.twoShot, int(min(max(o.twoShot, 1), 1<<30)))
		switch {
		case i == p.rank || worst > device.Namespaces:
		case o.namespace != mine.namespace:
			worst = device.Namespaces
		case slices.ContainsFunc(offers[:i], func(x offer) bool { return x.process == o.process }) || o.process == mine.process:
			worst = device.OneProcess
		}
	}
	for i := range offers {
		if i != p.rank && worst == device.None {
			worst = p.reach(i, &offers[i])
		}
	}
	return worst
}

// reach opens what another member offers, and returns what stands in the way.
func (p *peers) reach(rank int, o *offer) device.Obstacle {
	other := &p.others[rank]
	other.device = o.export.Device
	err := p.imports.Add(uint64(rank), o.export, nil)
	if errors.Is(err, memory.ErrUnreached) {
		return device.Unreached
	}
	if err == nil {
		err = p.tried(rank, o)
	}
	if err == nil {
		other.process, err = memory.WatchProcess(int(o.process), func() { p.ended(rank) })
	}
	if err != nil {
		return device.Refused
	}
	return device.None
}

// tried opens another member's events, and compares its trial.
func (p *peers) tried(rank int, o *offer) error {
	if o.trial.Len != trialBytes {
		return fmt.Errorf("a trial of %d bytes, expected %d", o.trial.Len, trialBytes)
	}
	at, err := p.imports.Resolve(uint64(rank), o.trial)
	if err != nil {
		return err
	}
	got := make([]byte, trialBytes)
	if err := p.stream.Read(got, at); err != nil {
		return err
	}
	if !bytes.Equal(got, trialOf(rank)) {
		return fmt.Errorf("the memory of rank %d holds other bytes than it wrote", rank)
	}
	return p.dev.mem.Do(func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, h := range o.events {
			var err error
			if p.others[rank].events[i], err = p.dev.mem.API().IPCOpenEvent(h); err != nil {
				return err
			}
		}
		return nil
	})
}

// ended records the events of a member whose process has ended, so that streams which
// wait for them go on. A driver that refuses it leaves them to its own devices.
func (p *peers) ended(rank int) {
	_ = p.dev.mem.Do(func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range p.others[rank].events {
			if e == 0 {
				continue
			}
			if err := p.dev.mem.API().EventRecord(e, p.rescue); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close implements device.Peers.
func (p *peers) Close(meet device.Meet) error {
	var err error
	if p.last != nil && p.last.stream != nil {
		err = p.last.stream.Sync()
	}
	p.pieces.close()
	if p.stream != nil {
		err = errors.Join(err, p.stream.Close())
	}
	err = errors.Join(err, p.imports.Close(), p.destroyTheirs())
	_, broken := meet([]byte{0})
	p.releaseKept()
	left := broken == nil
	if broken != nil {
		left = true
		for i, o := range p.others {
			left = left && (i == p.rank || o.process != nil && o.process.Ended())
		}
	}
	for _, o := range p.others {
		if o.process != nil {
			err = errors.Join(err, o.process.Close())
		}
	}
	if left { // else a member may still have them open, and they stay as long as the pool
		for id := range p.held {
			p.dev.pool.Unhold(id)
		}
	}
	return errors.Join(err, p.destroyOwn())
}

// keep keeps memory of a collective until Close, when nothing uses it any more: the
// driver let no stream wait for the collective's end.
func (p *peers) keep(b *shm.Block) {
	if b != nil {
		p.kept = append(p.kept, b)
	}
}

// releaseKept releases what keep was given.
func (p *peers) releaseKept() {
	for _, b := range p.kept {
		b.Release()
	}
	p.kept = nil
}

// destroyTheirs gives up the others' events.
func (p *peers) destroyTheirs() error {
	var all []driver.Event
	p.mu.Lock()
	for i := range p.others {
		all = append(all, p.others[i].events[:]...)
		clear(p.others[i].events[:])
	}
	p.mu.Unlock()
	return p.destroy(all)
}

// destroyOwn gives back what this member made.
func (p *peers) destroyOwn() error {
	err := p.destroy(p.events[:])
	if p.rescue == 0 {
		return err
	}
	return errors.Join(err, p.dev.mem.Do(func() error { return p.dev.mem.API().StreamDestroy(p.rescue) }))
}

// destroy destroys events, but for those that were not made.
func (p *peers) destroy(events []driver.Event) error {
	events = slices.DeleteFunc(slices.Clone(events), func(e driver.Event) bool { return e == 0 })
	if len(events) == 0 {
		return nil
	}
	return p.dev.mem.Do(func() error {
		var err error
		for _, e := range events {
			err = errors.Join(err, p.dev.mem.API().EventDestroy(e))
		}
		return err
	})
}
