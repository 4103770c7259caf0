package collective

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
)

const (
	// watchEvery is how often the watcher looks at every conn. A rank that waits for
	// another knows of a death or an abort after that long, and one that has made no
	// calls for a while after idleEvery.
	watchEvery = 20 * time.Millisecond

	// idleEvery is how often it looks while the group makes no calls, as those of idle
	// sessions: hundreds of watchers are then no load. It is well within askFor.
	idleEvery = 200 * time.Millisecond

	// idleAfter is how many looks in a row without a call or a message make a group idle.
	idleAfter = int(time.Second / watchEvery)

	// pollEvery is how often a goroutine that waits for a message of the control looks.
	pollEvery = 500 * time.Microsecond

	// askFor is how long ranks have to say where they are when a call timed out. A living
	// rank answers within idleEvery.
	askFor = 50 * watchEvery

	// askAgain is after how many looks a question is asked once more: two rounds of the
	// watcher.
	askAgain = int(2 * watchEvery / pollEvery)

	// maxValues bounds what other ranks may have stored here that this rank has not asked
	// for.
	maxValues = 64
)

// control is what the ranks of a group tell each other beside their calls, over the same
// conns: that a rank failed or left, where each is, and the small values that conns of
// sub-groups are made from. A goroutine, the watcher, looks at all conns now and then; a
// goroutine that waits for a message looks more often.
type control struct {
	group    *Group
	taps     []*tap // by rank; nil at this rank's own
	received atomic.Uint64

	mu    sync.Mutex // of pump and everything below
	peers []peer
	tick  uint64

	stop chan struct{}
	done chan struct{}
}

// peer is what is known of one rank.
type peer struct {
	dead   error             // of its conn
	bye    bool              // it left in an orderly way,
	byeAt  uint64            // having made so many calls
	answer answer            // the last
	values map[string][]byte // by key
	views  map[int][]int     // of Shrink, by round
}

// answer says where a rank is.
type answer struct {
	Ask    uint64 // the question
	Calls  uint64
	InCall bool
	Pair   pairing // the send or receive that it is in
	// the call of all ranks that it is in, encoded, if it is told
	In []byte `json:",omitempty"`
}

// farewell is the message of a rank that closes its group.
type farewell struct{ Calls uint64 }

// value is a small value for an exchange.
type value struct {
	Key  string
	Body []byte
}

// view is the ranks that a rank takes for alive in a round of Shrink.
type view struct {
	Round int
	Ranks []int
}

// newControl returns the control of a group; start begins to watch.
func newControl(g *Group, members []route.Member) *control {
	c := &control{
		group: g, taps: make([]*tap, len(members)), peers: make([]peer, len(members)),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	for i, m := range members {
		c.peers[i].values, c.peers[i].views = map[string][]byte{}, map[int][]int{}
		if i != g.rank && m.Conn != nil {
			c.taps[i] = &tap{Conn: m.Conn}
		}
	}
	close(c.done)
	return c
}

// start begins to watch.
func (c *control) start() {
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		t := time.NewTimer(watchEvery)
		defer t.Stop()
		var p pace
		for {
			select {
			case <-t.C:
				c.pump()
				c.group.tags.check()
				every := p.next(c.group.lane.calls(), c.received.Load(), c.group.inCall() || c.group.tags.pending())
				t.Reset(untilNext(every, time.Now()))
			case <-c.stop:
				return
			}
		}
	}()
}

// untilNext returns how long it is until time is next a multiple of every. The watchers
// of a process look at the same moments, so that it wakes up once for all of them.
func untilNext(every time.Duration, now time.Time) time.Duration {
	return every - time.Duration(now.UnixNano())%every
}

// pace decides how often the watcher looks.
type pace struct {
	calls, received uint64 // at the last look
	quiet           int    // looks in a row at which nothing had happened
}

// next returns when to look again, after so many calls and messages.
func (p *pace) next(calls, received uint64, inCall bool) time.Duration {
	if inCall || calls != p.calls || received != p.received {
		p.quiet = 0
	} else {
		p.quiet = min(p.quiet+1, idleAfter)
	}
	p.calls, p.received = calls, received
	if p.quiet == idleAfter {
		return idleEvery
	}
	return watchEvery
}

// close ends the watcher and the conns.
func (c *control) close() error {
	close(c.stop)
	<-c.done
	var errs []error
	for _, t := range c.taps {
		if t != nil {
			errs = append(errs, t.shut())
		}
	}
	return errors.Join(errs...)
}

// pump takes in what has come and notices which ranks have died.
func (c *control) pump() {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.group
	for rank, t := range c.taps {
		if t == nil {
			continue
		}
		// before the messages: what was sent before the end must be seen first
		ended := t.Conn.Err()
		for n := 0; n < tapBurst || ended != nil; n++ {
			m, ok := t.take(ended != nil)
			if !ok {
				break
			}
			c.received.Add(1)
			c.handle(rank, m)
		}
		p := &c.peers[rank]
		if ended != nil && p.dead == nil {
			p.dead = ended
			if !p.bye {
				g.fail(&failure{Rank: rank, By: g.rank, err: fmt.Errorf("%w: %w", ErrPeerLost, ended)})
			}
		}
		if p.bye && (g.inCall() && g.lane.calls() > p.byeAt || g.tags.lanes.Needs(rank)) {
			g.fail(leftGroup(rank, g.rank, p.byeAt))
		}
	}
	if rank, at := c.alone(); at && g.tags.lanes.NeedsAny() {
		g.fail(leftGroup(rank, g.rank, c.peers[rank].byeAt))
	}
}

// alone returns a rank and true if all others have left. mu is held.
func (c *control) alone() (rank int, all bool) {
	for r, t := range c.taps {
		if t == nil {
			continue
		}
		if !c.peers[r].bye {
			return 0, false
		}
		rank, all = r, true
	}
	return rank, all
}

// handle takes one message in. It is data from another process: what does not parse is
// dropped.
func (c *control) handle(rank int, m ipc.Message) {
	p := &c.peers[rank]
	switch m.Kind {
	case kindAbort:
		var f failure
		if json.Unmarshal(m.Body, &f) == nil && f.Rank >= 0 && f.Rank < len(c.peers) {
			c.group.fail(&f)
		}
	case kindBye:
		var f farewell
		if json.Unmarshal(m.Body, &f) == nil {
			p.bye, p.byeAt = true, f.Calls
			if d := c.group.left.Load(); d == nil || f.Calls < d.calls {
				c.group.left.Store(&departure{f.Calls, leftGroup(rank, c.group.rank, f.Calls)})
			}
		}
	case kindAsk:
		var a answer
		if json.Unmarshal(m.Body, &a) == nil {
			c.post(rank, kindAnswer, c.answer(a.Ask))
		}
	case kindAnswer:
		var a answer
		if json.Unmarshal(m.Body, &a) == nil {
			p.answer = a
		}
	case kindValue:
		var v value
		if json.Unmarshal(m.Body, &v) == nil && len(p.values) < maxValues {
			p.values[v.Key] = v.Body
		}
	case kindView:
		var v view
		if json.Unmarshal(m.Body, &v) == nil && len(p.views) < maxValues {
			p.views[v.Round] = v.Ranks
		}
	}
}

// answer returns where this rank is.
func (c *control) answer(ask uint64) answer {
	g := c.group
	a := answer{Ask: ask, Calls: g.lane.calls(), InCall: g.inCall(), Pair: pairing(g.pairing.Load())}
	if pair, waits := g.tags.waits(); waits {
		a.InCall = true
		if a.Pair == 0 {
			a.Pair = pair
		}
	}
	if call := g.told.get(); call.Kind != protocol.NoKind {
		a.In = call.Append(nil)
	}
	return a
}

// post sends a small message if there is room for it now, and reports whether it did.
func (c *control) post(rank int, kind uint32, x any) bool {
	if c.taps[rank] == nil {
		return false
	}
	body, err := json.Marshal(x)
	return err == nil && c.taps[rank].post(kind, body)
}

// tell posts to every rank but this one.
func (c *control) tell(kind uint32, x any) {
	for rank := range c.taps {
		c.post(rank, kind, x)
	}
}

// await takes in messages until ready, which is called with mu held, returns true.
func (c *control) await(ctx context.Context, ready func() bool) error {
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for {
		c.pump()
		c.mu.Lock()
		ok := ready()
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ipc.ContextError(ctx)
		}
	}
}

// gather returns what each rank of ranks, this one among them, gave under the same key.
func (c *control) gather(ctx context.Context, ranks []int, key string, mine []byte) ([][]byte, error) {
	me := c.group.rank
	unsent := make(map[int]bool, len(ranks))
	for _, r := range ranks {
		unsent[r] = r != me
	}
	out := make([][]byte, len(ranks))
	var lost *Error
	err := c.await(ctx, func() bool {
		missing := 0
		for i, r := range ranks {
			if unsent[r] && c.post(r, kindValue, value{key, mine}) {
				unsent[r] = false
			}
			if r == me {
				out[i] = mine
				continue
			}
			v, ok := c.peers[r].values[key]
			if ok {
				out[i] = v
			}
			if ok && !unsent[r] {
				continue
			}
			if p := &c.peers[r]; p.dead != nil || p.bye {
				lost = c.lost(r, "exchange of "+key)
				return true
			}
			missing++
		}
		return missing == 0
	})
	if err == nil && lost != nil {
		err = lost
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range ranks {
		delete(c.peers[r].values, key)
	}
	return out, err
}

// lost returns the error of a call that a rank did not live to make, or closed its group
// before. mu is held.
func (c *control) lost(rank int, call string) *Error {
	f := &failure{Rank: rank, By: c.group.rank, err: ErrPeerLost}
	if dead := c.peers[rank].dead; dead != nil {
		f.err = fmt.Errorf("%w: %w", ErrPeerLost, dead)
	}
	f.spell()
	return c.group.blamed(f, call)
}

// deadOf returns the error of a call of ranks of which one has died, nil if none has. mu
// is held.
func (c *control) deadOf(ranks []int, call string) *Error {
	for _, r := range ranks {
		if p := &c.peers[r]; p.dead != nil && !p.bye {
			return c.lost(r, call)
		}
	}
	return nil
}

// while returns a context like ctx that is done when one of ranks dies. stop ends the
// watching.
func (c *control) while(ctx context.Context, ranks []int) (alive context.Context, stop func()) {
	alive, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(watchEvery)
		defer t.Stop()
		for {
			c.mu.Lock()
			dead := c.deadOf(ranks, "")
			c.mu.Unlock()
			if dead != nil {
				cancel()
			}
			select {
			case <-t.C:
			case <-alive.Done():
				return
			}
		}
	}()
	return alive, func() { cancel(); <-done }
}

// whereabouts asks every other rank where it is. The answer is nil for those that did not
// answer in time.
func (c *control) whereabouts(ctx context.Context, patience time.Duration) []*answer {
	c.mu.Lock()
	c.tick++
	ask := c.tick
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	since := make([]int, len(c.taps)) // looks since the question was sent, 0 before
	all := func() bool {
		done := true
		for rank, t := range c.taps {
			if p := &c.peers[rank]; t == nil || p.dead != nil || p.answer.Ask >= ask {
				continue
			}
			done = false
			// Question and answer do not wait for room or for another sender: either may
			// be lost.
			switch {
			case since[rank] > 0:
				since[rank] = (since[rank] + 1) % askAgain
			case c.post(rank, kindAsk, answer{Ask: ask}):
				since[rank] = 1
			}
		}
		return done
	}
	_ = c.await(ctx, all) // ranks that have not answered by then do not
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*answer, len(c.taps))
	for rank := range c.taps {
		// p is a copy: a late answer may come again
		if p := c.peers[rank]; p.dead == nil && p.answer.Ask >= ask {
			out[rank] = &p.answer
		}
	}
	return out
}

// forsakes reports whether a call can't be made because a rank has closed its group. The
// calls of all ranks that it made can, and a Recv, for it may have sent the message
// before. peer is that of a pair.
func (c *control) forsakes(call *protocol.Call, peer int) bool {
	d := c.group.left.Load()
	switch {
	case d == nil || call.Kind == protocol.Recv:
		return false
	case call.Kind == protocol.Send:
		return c.gone(peer)
	}
	return call.Seq > d.calls
}

// gone reports whether a rank has said goodbye.
func (c *control) gone(rank int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peers[rank].bye
}

// leave says goodbye and waits until all the others have too, or have died, or
// Options.Linger is over.
func (c *control) leave() {
	g := c.group
	c.tell(kindBye, farewell{g.lane.calls()})
	if g.failure.Load() != nil || g.options.Linger < 0 || g.inCall() {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), g.options.Linger, net.ErrClosed)
	defer cancel()
	_ = c.await(ctx, func() bool {
		for rank, t := range c.taps {
			if p := c.peers[rank]; t != nil && !p.bye && p.dead == nil {
				return g.failure.Load() != nil
			}
		}
		return true
	})
}
