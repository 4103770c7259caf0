package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/ringside-go/ringside/collective"
)

// state says how far an opening is, and a started call. The numbers are in ringside.h.
type state int32

const (
	pending  state = 0 // ask again
	exchange state = 1 // a value is to be exchanged among the ranks
	done     state = 2
)

// opening is a group that is being made. Its caller carries the ranks' values to each
// other, so that no code of the caller's language is called from here.
type opening struct {
	size   int
	values chan []byte   // of this rank, to be exchanged
	given  chan [][]byte // of all ranks
	ended  chan struct{} // closed when group and err are set
	cancel context.CancelFunc
	open   bool // a value was returned and those of all are to be given

	group *group
	err   error
}

// begin begins to make the group of size ranks. timeout is that of its calls.
func begin(rank, size int, timeout time.Duration, name string, secret []byte, interrupted func() bool) (*opening, error) {
	if rank < 0 || rank >= size || timeout < 0 {
		return nil, fmt.Errorf("%w: rank %d of %d, timeout %v: expected 0 <= rank < size and nothing negative", errArgument, rank, size, timeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(timeout, collective.DefaultTimeout))
	o := &opening{size: size, values: make(chan []byte), given: make(chan [][]byte), ended: make(chan struct{}), cancel: cancel}
	ranks := &collective.Ranks{Rank: rank, Size: size, Name: name, Secret: bytes.Clone(secret), Exchange: o.exchange}
	go func() {
		defer cancel()
		defer close(o.ended)
		g, err := collective.InitOver(ctx, ranks, &collective.Options{Timeout: timeout})
		if o.err = err; err == nil {
			o.group = newGroup(g, interrupted)
		}
	}()
	return o, nil
}

// exchange hands this rank's value to the caller and waits for those of all ranks.
func (o *opening) exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	select {
	case o.values <- mine:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case all := <-o.given:
		return all, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// step waits, at most so long, until the caller has something to do: it returns a value
// to be exchanged, or the group.
func (o *opening) step(wait time.Duration) (state, []byte, *group, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case v := <-o.values:
		o.open = true
		return exchange, v, nil, nil
	case <-o.ended:
		return done, nil, o.group, o.err
	case <-timer.C:
		return pending, nil, nil, nil
	}
}

// give hands over the values of all ranks, which lie one after the other.
func (o *opening) give(values []byte, lengths []int) error {
	if !o.open || len(lengths) != o.size {
		return fmt.Errorf("%w: %d values for %d ranks, expected one of each, after a step asked for them", errArgument, len(lengths), o.size)
	}
	all := make([][]byte, o.size)
	for i, n := range lengths {
		if n < 0 || n > len(values) {
			return fmt.Errorf("%w: the value of rank %d has %d bytes, expected 0 to %d", errArgument, i, n, len(values))
		}
		all[i], values = bytes.Clone(values[:n]), values[n:]
	}
	o.open = false
	select {
	case o.given <- all:
	case <-o.ended: // the next step says why
	}
	return nil
}

// close gives up an opening that is not done, and waits for its end.
func (o *opening) close() error {
	o.cancel()
	<-o.ended
	if o.group != nil {
		return o.group.close()
	}
	return nil
}
