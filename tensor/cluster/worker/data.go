package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/internal/transfer"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

const (
	// maxPulls bounds the results that a client has asked for and that are not sent yet.
	// More requests wait in the connection.
	maxPulls = 64

	// maxPush is the size of the largest upload that is read from a connection, whether
	// or not there is memory for it. A client that sends a larger one breaks the
	// protocol.
	maxPush = 64 << 30

	// drain is the size of the buffer into which an upload is read, and dropped, when the
	// arena has no memory for it.
	drain = 1 << 20
)

// dataConn is a connection to a client that shares no memory with the worker. It carries
// the bytes of tensors and nothing else; all messages go through the dispatcher.
//
// A goroutine owns the connection and serves it, whatever the worker does meanwhile: it
// receives uploads into the arena and sends results from it. The client sends an upload's
// Run only when the worker has acknowledged the upload. So no Run waits for bytes, and no
// session for another's.
type dataConn struct {
	worker  string // name
	session uint64
	rank    uint32
	out     *outbox
	arena   *shm.Arena
	log     *slog.Logger
	tls     *ipc.TLS

	cancel context.CancelCauseFunc
	stands chan struct{} // closed when the connection stands, or err says why it does not
	ended  chan struct{} // closed when the goroutine has ended
	err    error         // written before stands is closed

	said  [wire.MaxLinkRounds]chan []byte // by round: data of the client's Link messages
	heard int                             // rounds; belongs to the worker's goroutine

	mu       sync.Mutex
	arrivals map[wire.Handle]*arrival // whole uploads, by the client's handle
	arrivedB uint64                   // bytes of these, and of the one that is arriving

	// The rest belongs to the connection's goroutine.
	waiter   ipc.Waiter
	conn     *transfer.Conn // its Send has the results that the client has asked for
	incoming *arrival       // the block of Recv; nil for none
	drained  []byte         // of size drain; nil until it is needed
}

func newDataConn(e *env, open *wire.OpenSession) *dataConn {
	d := &dataConn{worker: e.name, session: open.Session, rank: open.Rank, out: &e.out, arena: e.dev.Arena(),
		log: e.log.With("session", open.Session, "client", open.Name), tls: e.tls,
		waiter: ipc.NewWaiter(), stands: make(chan struct{}), ended: make(chan struct{}), arrivals: map[wire.Handle]*arrival{}}
	for i := range d.said {
		d.said[i] = make(chan []byte, 1)
	}
	return d
}

// start connects in a goroutine, which calls opened when the connection stands and then
// serves it. opened may be nil.
func (d *dataConn) start(token []byte, opened func() error) {
	parent, over := context.WithCancelCause(context.Background())
	d.cancel = over
	go func() {
		defer close(d.ended)
		defer over(nil)
		err := d.connect(parent, token)
		d.err = err
		close(d.stands)
		if err == nil && opened != nil {
			err = opened()
		}
		if err == nil {
			err = d.serve(parent)
		} else if !errors.Is(context.Cause(parent), errSessionOver) {
			d.log.Warn("no data connection with a session's client", "err", err)
			m := wire.Fail{Session: d.session, Code: wire.CodeInternal, Text: wire.CutText(fmt.Sprintf("worker %q: %v", d.worker, err))}
			_ = d.out.post(wire.KindFail, &m)
		}
		if d.conn != nil {
			_ = d.conn.Close()
			d.conn.Drop()
		}
		d.log.Debug("the session's data connection ended", "err", err)
	}()
}

// connect connects to the client: by dialing it or, if that fails, by being dialed.
func (d *dataConn) connect(parent context.Context, token []byte) error {
	ctx, cancel := context.WithTimeout(parent, joinTimeout)
	defer cancel()
	c, err := route.Pair(ctx, route.PairOptions{Name: "worker " + d.worker, Role: ipc.RoleWorker, Secret: token, TLS: d.tls, Logger: d.log,
		Order: route.Apart(), Waiter: d.waiter, Exchange: d.exchange(token)})
	if err != nil {
		return err
	}
	d.conn = transfer.New(c, d.session)
	return nil
}

// exchange returns a function that swaps addresses with the client through the
// dispatcher.
func (d *dataConn) exchange(token []byte) func(context.Context, []byte) ([]byte, error) {
	m := wire.Link{Session: d.session, Rank: d.rank, Token: token}
	return func(ctx context.Context, mine []byte) ([]byte, error) {
		m.Data = mine
		if len(mine) > wire.MaxLink || m.Round >= wire.MaxLinkRounds {
			return nil, fmt.Errorf("%d bytes for the client in round %d, at most %d in %d rounds",
				len(mine), m.Round, wire.MaxLink, wire.MaxLinkRounds)
		}
		if err := d.out.post(wire.KindLink, &m); err != nil {
			return nil, err
		}
		m.Round, m.Token = m.Round+1, nil
		select {
		case data := <-d.said[m.Round-1]:
			return data, nil
		case <-ctx.Done():
			return nil, ipc.ContextError(ctx)
		}
	}
}

// hear passes the data of a Link message to exchange.
func (d *dataConn) hear(src []byte) error {
	var m wire.Link
	if err := wire.Parse(src, &m); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if int(m.Round) != d.heard || len(m.Token) > 0 || m.Rank != d.rank {
		return fmt.Errorf("%w: Link of round %d for rank %d, expected %d for rank %d", errProtocol, m.Round, m.Rank, d.heard, d.rank)
	}
	d.said[d.heard] <- append([]byte{}, m.Data...)
	d.heard++
	return nil
}

// mapped returns false: bytes go over the connection.
func (d *dataConn) mapped() bool { return false }

// wait returns when the connection stands, or the reason why it does not.
func (d *dataConn) wait(ctx context.Context) error {
	select {
	case <-d.stands:
		return d.err
	case <-ctx.Done():
		return ipc.ContextError(ctx)
	}
}

// close ends the goroutine and frees the uploads that arrived. It waits for the
// goroutine, which blocks on nothing that outlives the cancelled context.
func (d *dataConn) close() {
	d.cancel(errSessionOver)
	<-d.ended
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range d.arrivals {
		d.dropArrival(h)
	}
	if d.incoming != nil {
		d.incoming.release()
	}
}

// serve moves tensors until the connection or the session ends.
func (d *dataConn) serve(ctx context.Context) error {
	var failed error
	if err := d.waiter.Wait(ctx, func() bool {
		failed = d.step()
		return failed != nil
	}); err != nil {
		return err
	}
	return failed
}
