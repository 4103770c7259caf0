package cuda

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/device"
)

// link is a device.Link: peers of which one sends values to the other. The receiver
// copies each from the sender's memory.
//
// # Streams
//
// A transfer runs in the stream of each member's link, beside its programs. mark is an
// event of the transfer's own, sent and read are events that the other member has opened
// (eventReady and eventDone):
//
//	        sender                        receiver
//	Start   space's stream: record mark   space's stream: record mark
//	Run     wait for mark, record sent    wait for mark
//	        ----------------------- meet -----------------------
//	                                      wait for sent, copy, record read
//	        ----------------------- meet -----------------------
//	        wait for read, record mark    record mark
//	Finish  space's stream: wait for mark space's stream: wait for mark
//
// Where the driver does not record the last mark, Finish waits for all that the link's
// stream has. Where it lets no stream wait, the memory stays until Close.
//
// Several transfers may be started before the first one's Run, so each has a mark of its
// own. Runs are one after another, and the meetings keep sent and read from being
// recorded again before the other member has put its wait for them into its stream.
//
// # No circle
//
// A stream is only told to wait for an event that the host has recorded before, in this
// process or, before a meeting, in the other. So each wait is for work that was given to
// a device earlier, and no streams wait for each other in a circle. Start and Finish meet
// no one, so that a worker's goroutine never waits in them for another worker.
type link struct {
	*peers
	marks []driver.Event // that no transfer has
}

// transfer is a send or receive under way.
type transfer struct {
	*collecting
	link   *link
	failed bool // this member takes no part
}

// Link implements device.Linker. A library of collectives has no part in transfers.
func (d *Device) Link(rank int, meet device.Meet) (device.Link, device.Obstacle, error) {
	p, obstacle, err := d.connect(rank, 2, meet)
	if p == nil {
		return nil, obstacle, err
	}
	return &link{peers: p}, obstacle, err
}

// Start implements device.Link.
func (l *link) Start(sp device.Space, x *device.Collective) (device.Transfer, error) {
	s, ok := sp.(*space)
	if !ok {
		s = new(space) // without values
	}
	b, failed := newBatch(l.peers, s, []device.Collective{*x})
	t := &transfer{b.parts[0], l, failed || !ok}
	switch {
	case !ok:
		return t, fmt.Errorf("cuda: a space of %T, expected one of this package", sp)
	case failed:
		return t, nil
	}
	err := t.prepare()
	if err == nil {
		err = t.begin()
	}
	t.failed = err != nil
	return t, err
}

// begin marks where the space's stream has come: the value is there, and the result's
// memory has no other use.
func (t *transfer) begin() error {
	e, err := t.link.take()
	if err != nil {
		return err
	}
	t.end = e
	if err := t.mark(e, t.s.stream); err != nil {
		return err
	}
	t.on, t.last = t.stream, t.s
	return nil
}

// take returns an event that no transfer has.
func (l *link) take() (e driver.Event, err error) {
	if n := len(l.marks); n > 0 {
		e, l.marks = l.marks[n-1], l.marks[:n-1]
		return e, nil
	}
	err = l.dev.mem.Do(func() (err error) {
		e, err = l.dev.mem.API().EventCreate(driver.EventDisableTiming)
		return err
	})
	return e, err
}

// Run implements device.Transfer.
func (t *transfer) Run(meet device.Meet) error {
	var err error
	if !t.failed {
		err = t.ready()
	}
	ok, broken := t.tell(t.failed, meet, &err)
	if broken == nil && ok {
		if err == nil {
			err = t.move()
		}
		if ok, broken = t.agree(meet, err); broken == nil && ok {
			t.heard()
		}
		if broken == nil && err == nil && t.x.Kind == protocol.Send {
			if err = t.await(eventDone); err != nil {
				t.read = true
			}
		}
	}
	if t.failed {
		return broken
	}
	if broken == nil && !ok && err == nil {
		err = t.fill()
	}
	e := t.mark(t.end, t.on)
	if t.ended = e == nil; err == nil {
		err = e
	}
	if broken != nil {
		return broken
	}
	return err
}

// ready puts the link's stream behind the start of the transfer.
func (t *transfer) ready() error {
	err := t.follow(t.on, t.end)
	if err == nil && t.x.Kind == protocol.Send {
		err = t.record(eventReady, t.on)
	}
	return err
}

// move has the receiver copy the value.
func (t *transfer) move() error {
	if t.x.Kind == protocol.Send {
		return nil
	}
	if err := t.await(eventReady); err != nil {
		return err
	}
	t.copy(0, t.values[t.sender()].at, t.out)
	if err := t.give(); err != nil {
		return err
	}
	return t.record(eventDone, t.on)
}

// sender returns the rank that sends.
func (t *transfer) sender() int {
	if t.x.Kind == protocol.Send {
		return t.rank
	}
	return 1 - t.rank
}

// await has the link's stream wait for an event of the other member.
func (t *transfer) await(event int) error {
	other := &t.others[1-t.rank]
	if other.process.Ended() {
		return nil
	}
	return t.follow(t.on, other.events[event])
}

// Finish implements device.Pending.
func (t *transfer) Finish(id uint64) error {
	defer t.free()
	return t.collecting.Finish(id)
}

// Drop implements device.Pending.
func (t *transfer) Drop() {
	defer t.free()
	t.collecting.Drop()
}

// free gives the transfer's event back.
func (t *transfer) free() {
	if t.end != 0 {
		t.link.marks, t.end = append(t.link.marks, t.end), 0
	}
}

// Close implements device.Link.
func (l *link) Close(meet device.Meet) error {
	err := l.peers.Close(meet)
	return errors.Join(err, l.destroy(l.marks))
}
