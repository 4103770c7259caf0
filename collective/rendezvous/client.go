package rendezvous

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
)

// A rank that waits for rank 0 tries to reach it again and again. The pauses between two
// tries grow from firstPause to maxPause, and dialTime bounds one try.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = 500 * time.Millisecond
	dialTime   = 5 * time.Second
)

// client asks the server for all views of a store. On rank 0 the server is in this
// process and conn is nil.
type client struct {
	world   World
	order   []ipc.Transport
	key     []byte
	timeout time.Duration
	linger  time.Duration

	server *server
	self   *member

	conn    ipc.Conn
	sending sync.Mutex
	reader  sync.WaitGroup

	mu      sync.Mutex
	lastID  uint32
	waiting map[uint32]chan message
	err     error // why the connection ended

	closing sync.Once
}

// options returns the options of a conn or of the listener. The transport's secret is
// never empty: without a secret of the world any process that reaches the port may join.
func (c *client) options() *ipc.Options {
	return &ipc.Options{
		Hello:     ipc.Peer{Role: ipc.RoleRank, Name: fmt.Sprintf("rank %d of %d", c.world.Rank, c.world.Size)},
		RingBytes: ringBytes, Secret: derive(c.world.Secret, labelConn, nil), TLS: c.world.TLS,
	}
}

// serve starts the server and joins it.
func (c *client) serve(ctx context.Context, o *Options) error {
	s := newServer(c.world, o.Logger)
	if o.patience > 0 {
		s.board.patience = o.patience
	}
	if c.world.Size > 1 {
		if err := c.listen(ctx, s, o); err != nil {
			return err
		}
	}
	c.server, c.self, c.key = s, s.host(c.deliver), derive(c.world.Secret, labelKey, s.run[:])
	return nil
}

// listen opens rank 0's listener. If the address is in use, it finds out whether another
// process is rank 0 of the same job and listens there.
func (c *client) listen(ctx context.Context, s *server, o *Options) error {
	waiter, err := local.NewWaiter()
	if err != nil {
		return fmt.Errorf("rendezvous: %w", err)
	}
	opt := c.options()
	opt.Waiter, opt.Logger, opt.Refused = waiter, o.Logger, s.turnedAway
	lis, err := route.Listen(c.order, listenAddr(c.world), opt)
	if errors.Is(err, ipc.ErrAddrInUse) {
		if twin := c.open(ctx); errors.Is(twin, ErrDuplicateRank) {
			return twin
		}
	}
	if err != nil {
		return fmt.Errorf("rendezvous: rank 0 can't listen for the others: %w", err)
	}
	s.start(lis, waiter)
	return nil
}

// dial tries to reach rank 0 until ctx ends.
func (c *client) dial(ctx context.Context) error {
	begin := time.Now()
	pause := firstPause
	for {
		err := c.open(ctx)
		switch {
		case err == nil:
			c.reader.Go(c.read)
			return nil
		case permanent(err):
			return fmt.Errorf("rendezvous: rank %d of %d at %s: %w", c.world.Rank, c.world.Size, c.world.Addr(), err)
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return fmt.Errorf("%w: rank %d tried %s for %v: %w (%w)", ErrUnreachable, c.world.Rank, c.world.Addr(),
				time.Since(begin).Round(time.Millisecond), err, ctx.Err())
		case <-wait.C:
		}
		pause = min(2*pause, maxPause)
	}
}

// open dials rank 0 once and joins.
func (c *client) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := route.Dial(ctx, c.order, []string{dialAddr(c.world)}, c.options())
	if err != nil {
		return ours(err)
	}
	run, err := join(ctx, conn, c.world)
	if err != nil {
		conn.Close()
		return err
	}
	c.conn, c.key = conn, derive(c.world.Secret, labelKey, run)
	return nil
}

// join says which rank this is and returns the name of the run.
func join(ctx context.Context, conn ipc.Conn, w World) (run []byte, err error) {
	j := joining{uint32(w.Rank), uint32(w.Size), w.Epoch}
	m := outgoing{message: message{kindJoin, 0, proven(&j, w.Secret, labelJoin)}}
	if err := m.send(conn, func(kind uint32, n int) ([]byte, error) { return conn.Reserve(ctx, kind, n) }); err != nil {
		return nil, err
	}
	received, err := conn.Recv(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	answer, whole, err := new(incoming).take(received, maxPiece)
	switch {
	case err != nil:
		return nil, err
	case whole && answer.kind == kindWelcome:
		var m welcome
		if err := parseProven(answer.fields, &m, w.Secret, labelWelcome); err != nil {
			return nil, fmt.Errorf("rank 0's welcome: %w", err)
		}
		return m.run[:], nil
	case whole && answer.kind == kindRefuse:
		var e failure
		if err := parse(answer.fields, &e); err != nil {
			return nil, err
		}
		return nil, &refusedError{e}
	}
	return nil, fmt.Errorf("%w: message of kind %d instead of a welcome", ErrProtocol, answer.kind)
}

// ours adds to an error of a transport the sentinel of this package that stands for it.
func ours(err error) error {
	switch {
	case errors.Is(err, ipc.ErrSecret):
		return fmt.Errorf("%w: %w", ErrSecret, err)
	case errors.Is(err, ipc.ErrVersion), errors.Is(err, ipc.ErrCorrupt), errors.Is(err, ipc.ErrNotRingside):
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return err
}

// permanent reports whether trying again can't help.
func permanent(err error) bool {
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused.code != codeLeft
	}
	return errors.Is(err, ErrProtocol) || errors.Is(err, ErrSecret) || errors.Is(err, ipc.ErrTLS)
}

// read hands replies to the calls that wait for them.
func (c *client) read() {
	var in incoming
	for {
		received, err := c.conn.Recv(context.Background())
		if err == nil {
			var m message
			var whole bool
			m, whole, err = in.take(received, maxReply)
			c.conn.Release()
			if whole {
				c.deliver(m)
			}
		}
		if err != nil {
			c.end(fmt.Errorf("%w at %s: %w", ErrLost, c.world.Addr(), err))
			return
		}
	}
}

// deliver hands a reply to the call that waits for it.
func (c *client) deliver(m message) {
	c.mu.Lock()
	w := c.waiting[m.id]
	delete(c.waiting, m.id)
	c.mu.Unlock()
	if w != nil {
		w <- m // has room for one, and gets one
	}
}

// end fails the calls that wait; the first reason counts.
func (c *client) end(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	for id, w := range c.waiting {
		close(w)
		delete(c.waiting, id)
	}
	c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
	}
}

// close ends the connection and, on rank 0, the server.
func (c *client) close() {
	c.closing.Do(func() {
		c.mu.Lock()
		if c.err == nil {
			c.err = net.ErrClosed
		}
		c.mu.Unlock()
		if c.conn != nil {
			// Rank 0 ends the connection when it has noted that this rank left: until
			// then the same rank of the next world would be refused as a duplicate.
			hangUp := time.AfterFunc(time.Second, func() { c.conn.Close() })
			_ = c.send(message{kind: kindBye})
			c.reader.Wait()
			hangUp.Stop()
		}
		c.end(net.ErrClosed)
		if c.server != nil {
			c.server.close(c.linger)
		}
	})
}

// send sends a message whole, whatever becomes of the call that it is for.
func (c *client) send(m message) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	out := outgoing{message: m}
	return out.send(c.conn, func(kind uint32, n int) ([]byte, error) {
		return c.conn.Reserve(context.Background(), kind, n)
	})
}

// margin returns how much earlier than our deadline rank 0 answers that a rank is
// missing, so that the answer, which names it, comes in time.
func margin(d time.Duration) time.Duration { return min(d/10, 500*time.Millisecond) }

// do sends a request and waits for its reply.
func (c *client) do(ctx context.Context, kind uint32, q request) (message, error) {
	if len(q.key) > MaxKey || len(q.value) > MaxValue {
		return message{}, fmt.Errorf("%w: a key of %d and a value of %d bytes, expected at most %d and %d",
			ErrTooLarge, len(q.key), len(q.value), MaxKey, MaxValue)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	q.timeout = uint32(max(left-margin(left), 0).Milliseconds())
	if err := ctx.Err(); err != nil {
		return message{}, err
	}
	w := make(chan message, 1)
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return message{}, err
	}
	c.lastID++
	id := c.lastID
	c.waiting[id] = w
	c.mu.Unlock()
	if c.server != nil {
		c.server.request(c.self, kind, id, q)
	} else if err := c.send(message{kind, id, encode(&q)}); err != nil {
		c.end(fmt.Errorf("%w at %s: %w", ErrLost, c.world.Addr(), err))
	}
	select {
	case m, ok := <-w:
		if !ok {
			c.mu.Lock()
			defer c.mu.Unlock()
			return message{}, c.err
		}
		return m, replied(m)
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		return message{}, ctx.Err()
	}
}

// replied returns the error that a reply carries, nil if it is no error.
func replied(m message) error {
	if m.kind != kindError {
		return nil
	}
	var e failure
	switch err := parse(m.fields, &e); {
	case err != nil:
		return err
	case e.code == codeMissing && len(e.ranks) > 0:
		return &MissingError{Ranks: e.ranks, Why: e.text}
	}
	return fmt.Errorf("%w: %s", e.code.sentinel(), e.text)
}

func (c *client) value(ctx context.Context, kind uint32, q request) ([]byte, error) {
	m, err := c.do(ctx, kind, q)
	if err == nil && m.kind != kindValue {
		err = fmt.Errorf("%w: a reply of kind %d, expected a value", ErrProtocol, m.kind)
	}
	if err != nil {
		return nil, err
	}
	return m.fields, nil
}

func (c *client) number(ctx context.Context, kind uint32, q request) (int64, error) {
	b, err := c.value(ctx, kind, q)
	if err == nil && len(b) != 8 {
		err = fmt.Errorf("%w: a number of %d bytes, expected 8", ErrProtocol, len(b))
	}
	if err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(b)), nil
}
