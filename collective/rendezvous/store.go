package rendezvous

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Options.
const (
	DefaultTimeout = 5 * time.Minute
	DefaultLinger  = 5 * time.Second
)

// Options of Open. nil and the zero value are the defaults.
type Options struct {
	// Timeout bounds Open and every call whose context has no deadline. 0: DefaultTimeout, for schedulers start the
	// ranks of a job minutes apart.
	Timeout time.Duration

	// Linger is how long rank 0's Close waits for the others to close. 0: DefaultLinger; negative: not at all.
	Linger time.Duration

	// Logger receives, on rank 0, who was refused and why (the first few; ipc.Warnings counts the others), and now and then who
	// has not come yet. nil discards.
	Logger *slog.Logger

	patience time.Duration // until the first time that the missing are logged. 0: firstReminder
}

// Store is a rank's connection to rank 0's key-value server. Any goroutine may call it. Keys are at most MaxKey bytes,
// values MaxValue. On rank 0 it is the server too: the others' calls fail with ErrLost once rank 0 closes or dies.
type Store struct {
	conn   *conn
	name   string // of the group that this view is of, "" for the world
	rank   int    // in it
	size   int
	rounds atomic.Uint64 // AllGathers of this view so far
}

// conn is what the views of a store share.
type conn struct {
	world   World
	key     []byte
	link    *link
	timeout time.Duration
	server  *server // rank 0's
	linger  time.Duration

	writing sync.Mutex

	mu      sync.Mutex
	lastID  uint32
	waiting map[uint32]chan frame
	err     error // why the connection ended

	closing sync.Once
	reader  sync.WaitGroup
}

// MissingError says who did not come to an AllGather, ascending. It unwraps to ErrMissing.
type MissingError struct {
	Ranks []int
	Why   string // what else is known: who left, who was refused and for which reason
}

func (e *MissingError) Error() string {
	s := fmt.Sprintf("%v: ranks %v did not come", ErrMissing, e.Ranks)
	if e.Why != "" {
		s += " (" + e.Why + ")"
	}
	return s
}

func (e *MissingError) Unwrap() error { return ErrMissing }

// Open connects to the store; rank 0 starts it first. Others try until rank 0 answers, the context ends, or
// Options.Timeout is over: ErrUnreachable. Rank 0 does not wait for anybody here; AllGather does.
// A world of one opens no socket.
func Open(ctx context.Context, w World, o *Options) (*Store, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	if opt.Timeout <= 0 {
		opt.Timeout = DefaultTimeout
	}
	switch {
	case opt.Linger == 0:
		opt.Linger = DefaultLinger
	case opt.Linger < 0:
		opt.Linger = 0
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if w.Size < 1 || w.Size > MaxSize || w.Rank < 0 || w.Rank >= w.Size {
		return nil, fmt.Errorf("%w: rank %d of %d, expected a size from 1 to %d and a rank below it", ErrEnvironment, w.Rank, w.Size, MaxSize)
	}
	if w.Size > 1 {
		if err := locate(&w); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, opt.Timeout)
	defer cancel()
	c := &conn{world: w, timeout: opt.Timeout, linger: opt.Linger, waiting: map[uint32]chan frame{}}
	var err error
	if w.Rank == 0 {
		err = c.serve(ctx, &opt)
	} else {
		err = c.dial(ctx)
	}
	if err != nil {
		return nil, err
	}
	opt.Logger.Debug("rendezvous", "world", w.String())
	c.reader.Go(c.read)
	return &Store{conn: c, rank: w.Rank, size: w.Size}, nil
}

// serve starts the server and connects to it without a socket.
func (c *conn) serve(ctx context.Context, o *Options) error {
	var lis net.Listener
	if c.world.Size > 1 {
		var err error
		if lis, err = listen(ctx, c.world); err != nil {
			return err
		}
	}
	c.server = newServer(c.world, lis, o.Logger)
	if o.patience > 0 {
		c.server.patience = o.patience
	}
	ours, theirs := net.Pipe()
	c.server.wg.Go(func() { c.server.serve(theirs) })
	var err error
	if c.link, c.key, err = greet(ours, c.world); err != nil {
		ours.Close()
		c.server.close(0)
	}
	return err
}

// World is what Open was given, with where the store listens.
func (s *Store) World() World { return s.conn.world }

// Key is 32 secret bytes of this run, the same on all ranks and of no use in any other run: for authenticating what the
// ranks open next. Without a World.Secret whoever can reach the store can learn it.
func (s *Store) Key() []byte { return append([]byte(nil), s.conn.key...) }

// Group is a view for a sub-group, whose AllGather is among its size ranks; this one is its rank. All of them must use
// the same name, which no other group of this world has. Keys are the store's and are not apart from other views'.
func (s *Store) Group(name string, rank, size int) *Store {
	return &Store{conn: s.conn, name: name, rank: rank, size: size}
}

// Set stores a value.
func (s *Store) Set(ctx context.Context, key string, value []byte) error {
	_, err := s.conn.do(ctx, kindSet, request{key: key, value: value})
	return err
}

// Get is the value of a key: ErrNotFound if it has none.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.conn.value(ctx, kindGet, request{key: key})
}

// Wait is the value of a key as soon as somebody has set it: ErrMissing if nobody does in time.
func (s *Store) Wait(ctx context.Context, key string) ([]byte, error) {
	return s.conn.value(ctx, kindWait, request{key: key})
}

// Add adds to the number that is a key's value, 0 at first, and gives the sum. It is atomic. The value that Get sees
// is the number's 8 bytes, little-endian.
func (s *Store) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return s.conn.number(ctx, kindAdd, request{key: key, delta: delta})
}

// Delete forgets a key, and reports whether it was there.
func (s *Store) Delete(ctx context.Context, key string) (bool, error) {
	n, err := s.conn.number(ctx, kindDelete, request{key: key})
	return n != 0, err
}

// AllGather gives every rank what each of them gave, by rank. All ranks must call it equally often. It ends early with a
// *MissingError when a rank that was connected is gone, and at the deadline when ranks have not come.
func (s *Store) AllGather(ctx context.Context, mine []byte) ([][]byte, error) {
	if s.size < 1 || s.rank < 0 || s.rank >= s.size {
		return nil, fmt.Errorf("%w: rank %d of %d", ErrEnvironment, s.rank, s.size)
	}
	if most := maxGathered(s.size); len(mine) > most {
		return nil, fmt.Errorf("%w: %d bytes to gather among %d ranks, expected at most %d", ErrTooLarge, len(mine), s.size, most)
	}
	name := worldGather
	if s.name != "" {
		name = groupGather + s.name + "/"
	}
	q := request{key: fmt.Sprint(name, s.rounds.Add(1)), value: mine, rank: uint32(s.rank), size: uint32(s.size)}
	f, err := s.conn.do(ctx, kindGather, q)
	if err != nil {
		return nil, err
	}
	if f.kind != kindValues {
		return nil, fmt.Errorf("%w: a reply of kind %d, expected values", ErrProtocol, f.kind)
	}
	return parseValues(f.body, s.size)
}

// Close ends the connection, for all views. On rank 0 it ends the store, after waiting up to Options.Linger for the
// others to close.
func (s *Store) Close() error {
	c := s.conn
	c.closing.Do(func() {
		c.mu.Lock()
		if c.err == nil {
			c.err = net.ErrClosed
		}
		c.mu.Unlock()
		c.writing.Lock()
		// Rank 0 ends the connection when it has noted that we left: until then we would be in our own way here.
		c.link.SetDeadline(time.Now().Add(time.Second))
		_ = writeFrame(c.link, frame{kind: kindBye}, c.link.out)
		c.writing.Unlock()
		c.reader.Wait()
		c.end(net.ErrClosed)
		if c.server != nil {
			c.server.close(c.linger)
		}
	})
	return nil
}

// end fails what waits; the first reason counts.
func (c *conn) end(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	for id, w := range c.waiting {
		close(w)
		delete(c.waiting, id)
	}
	c.mu.Unlock()
	c.link.Close()
}

// read hands replies to who waits for them.
func (c *conn) read() {
	for {
		f, err := readFrame(c.link, maxReply, c.link.in)
		if err != nil {
			c.end(fmt.Errorf("%w at %s: %w", ErrLost, c.world.Addr(), err))
			return
		}
		c.mu.Lock()
		w := c.waiting[f.id]
		delete(c.waiting, f.id)
		c.mu.Unlock()
		if w != nil {
			w <- f // has room for one, and gets one
		}
	}
}

// margin is how much earlier than our deadline rank 0 answers that somebody is missing, so that we hear who.
func margin(d time.Duration) time.Duration { return min(d/10, 500*time.Millisecond) }

// do sends a request and waits for its reply.
func (c *conn) do(ctx context.Context, k kind, q request) (frame, error) {
	if len(q.key) > MaxKey || len(q.value) > MaxValue {
		return frame{}, fmt.Errorf("%w: a key of %d and a value of %d bytes, expected at most %d and %d",
			ErrTooLarge, len(q.key), len(q.value), MaxKey, MaxValue)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	q.timeout = time.Until(deadline)
	q.timeout -= margin(q.timeout)
	if err := ctx.Err(); err != nil {
		return frame{}, err
	}
	w := make(chan frame, 1)
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return frame{}, err
	}
	c.lastID++
	id := c.lastID
	c.waiting[id] = w
	c.mu.Unlock()
	c.writing.Lock()
	err := writeFrame(c.link, frame{k, id, q.append(nil, k)}, c.link.out)
	c.writing.Unlock()
	if err != nil {
		c.end(fmt.Errorf("%w at %s: %w", ErrLost, c.world.Addr(), err))
	}
	select {
	case f, ok := <-w:
		if !ok {
			c.mu.Lock()
			defer c.mu.Unlock()
			return frame{}, c.err
		}
		return f, replied(f)
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		return frame{}, ctx.Err()
	}
}

// replied is the error that a reply is, nil for the others.
func replied(f frame) error {
	if f.kind != kindError {
		return nil
	}
	e, err := parseFailure(f.body)
	switch {
	case err != nil:
		return err
	case e.code == codeMissing && len(e.ranks) > 0:
		return &MissingError{Ranks: e.ranks, Why: e.text}
	}
	return fmt.Errorf("%w: %s", e.code.sentinel(), e.text)
}

func (c *conn) value(ctx context.Context, k kind, q request) ([]byte, error) {
	f, err := c.do(ctx, k, q)
	if err == nil && f.kind != kindValue {
		err = fmt.Errorf("%w: a reply of kind %d, expected a value", ErrProtocol, f.kind)
	}
	if err != nil {
		return nil, err
	}
	return f.body, nil
}

func (c *conn) number(ctx context.Context, k kind, q request) (int64, error) {
	b, err := c.value(ctx, k, q)
	if err == nil && len(b) != 8 {
		err = fmt.Errorf("%w: a number of %d bytes, expected 8", ErrProtocol, len(b))
	}
	if err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(b)), nil
}

// permanent reports whether trying again can't help.
func permanent(err error) bool {
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused.code != codeLeft
	}
	return errors.Is(err, ErrProtocol) || errors.Is(err, ErrSecret)
}
