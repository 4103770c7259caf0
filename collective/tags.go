package collective

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/internal/tagged"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

const (
	// lookEvery is how often a goroutine that waits for a tagged message looks for it,
	// and lookSlowly how often after lookFor without any.
	lookEvery  = 100 * time.Microsecond
	lookSlowly = time.Millisecond
	lookFor    = 20 * time.Millisecond

	// awakeFor is how long a wait is awake before it sleeps between looks.
	awakeFor = 200 * time.Microsecond
)

// delivery is a send or a receive with a tag that was begun.
type delivery struct {
	*Work
	transfer tagged.Transfer
	blocking bool // its caller looks, not the mover
	began    time.Time
	late     time.Time // when to fail unless something has moved
	moved    int       // bytes, when that was set
}

// tags are the sends and receives with tags of a group. The goroutine of a blocking one
// looks for messages itself. For those that were started a goroutine looks, the mover,
// which exists while there are any.
type tags struct {
	group   *Group
	lanes   *tagged.Lanes
	threads bool // ranks of this process are among the others

	awake  sync.Mutex // held by the one goroutine that waits awake
	waiter *ring.Waiter

	events atomic.Uint64 // counts what may have changed something

	mu     sync.Mutex
	live   []*delivery // in the order of their beginning
	moving bool
	fault  error // of Deliver, until check takes it

	passed  [flightCalls]passage // transfer n that succeeded is at n % flightCalls
	passing uint64               // of those, the number of the next
	journal journal
}

// newTags returns the tagged messages of a group that has its control.
func newTags(g *Group) (*tags, error) {
	t := &tags{group: g}
	outs := make([]tagged.Out, g.size)
	for rank, tap := range g.control.taps {
		if tap == nil {
			continue
		}
		outs[rank] = tap
		t.threads = t.threads || tap.Peer().PID == os.Getpid()
		tap.tagged = func(kind tagged.Kind, body []byte) {
			t.events.Add(1)
			if err := t.lanes.Deliver(rank, kind, body); err != nil {
				t.mu.Lock()
				t.fault = err
				t.mu.Unlock()
			}
		}
	}
	t.lanes = tagged.New(g.rank, outs)
	mem := make([]byte, ring.BellSize)
	if err := ring.InitBell(mem); err != nil {
		return nil, err
	}
	bell, err := ring.NewBell(mem, ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake, Barrier: shm.Barrier, Heed: shm.HeedBarriers})
	if err != nil {
		return nil, err
	}
	t.waiter = ring.NewWaiter(bell, nil)
	return t, nil
}

// allow refuses a send or receive to or from a rank that the group has not.
func (t *tags) allow(r *protocol.Request) error {
	if r.Call.Kind == protocol.Recv && r.Peer == AnyRank {
		return nil
	}
	return t.group.check(r)
}

// begin begins a transfer, which was allowed.
func (t *tags) begin(ctx context.Context, r *protocol.Request, tag uint32, blocking bool) *delivery {
	d := &delivery{Work: &Work{ctx: ctx, request: *r, done: make(chan struct{})}, blocking: blocking, began: time.Now()}
	d.late = d.began.Add(t.group.options.Timeout)
	d.from = r.Peer
	d.help = func(ctx context.Context) { t.watch(ctx, d) }
	d.transfer = tagged.Transfer{Call: r.Call, Peer: r.Peer, Tag: tag, Buf: r.Dst}
	d.transfer.Ended = func() { t.ended(d, nil) }
	over := ctx.Err() // before it is registered: a nil context panics here
	t.events.Add(1)
	t.mu.Lock()
	t.live = append(t.live, d)
	t.mu.Unlock()
	if over != nil {
		t.fail(d, ipc.ContextError(ctx))
		return d
	}
	move := t.lanes.Send
	if r.Call.Kind == protocol.Recv {
		move = t.lanes.Recv
	}
	ok, err := move(&d.transfer)
	switch {
	case errors.Is(err, ErrBacklog):
		t.ended(d, fmt.Errorf("%v: %w", d, err))
	case err != nil:
		t.fail(d, err)
	case !ok:
		t.abort()
	}
	return d
}

// ended ends a transfer, once.
func (t *tags) ended(d *delivery, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.live, d)
	if i < 0 {
		return
	}
	t.live = slices.Delete(t.live, i, i+1)
	if d.err, d.took = err, time.Since(d.began); err == nil {
		d.from = d.transfer.Peer
		t.passed[t.passing%flightCalls] = d.passage(t.group.born)
		t.passing++
		t.group.bytes.total.Add(uint64(len(d.transfer.Buf)))
	}
	if tape := t.group.options.tape; tape != nil {
		tape.call(recordTagged, d.began, d.request.Call, d.from, d.transfer.Tag, err)
	}
	close(d.done)
}

// fail makes the group fail because of a transfer.
func (t *tags) fail(d *delivery, err error) {
	r := protocol.Request{Call: d.request.Call, Peer: d.request.Peer}
	r.Call.Seq = t.lanes.Number(&d.transfer)
	t.group.findCause(&r, err)
	t.abort()
}

// abort ends all transfers of a group that has failed, and writes them down with those
// before them, see Options.Flight.
func (t *tags) abort() {
	t.lanes.Abort()
	t.mu.Lock()
	live := slices.Clone(t.live)
	t.mu.Unlock()
	for _, d := range live {
		err := t.group.refuse(d.String())
		t.ended(d, t.journal.record(t.group, err, flightTags, func() string { return t.text(live) }))
	}
}

// passage is what is remembered of a transfer: its call, with the number among those
// between its ranks, its lane, and when it began, since the group was made.
type passage struct {
	call        protocol.Call
	peer        int
	tag         uint32
	began, took time.Duration
}

// passage returns what is remembered of d. Lanes must not be changing its transfer.
func (d *delivery) passage(born time.Time) passage {
	return passage{d.transfer.Call, d.transfer.Peer, d.transfer.Tag, d.began.Sub(born), d.took}
}

// line returns a line of a file of last calls.
func (p *passage) line(state string) string {
	return flightLine(p.began, state, fmt.Sprintf("%v %s", p.call, laneOf(p.call.Kind, p.peer, p.tag)))
}

// text returns the transfers that succeeded last, and those that are not over, for the
// file of last calls. It is called after Lanes.Abort.
func (t *tags) text(live []*delivery) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	first := t.passing - min(t.passing, flightCalls)
	fmt.Fprintf(&b, "%d sends and receives with tags had succeeded, the last %d of them in the order of their ends, then %d that are not over\n",
		t.passing, t.passing-first, len(live))
	for i := first; i < t.passing; i++ {
		p := &t.passed[i%flightCalls]
		b.WriteString(p.line(flightTook(p.took)))
	}
	for _, d := range live {
		p := d.passage(t.group.born)
		b.WriteString(p.line(flightNotOver))
	}
	return b.String()
}

// String returns the call and its lane, as in "recv f32 x 10 from 1, tag 7".
func (d *delivery) String() string {
	c := d.request.Call
	return fmt.Sprintf("%v %v x %d %s", c.Kind, c.DType, c.Count, laneOf(c.Kind, d.request.Peer, d.transfer.Tag))
}

// laneOf returns the lane of a send or receive, as in "from 1, tag 7".
func laneOf(kind protocol.Kind, peer int, tag uint32) string {
	side := "to"
	if kind == protocol.Recv {
		side = "from"
	}
	if peer == AnyRank {
		return fmt.Sprintf("%s any rank, tag %d", side, tag)
	}
	return fmt.Sprintf("%s %d, tag %d", side, peer, tag)
}

// look takes in what has come and sends what can be sent.
func (t *tags) look() {
	g := t.group
	for _, tap := range g.control.taps {
		if tap != nil && tap.sift() && g.options.Waiter != nil {
			g.options.Waiter.Wake() // a call waits for it
		}
	}
	t.lanes.Flush()
	t.check()
}

// check makes the group fail if a message that came says so.
func (t *tags) check() {
	t.mu.Lock()
	err := t.fault
	t.fault = nil
	t.mu.Unlock()
	if err != nil {
		g := t.group
		r := protocol.Request{Call: protocol.Call{Kind: protocol.Recv}}
		g.findCause(&r, err)
	}
}

// over reports whether a transfer has ended, and ends it if its time or its context is
// over.
func (t *tags) over(d *delivery) bool {
	select {
	case <-d.done:
		return true
	default:
	}
	if d.ctx.Err() != nil {
		t.fail(d, ipc.ContextError(d.ctx))
		return true
	}
	if now := time.Now(); now.After(d.late) {
		if moved := t.lanes.Moved(&d.transfer); moved != d.moved {
			d.moved, d.late = moved, now.Add(t.group.options.Timeout)
			return false
		}
		t.fail(d, t.lateness(d))
		return true
	}
	return false
}

// lateness returns the error of a transfer for which no rank came. A receive from any
// rank waits for the other one of a group of two. In a larger group it waits for none in
// particular: its own rank is named, unless late finds another.
func (t *tags) lateness(d *delivery) error {
	pe := &protocol.PeerError{Rank: d.request.Peer, Call: d.request.Call}
	pe.Err = fmt.Errorf("%w after %v: rank %d was not in it", ErrTimeout, t.group.options.Timeout, pe.Rank)
	if pe.Rank == AnyRank {
		pe.Rank = t.group.rank
		if t.group.size == 2 {
			pe.Rank = 1 - pe.Rank
		}
		pe.Err = fmt.Errorf("%w after %v: no rank sent with tag %d", ErrTimeout, t.group.options.Timeout, d.transfer.Tag)
	}
	return pe
}

// do makes a transfer, unless it is refused, and waits for its end.
func (t *tags) do(ctx context.Context, r *protocol.Request, tag uint32) (from int, err error) {
	if err := t.allow(r); err != nil {
		return r.Peer, err
	}
	d := t.begin(ctx, r, tag, true)
	ended := false
	defer func() {
		if !ended { // by a panic, such as a context's
			t.fail(d, fmt.Errorf("%w: a panic ended its call", ErrAborted))
		}
	}()
	t.wait(d)
	ended = true
	return d.from, d.err
}

// wait waits for the end of a transfer on the goroutine of its caller.
func (t *tags) wait(d *delivery) {
	t.watch(d.ctx, d)
	t.sleep(func() bool { t.look(); return t.over(d) }, d.done)
}

// watch looks for messages until a transfer has ended, for a short time and awake: a
// message that is on its way comes sooner than a sleeper wakes up. One goroutine of a
// process does that at a time, and none where it keeps another rank's from running.
func (t *tags) watch(ctx context.Context, d *delivery) {
	ended := func() bool {
		t.look()
		select {
		case <-d.done:
			return true
		default:
			return false
		}
	}
	if !ended() && !t.threads && t.awake.TryLock() {
		defer t.awake.Unlock()
		t.waiter.WaitFor(ended, func() bool { return ctx.Err() != nil }, awakeFor)
	}
}

// sleep looks until it is over: at once where something has changed, else now and then.
func (t *tags) sleep(over func() bool, done <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	began, events := time.Now(), t.events.Load()
	for !over() {
		every := lookEvery
		if now := t.events.Load(); now != events {
			began, events = time.Now(), now
			runtime.Gosched()
			continue
		} else if time.Since(began) > lookFor {
			every = lookSlowly
		}
		timer.Reset(every)
		select {
		case <-timer.C:
		case <-done:
		}
	}
}

// start starts a transfer, unless it is refused.
func (t *tags) start(ctx context.Context, r *protocol.Request, tag uint32) *Work {
	if err := t.allow(r); err != nil {
		return failed(err)
	}
	d := t.begin(ctx, r, tag, false)
	t.look()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.moving && len(t.live) > 0 {
		t.moving = true
		go t.move()
	}
	return d.Work
}

// move is the mover: it looks until no started transfer is left.
func (t *tags) move() {
	t.sleep(func() bool {
		t.look()
		t.mu.Lock()
		started := slices.DeleteFunc(slices.Clone(t.live), func(d *delivery) bool { return d.blocking })
		t.moving = len(started) > 0
		t.mu.Unlock()
		for _, d := range started {
			t.over(d)
		}
		return len(started) == 0
	}, nil)
}

// close ends all transfers of a group that is closed, and waits for the mover.
func (t *tags) close() {
	t.abort()
	for t.pending() {
		time.Sleep(lookEvery)
	}
}

// pending reports whether a transfer has not ended, or the mover has not.
func (t *tags) pending() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moving || len(t.live) > 0
}

// waits returns the send or receive that a caller waits in, and whether there is one.
func (t *tags) waits() (pairing, bool) {
	t.mu.Lock()
	i := slices.IndexFunc(t.live, func(d *delivery) bool { return d.blocking || d.waiting.Load() > 0 })
	if i < 0 {
		t.mu.Unlock()
		return 0, false
	}
	d := t.live[i]
	t.mu.Unlock()
	if d.request.Peer == AnyRank {
		return 0, true
	}
	r := d.request
	r.Call.Seq = t.lanes.Number(&d.transfer)
	return pairingOf(&r), true
}
