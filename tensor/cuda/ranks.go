package cuda

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/device"
)

// ranks are the members of a group whose collectives a library runs, see
// Options.Collectives. Of peers it has the streams and the other processes: no member
// opens another's memory.
//
// # Who waits for whom
//
// Work of the library waits on the GPU until all ranks have put theirs into a stream.
//
//  1. Members meet before they give work to the library, and none does unless all can.
//     They meet again after that. So a stream holds work of the library only where all
//     members have given theirs, or one of them has failed at it.
//  2. A member that fails between the two meetings says so at the second. All members
//     abort the communicator then, which ends work that waits. The group has no
//     collectives any more.
//  3. A process that ends is watched: the others abort as well.
//  4. A space gives work of all its groups to the library in one order, in which the
//     streams do it, too: that of the plan, which is the same on all members. So of the
//     work that waits the earliest in the plan has all ranks, and ends.
//
// Work of several sessions on the same GPUs may wait side by side. It has few blocks, so
// that a GPU has room for both.
type ranks struct {
	*peers
	library comm.Library

	mu     sync.Mutex // a process that ends aborts, beside the group's user
	comm   comm.Comm  // nil before Join and after its end
	broken error      // why there is none
}

// lookAgain is how often a member asks whether the library is done on the host.
const lookAgain = 50 * time.Microsecond

// settleWithin bounds how long a member waits for the library on the host. It is more
// than the library takes to connect GPUs, and less than members wait for each other.
const settleWithin = time.Minute

// leaveWithin bounds how long a member waits for the library to end a communicator.
const leaveWithin = 5 * time.Second

// errOthers is returned where another member could not do its part.
var errOthers = errors.New("cuda: another member of the group could not use the library of collectives")

// helloBytes is the size of what a member says of itself: whether it is fine, its process
// and that one's namespace, and an id, of which rank 0's is used.
const helloBytes = 1 + 4 + 8 + comm.IDSize

// join makes the communicator of a group. Unlike for peers a failure is no obstacle: the
// library was asked for.
func (d *Device) join(rank, size int, meet device.Meet) (device.Peers, device.Obstacle, error) {
	r := &ranks{peers: &peers{dev: d, pieces: pieces{dev: d}, rank: rank, others: make([]peer, size)}, library: d.collectives}
	hello, err := r.hello()
	all, broken := meet(hello)
	if broken != nil {
		return nil, device.None, errors.Join(broken, r.end())
	}
	if err == nil {
		err = r.connect(all)
	}
	others, broken := r.agreed(meet, err)
	if broken == nil && others == nil {
		// All have begun: the library waits for none of them.
		err = r.settle()
		others, broken = r.agreed(meet, err)
	}
	if broken == nil && others == nil {
		return r, device.None, nil
	}
	if err == nil && broken == nil {
		err = others
	}
	r.abort(err)
	if err != nil {
		err = fmt.Errorf("collectives by %s: %w", r.library.Info().Name, err)
	}
	return nil, device.None, errors.Join(broken, err, r.end())
}

// hello makes what this member has, and returns what it says of itself.
func (r *ranks) hello() ([]byte, error) {
	b := make([]byte, helloBytes)
	namespace, err := memory.Namespace()
	if err == nil {
		r.stream, err = r.dev.mem.NewStream()
	}
	if err == nil && r.rank == 0 {
		var id comm.ID
		id, err = r.library.NewID()
		copy(b[13:], id[:])
	}
	binary.LittleEndian.PutUint32(b[1:], uint32(os.Getpid()))
	binary.LittleEndian.PutUint64(b[5:], namespace)
	if b[0] = fine; err != nil {
		b[0] = lost
	}
	return b, err
}

// connect begins to make the communicator with the others, whose hellos it was given.
func (r *ranks) connect(all [][]byte) error {
	if len(all) != len(r.others) {
		return fmt.Errorf("cuda: %d members answered, expected %d", len(all), len(r.others))
	}
	for k, b := range all {
		switch {
		case len(b) != helloBytes:
			return fmt.Errorf("cuda: rank %d said %d bytes, expected %d", k, len(b), helloBytes)
		case b[0] != fine:
			return errOthers
		case [8]byte(b[5:]) != [8]byte(all[r.rank][5:]):
			return fmt.Errorf("cuda: rank %d is in another PID namespace, where its end can't be seen", k)
		}
		pid := int(binary.LittleEndian.Uint32(b[1:]))
		if pid == os.Getpid() {
			continue
		}
		var err error
		r.others[k].process, err = memory.WatchProcess(pid, func() { r.abort(fmt.Errorf("cuda: the process of rank %d has ended", k)) })
		if err != nil {
			return err
		}
	}
	return r.begin(comm.ID(all[0][13:]))
}

// begin begins to make the communicator.
func (r *ranks) begin(id comm.ID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return r.broken
	}
	return r.dev.mem.Do(func() (err error) {
		r.comm, err = r.library.Join(id, r.rank, len(r.others))
		return err
	})
}

// with calls f with the communicator, unless that has ended.
func (r *ranks) with(f func(c comm.Comm) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.comm == nil {
		return r.broken
	}
	return r.dev.mem.Do(func() error { return f(r.comm) })
}

// settle waits until the library is done on the host with what was begun, for which it
// may need the other members: one that failed at its part keeps the library waiting, and
// this one, until it gives up.
func (r *ranks) settle() error {
	for begun := time.Now(); ; time.Sleep(lookAgain) {
		err := r.with(comm.Comm.Ready)
		if !errors.Is(err, comm.ErrBusy) {
			return err
		}
		if time.Since(begun) > settleWithin {
			return fmt.Errorf("cuda: %s was not done on the host within %v", r.library.Info().Name, settleWithin)
		}
	}
}

// abort ends the communicator and the work that waits in it. The first reason is kept.
func (r *ranks) abort(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = why
	}
	if r.comm == nil {
		return
	}
	// A lost device says so at every other call.
	_ = r.dev.mem.Do(r.comm.Abort)
	r.comm = nil
}

// reasonBytes is how much of its error a member tells the others.
const reasonBytes = 200

// agreed meets the others, and returns what the first that failed says, nil if all are
// fine.
func (r *ranks) agreed(meet device.Meet, err error) (others, broken error) {
	mine := make([]byte, 1+reasonBytes)
	if mine[0] = fine; err != nil {
		mine[0] = lost
		copy(mine[1:], err.Error())
	}
	all, broken := meet(mine)
	if broken != nil {
		return nil, broken
	}
	for k, b := range all {
		if len(b) != len(mine) {
			return fmt.Errorf("cuda: rank %d said %d bytes, expected %d", k, len(b), len(mine)), nil
		}
		if b[0] != fine {
			return fmt.Errorf("%w: rank %d says %q", errOthers, k, bytes.TrimRight(b[1:], "\x00")), nil
		}
	}
	return nil, nil
}

// Start implements device.Peers.
func (r *ranks) Start(sp device.Space, xs []device.Collective, beside bool, meet device.Meet) ([]device.Pending, error) {
	s, ok := sp.(*space)
	if !ok {
		return nil, fmt.Errorf("cuda: a space of %T, expected one of this package", sp)
	}
	b, failed := newBatch(r.peers, s, xs)
	var err error
	if !failed {
		err = r.prepare(b, beside)
	}
	none := err
	if failed {
		none = errOthers // of this member, as the others see it
	}
	ok, broken := b.agree(meet, none)
	if broken == nil && ok {
		err = r.launch(b)
		var all bool
		if all, broken = b.agree(meet, err); !all {
			r.abort(fmt.Errorf("cuda: a collective by %s could not be started: %w", r.library.Info().Name, cmp.Or(err, errOthers)))
			ok = false
		}
	}
	if broken != nil {
		r.abort(broken)
		b.drop()
		return nil, broken
	}
	if err == nil && !ok && !failed {
		err = b.zero()
	}
	return b.pending(failed, err)
}

// prepare finds the values, makes room for the results, and checks that they can be
// computed.
func (r *ranks) prepare(b *batch, beside bool) error {
	if err := r.with(func(comm.Comm) error { return nil }); err != nil {
		return err
	}
	for _, c := range b.parts {
		if err := c.prepare(); err != nil {
			return err
		}
	}
	if b.on, r.last = b.s.stream, b.s; beside {
		b.on = r.stream
	}
	return nil
}

// launch gives the calls of all collectives to the library, in the order of the space.
func (r *ranks) launch(b *batch) error {
	var calls []comm.Call
	for _, c := range b.parts {
		more, err := c.calls()
		if err != nil {
			return err
		}
		calls = append(calls, more...)
	}
	for _, before := range []*memory.Stream{b.s.stream, b.s.library} {
		if before == nil || before == b.on {
			continue
		}
		if err := b.on.After(before); err != nil {
			return err
		}
	}
	b.s.library = b.on
	if len(calls) > 0 {
		if err := r.with(func(c comm.Comm) error { return c.Do(calls, b.on.Driver()) }); err != nil {
			return err
		}
		if err := r.settle(); err != nil {
			return err
		}
	}
	return b.give() // what follows the library's work
}

// Close implements device.Peers.
func (r *ranks) Close(meet device.Meet) error {
	if _, broken := meet([]byte{0}); broken != nil {
		r.abort(errGone)
	}
	var err error
	if r.last != nil && r.last.stream != nil {
		err = r.last.stream.Sync()
	}
	if r.last != nil && r.last.library == r.stream {
		r.last.library = nil
	}
	return errors.Join(err, r.end())
}

// end gives back what this member made. Nothing is on its way, but where the
// communicator was aborted.
func (r *ranks) end() error {
	r.pieces.close()
	var err error
	if r.stream != nil {
		err = r.stream.Close()
	}
	err = errors.Join(err, r.leave())
	r.releaseKept()
	for _, o := range r.others {
		if o.process != nil {
			err = errors.Join(err, o.process.Close())
		}
	}
	return err
}

// leave ends the communicator, if there is one.
func (r *ranks) leave() error {
	r.mu.Lock()
	none := r.comm == nil
	r.mu.Unlock()
	if none {
		return nil
	}
	err := r.with(comm.Comm.Finish)
	for begun := time.Now(); err == nil; time.Sleep(lookAgain) {
		if err = r.with(comm.Comm.Ready); !errors.Is(err, comm.ErrBusy) {
			break
		}
		if err = nil; time.Since(begun) > leaveWithin {
			err = fmt.Errorf("cuda: %s did not end a communicator within %v", r.library.Info().Name, leaveWithin)
		}
	}
	if err != nil {
		r.abort(err)
		return err
	}
	return r.with(func(c comm.Comm) error { r.comm, r.broken = nil, errGone; return c.Close() })
}
