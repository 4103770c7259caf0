package rendezvous

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
)

// Defaults of Options.
const (
	DefaultTimeout = 5 * time.Minute
	DefaultLinger  = 5 * time.Second
)

// Options of Open. nil and the zero value are the defaults.
type Options struct {
	// Timeout bounds Open and every call whose context has no deadline. 0:
	// DefaultTimeout, for schedulers start the ranks of a job minutes apart.
	Timeout time.Duration

	// Linger is how long rank 0's Close waits for the others to close. 0: DefaultLinger;
	// negative: not at all.
	Linger time.Duration

	// Logger receives, on rank 0, the refused callers with the reason (the first few;
	// ipc.Warnings counts the others), and now and then the missing ranks. nil discards.
	Logger *slog.Logger

	// until the first time that the missing are logged. 0: firstReminder
	patience time.Duration
	order    []ipc.Transport // nil: route.Order()
}

// Store is a rank's connection to rank 0's key-value server. Any goroutine may call it.
// Keys are at most MaxKey bytes, values MaxValue. On rank 0 it is the server too: the
// others' calls fail with ErrLost once rank 0 closes or dies.
type Store struct {
	client *client
	name   string // of the group that this view is of, "" for the world
	rank   int    // in it
	size   int
	rounds atomic.Uint64 // AllGathers of this view so far
}

// MissingError names the ranks that did not come to an AllGather, ascending. It unwraps
// to ErrMissing.
type MissingError struct {
	Ranks []int
	Why   string // more: the ranks that left, the refused callers with the reason
}

// Error names the ranks that did not come.
func (e *MissingError) Error() string {
	s := fmt.Sprintf("%v: ranks %v did not come", ErrMissing, e.Ranks)
	if e.Why != "" {
		s += " (" + e.Why + ")"
	}
	return s
}

// Unwrap returns ErrMissing.
func (e *MissingError) Unwrap() error { return ErrMissing }

// Open connects to the store; rank 0 starts it first. Others try until rank 0 answers,
// the context ends, or Options.Timeout is over: ErrUnreachable. Rank 0 does not wait for
// other ranks here; AllGather does. A world of one opens no socket.
func Open(ctx context.Context, w World, o *Options) (*Store, error) {
	opt := *cmp.Or(o, &Options{})
	if opt.Timeout <= 0 {
		opt.Timeout = DefaultTimeout
	}
	switch {
	case opt.Linger == 0:
		opt.Linger = DefaultLinger
	case opt.Linger < 0:
		opt.Linger = 0
	}
	if opt.order == nil {
		opt.order = route.Order()
	}
	opt.Logger = cmp.Or(opt.Logger, slog.New(slog.DiscardHandler))
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
	c := &client{world: w, order: opt.order, timeout: opt.Timeout, linger: opt.Linger, waiting: map[uint32]chan message{}}
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
	return &Store{client: c, rank: w.Rank, size: w.Size}, nil
}

// World returns the argument of Open, completed by the store's address.
func (s *Store) World() World { return s.client.world }

// Key returns 32 secret bytes of this run, the same on all ranks and of no use in any
// other run: for authenticating the ranks' next connections. Without a World.Secret any
// process that can reach the store can learn it.
func (s *Store) Key() []byte { return append([]byte(nil), s.client.key...) }

// Group returns a view for a sub-group, whose AllGather is among its size ranks; this one
// is its rank. All of them must use the same name, which no other group of this world
// has. Keys are shared by all views.
func (s *Store) Group(name string, rank, size int) *Store {
	return &Store{client: s.client, name: name, rank: rank, size: size}
}

// Set stores a value.
func (s *Store) Set(ctx context.Context, key string, value []byte) error {
	_, err := s.client.do(ctx, kindSet, request{key: key, value: value})
	return err
}

// Get returns the value of a key: ErrNotFound if it has none.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.client.value(ctx, kindGet, request{key: key})
}

// Wait returns the value of a key as soon as it is set: ErrMissing if that takes too
// long.
func (s *Store) Wait(ctx context.Context, key string) ([]byte, error) {
	return s.client.value(ctx, kindWait, request{key: key})
}

// Add adds to the number that is a key's value, 0 at first, and returns the sum. It is
// atomic. Get returns the number's 8 bytes, little-endian.
func (s *Store) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return s.client.number(ctx, kindAdd, request{key: key, delta: uint64(delta)})
}

// Delete forgets a key, and reports whether it was there.
func (s *Store) Delete(ctx context.Context, key string) (bool, error) {
	n, err := s.client.number(ctx, kindDelete, request{key: key})
	return n != 0, err
}

// AllGather gives every rank the values of all, by rank. All ranks must call it equally
// often. It ends early with a *MissingError when a rank that was connected is gone, and
// at the deadline when ranks have not come.
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
	m, err := s.client.do(ctx, kindGather, q)
	if err != nil {
		return nil, err
	}
	if m.kind != kindValues {
		return nil, fmt.Errorf("%w: a reply of kind %d, expected values", ErrProtocol, m.kind)
	}
	var all values
	if err := parse(m.fields, &all); err != nil {
		return nil, err
	}
	if len(all) != s.size {
		return nil, fmt.Errorf("%w: %d values, expected those of %d ranks", ErrProtocol, len(all), s.size)
	}
	return all, nil
}

// Close ends the connection, for all views. On rank 0 it ends the store, after waiting up
// to Options.Linger for the others to close.
func (s *Store) Close() error {
	s.client.close()
	return nil
}
