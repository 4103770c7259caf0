package route

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
)

const (
	// attemptTimeout bounds one attempt at one address, so that an address that swallows
	// everything does not keep us from the next transport.
	attemptTimeout = 3 * time.Second

	// timeOfRank is how much longer an attempt on this host may take for each rank. Such
	// an address swallows nothing, but where many ranks share few cores, each waits for
	// the greetings of all.
	timeOfRank = 100 * time.Millisecond

	// parallelDials bounds the ranks that are dialed at a time.
	parallelDials = 16

	// maxNonce bounds a nonce in a meeting.
	maxNonce = 28
)

// meeting is the note in the greetings of a conn: which end it is from, which end it is
// for, and which of that end's addresses was dialed. A listener says only the first. A
// private address may be another host's as well, and two attempts at one end may both get
// through.
type meeting struct {
	from, to string // nonces
	via      uint32 // see card.at
}

func (m *meeting) walk(w *encoding.Walk) {
	w.Text("From", &m.from, maxNonce)
	w.Text("To", &m.to, maxNonce)
	w.U32("Via", &m.via)
}

func (m meeting) note() string {
	w := encoding.Appending(nil)
	m.walk(&w)
	return string(w.Appended())
}

func parseMeeting(note string) (m meeting, err error) {
	w := encoding.Parsing("meeting", []byte(note))
	m.walk(&w)
	return m, w.End()
}

// place is where this end listens, and how it dials the others.
type place struct {
	options   ipc.Options // their Hello.Note is the listeners'
	card      *card
	listeners []ipc.Listener
	arrived   map[meeting]ipc.Conn
	ranks     int // that meet
}

// patience bounds an attempt, at an address of this host or of another.
func (p *place) patience(near bool) time.Duration {
	if near {
		return attemptTimeout + time.Duration(p.ranks)*timeOfRank
	}
	return attemptTimeout
}

// listen opens a listener with every transport of order and puts their addresses on the
// card. A transport that this host does not have is left out, unless none that reaches
// other hosts is left.
func listen(order []ipc.Transport, at ipc.Place, o *ipc.Options, mine *card) (*place, error) {
	p := &place{options: *o, card: mine, arrived: map[meeting]ipc.Conn{}}
	p.options.Hello.Note = meeting{from: mine.Nonce}.note()
	var failed []error
	for _, t := range order {
		l, addrs, err := t.ListenAny(at, &p.options)
		if err != nil {
			failed = append(failed, err)
			tell := o.Logger.Warn
			if errors.Is(err, errors.ErrUnsupported) {
				tell = o.Logger.Info
			}
			tell("this transport cannot be used here", "transport", t.Name(), "err", err)
			continue
		}
		p.listeners = append(p.listeners, l)
		mine.Offers = append(mine.Offers, offer{Transport: t.Name(), Near: t.SharesMemory(), Addrs: addrs})
	}
	if len(far(order)) > 0 && !mine.reaches() {
		p.close()
		return nil, errors.Join(failed...)
	}
	return p, nil
}

// close ends the listeners, with the conns that no rank was given.
func (p *place) close() {
	for _, l := range p.listeners {
		_ = l.Close()
	}
	for _, c := range p.arrived {
		c.Close()
	}
}

// accept returns the conn of a meeting, which the other end says that it has: it is on
// its way, as on this host.
func (p *place) accept(ctx context.Context, want meeting) (ipc.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.patience(true))
	defer cancel()
	if err := p.options.Waiter.Wait(ctx, func() bool {
		for _, l := range p.listeners {
			for c, ok := l.TryAccept(); ok; c, ok = l.TryAccept() {
				p.arrive(c)
			}
		}
		return p.arrived[want] != nil
	}); err != nil {
		return nil, err
	}
	c := p.arrived[want]
	delete(p.arrived, want)
	return c, nil
}

// arrive keeps a conn that was meant for this end.
func (p *place) arrive(c ipc.Conn) {
	m, err := parseMeeting(c.Peer().Note)
	if err != nil || m.to != p.card.Nonce || p.arrived[m] != nil {
		p.options.Logger.Warn("a conn for another end", "peer", c.Peer().Name, "pid", c.Peer().PID, "err", err)
		c.Close()
		return
	}
	p.arrived[m] = c
}

// attempt is how dialing a rank ended.
type attempt struct {
	conn ipc.Conn
	via  int
	err  error
}

// dialAll dials the ranks to with dials(rank, to), several at a time and the nearest
// first, so that not all ranks begin with the same one. The result is by rank.
func (p *place) dialAll(ctx context.Context, order []ipc.Transport, cards []card, rank int, dials func(from, to int) bool) []attempt {
	results := make([]attempt, len(cards))
	slots := make(chan struct{}, parallelDials)
	for i := range len(cards) {
		to := (rank - i + len(cards)) % len(cards)
		if to == rank || !dials(rank, to) {
			continue
		}
		slots <- struct{}{}
		go func() {
			results[to] = p.dial(ctx, order, &cards[to])
			<-slots
		}()
	}
	for range cap(slots) {
		slots <- struct{}{} // all are done
	}
	return results
}

// dial tries the transports in order, with all addresses of one at once: an address of no
// process may not be found out quickly. The first that gets through counts.
func (p *place) dial(ctx context.Context, order []ipc.Transport, to *card) attempt {
	var failed []error
	for _, t := range order {
		addrs := to.at(t, p.card.Host)
		if len(addrs) == 0 {
			continue
		}
		all, cancel := context.WithTimeout(ctx, p.patience(t.SharesMemory()))
		results := make(chan attempt, len(addrs))
		for via, addr := range addrs {
			go func() {
				c, err := p.open(all, t, addr, to, via)
				results <- attempt{c, via, err}
			}()
		}
		var through attempt
		for range addrs {
			switch a := <-results; {
			case a.err != nil && through.conn == nil:
				failed = append(failed, a.err)
			case a.err == nil && through.conn == nil:
				through = a
				cancel()
			case a.err == nil:
				a.conn.Close()
			}
		}
		cancel()
		if through.conn != nil {
			return through
		}
		if t.SharesMemory() {
			p.options.Logger.Warn("a rank of this host cannot be reached over shared memory", "rank", to.Label, "err", errors.Join(failed...))
		}
	}
	if failed == nil {
		failed = append(failed, fmt.Errorf("%w: %q", ErrNoRoute, to.addrs()))
	}
	return attempt{err: errors.Join(failed...)}
}

// open dials an address and checks which end answers.
func (p *place) open(ctx context.Context, t ipc.Transport, addr string, to *card, via int) (ipc.Conn, error) {
	o := p.options
	o.Hello.Note = meeting{p.card.Nonce, to.Nonce, uint32(via)}.note()
	c, err := t.Dial(ctx, addr, &o)
	if err != nil {
		return nil, err
	}
	if c.Peer().Note != (meeting{from: to.Nonce}).note() {
		c.Close()
		return nil, fmt.Errorf("route: %q answers at %s, expected %q", c.Peer().Name, addr, to.Label)
	}
	return c, nil
}
