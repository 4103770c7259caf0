package gather

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather/codec"
)

// Flags is what ranks tell each other before they go on.
type Flags uint32

// The flags. All ranks go on when all are ready and none skips or aborts.
const (
	Ready Flags = 1 << iota
	Skip
	Abort
)

// Ranks is a group of ranks, or this process alone where Group is nil.
type Ranks struct{ Group *collective.Group }

// Rank returns this rank's number.
func (r Ranks) Rank() int {
	if r.Group == nil {
		return 0
	}
	return r.Group.Rank()
}

// Size returns the number of ranks.
func (r Ranks) Size() int {
	if r.Group == nil {
		return 1
	}
	return r.Group.Size()
}

// Gather gives every rank the bytes of all, by rank. Lengths may differ.
func (r Ranks) Gather(ctx context.Context, b []byte) ([][]byte, error) {
	if r.Group == nil {
		return [][]byte{b}, nil
	}
	return collective.AllGatherObject(ctx, r.Group, b)
}

// Broadcast gives every rank what rank 0 has.
func (r Ranks) Broadcast(ctx context.Context, b []byte) ([]byte, error) {
	if r.Group == nil {
		return b, nil
	}
	err := collective.BroadcastObject(ctx, r.Group, &b, 0)
	return b, err
}

// Agree is a barrier at which every rank gives its flags and a digest. It returns whether
// a rank skips, and ErrAborted on all ranks when one aborts, is not ready, has another
// digest, or does not come in time. what names the digest in errors.
func (r Ranks) Agree(ctx context.Context, what string, mine Flags, digest codec.Digest) (skip bool, err error) {
	const size = 4 + len(digest)
	src := binary.LittleEndian.AppendUint32(make([]byte, 0, size), uint32(mine))
	src = append(src, digest[:]...)
	all := src
	if r.Group != nil {
		all = make([]byte, r.Size()*size)
		if err := collective.AllGather(ctx, r.Group, all, src); err != nil {
			return false, fmt.Errorf("%w: %s: %w", ErrAborted, what, err)
		}
	}
	for rank := range r.Size() {
		b := all[rank*size:][:size]
		flags := Flags(binary.LittleEndian.Uint32(b))
		switch {
		case flags&Abort != 0 || flags&(Ready|Skip) == 0:
			return false, fmt.Errorf("%w: rank %d cannot go on at %s", ErrAborted, rank, what)
		case !bytes.Equal(b[4:], all[4:size]):
			return false, fmt.Errorf("%w: %s of rank %d is %x, rank 0 has %x", ErrAborted, what, rank, b[4:12], all[4:12])
		}
		skip = skip || flags&Skip != 0
	}
	return skip, nil
}
