package collective

import (
	"context"
	"errors"

	"github.com/ringside-go/ringside/collective/protocol"
)

// comm moves and folds bytes among ranks 0..n-1. onehost.Comm and crosshost.Comm are
// comms, and this package composes others of them. One goroutine at a time calls Do, but
// any may call Abort. After its first error a comm is dead.
type comm interface {
	Do(ctx context.Context, r protocol.Request) error
	Abort(err error) // every rank's calls fail, now and later
	Close() error
}

// solo is a comm of one rank.
type solo struct{}

// Do copies the source to the destination. A group keeps what a rank sends to itself.
func (solo) Do(_ context.Context, r protocol.Request) error {
	copy(r.Dst, r.Src)
	return nil
}

func (solo) Abort(error)  {}
func (solo) Close() error { return nil }

// lift gives the error of a comm the group's ranks: ranks[i] is the one that the comm
// calls i.
func lift(err error, ranks []int) error {
	var pe *protocol.PeerError
	if err == nil || !errors.As(err, &pe) {
		return err
	}
	out := *pe
	if pe.Rank >= 0 && pe.Rank < len(ranks) {
		out.Rank = ranks[pe.Rank]
	}
	out.Missing = nil
	for _, r := range pe.Missing {
		if r >= 0 && r < len(ranks) {
			out.Missing = append(out.Missing, ranks[r])
		}
	}
	return &out
}
