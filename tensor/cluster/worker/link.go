package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

const (
	// maxPulls bounds the results that a client has asked for and that are not sent yet. What it asks for beyond waits in its
	// conn: that is where it is held back.
	maxPulls = 64

	// maxPush is the largest upload that is taken off a conn, be there memory for it or not; one that says more is a mistake.
	maxPush = 64 << 30

	// drain is the memory that uploads go to for which there is none.
	drain = 1 << 20
)

// link is a conn to a client that shares no memory with us. Tensors go over it, and nothing else: what they are for goes through the
// dispatcher, which sees none of their bytes.
//
// A goroutine owns the conn and serves it, whatever the worker does meanwhile: it takes uploads into the arena and sends results from
// it. The client announces an upload's Run only when it is told that the upload is here, so that no Run waits for bytes,
// and no session for another's.
type link struct {
	w       *Worker
	session uint64
	rank    uint32
	log     *slog.Logger

	cancel context.CancelCauseFunc
	stood  chan struct{} // closed when the conn stands, or err says why not
	over   chan struct{} // closed when the goroutine is gone
	err    error         // before stood is closed

	said  [wire.MaxLinkRounds]chan []byte // by round, what the client says through the dispatcher
	heard int                             // rounds; the worker's goroutine's

	mu       sync.Mutex
	arrivals map[wire.Handle]*arrival // uploads that came as a whole, by the client's name for them
	arrivedB uint64                   // bytes of these, and of the one that is coming

	// The rest is the link's goroutine's.
	waiter   ipc.Waiter
	conn     ipc.Conn
	bulk     ipc.Bulk      // of conn
	incoming *arrival      // being received; nil for none
	pushes   uint64        // received so far
	acks     []wire.Handle // of pushes that came, not sent yet
	outgoing []outgoing    // asked for; the first is being sent if sending is set
	sending  bool
	pulls    uint64 // sent so far
	drained  []byte // where uploads go for which there is no memory
}

func newLink(w *Worker, open *wire.OpenSession) *link {
	l := &link{w: w, session: open.Session, rank: open.Rank, log: w.log.With("session", open.Session, "client", open.Name),
		waiter: ipc.NewWaiter(), stood: make(chan struct{}), over: make(chan struct{}), arrivals: map[wire.Handle]*arrival{}}
	for i := range l.said {
		l.said[i] = make(chan []byte, 1)
	}
	return l
}

// start connects in a goroutine of its own, which calls opened when the conn stands, and then serves it.
func (l *link) start(token []byte, opened func() error) {
	parent, over := context.WithCancelCause(context.Background())
	l.cancel = over
	go func() {
		defer close(l.over)
		defer over(nil)
		err := l.connect(parent, token)
		l.err = err
		close(l.stood)
		if err == nil && opened != nil {
			err = opened()
		}
		if err == nil {
			err = l.serve(parent)
		} else if !errors.Is(context.Cause(parent), errSessionOver) {
			l.log.Warn("no conn of its own with a session's client", "err", err)
			m := wire.Fail{Session: l.session, Code: wire.CodeInternal, Text: wire.CutText(fmt.Sprintf("worker %q: %v", l.w.o.Name, err))}
			_ = l.w.say(wire.KindFail, m.Size(), func(dst []byte) []byte { return wire.AppendFail(dst, &m) })
		}
		if l.conn != nil {
			_ = l.conn.Close()
		}
		for _, o := range l.outgoing {
			o.block.Release()
		}
		l.log.Debug("the session's conn for tensors ended", "err", err)
	}()
}

// connect finds a conn with the client: it dials, and if it can't reach us we do.
func (l *link) connect(parent context.Context, token []byte) error {
	ctx, cancel := context.WithTimeout(parent, joinTimeout)
	defer cancel()
	c, err := route.Pair(ctx, route.PairOptions{Name: "worker " + l.w.o.Name, Role: ipc.RoleWorker, Secret: token, Logger: l.log,
		ForceTCP: true, Waiter: l.waiter, Exchange: l.exchange(token)})
	if err != nil {
		return err
	}
	l.conn, l.bulk = c, c.Features().Bulk
	return nil
}

// exchange swaps words with the client through the dispatcher.
func (l *link) exchange(token []byte) func(context.Context, []byte) ([]byte, error) {
	m := wire.Link{Session: l.session, Rank: l.rank, Token: token}
	return func(ctx context.Context, mine []byte) ([]byte, error) {
		m.Data = mine
		if len(mine) > wire.MaxLink || m.Round >= wire.MaxLinkRounds {
			return nil, fmt.Errorf("%d bytes to say in round %d", len(mine), m.Round)
		}
		if err := l.w.say(wire.KindLink, m.Size(), func(dst []byte) []byte { return wire.AppendLink(dst, &m) }); err != nil {
			return nil, err
		}
		m.Round, m.Token = m.Round+1, nil
		select {
		case data := <-l.said[m.Round-1]:
			return data, nil
		case <-ctx.Done():
			return nil, ipc.ContextError(ctx)
		}
	}
}

// hear takes in what the client says through the dispatcher.
func (l *link) hear(src []byte) error {
	var m wire.Link
	if err := wire.ParseLink(src, &m); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if int(m.Round) != l.heard || len(m.Token) > 0 || m.Rank != l.rank {
		return fmt.Errorf("%w: Link of round %d for rank %d, expected %d for rank %d", errProtocol, m.Round, m.Rank, l.heard, l.rank)
	}
	l.said[l.heard] <- append([]byte{}, m.Data...)
	l.heard++
	return nil
}

// close ends the goroutine and gives back what came over the link. Nothing in it blocks but on this.
func (l *link) close() {
	l.cancel(errSessionOver)
	<-l.over
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.arrivals {
		l.dropArrival(h)
	}
	if l.incoming != nil {
		l.incoming.release()
	}
}

// serve moves tensors until the conn or the session ends.
func (l *link) serve(ctx context.Context) error {
	var failed error
	if err := l.waiter.Wait(ctx, func() bool {
		failed = l.step()
		return failed != nil
	}); err != nil {
		return err
	}
	return failed
}

// wait returns when the conn stands, or why it does not.
func (l *link) wait(ctx context.Context) error {
	select {
	case <-l.stood:
		return l.err
	case <-ctx.Done():
		return ipc.ContextError(ctx)
	}
}
