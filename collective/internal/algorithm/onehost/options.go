package onehost

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
)

// Defaults of Options.
const (
	DefaultTimeout = 30 * time.Second
	DefaultChunk   = 128 << 10
)

// defaultFlat returns Options.Flat for a number of ranks. Through slots every rank reads
// everything, but ranks meet once; in place they meet twice. A meeting of two ranks costs
// as much as a copy of 2 KiB. Of more ranks it costs more, and from 8 on there is much to
// read.
func defaultFlat(ranks int) int {
	switch {
	case ranks <= 2:
		return 2 << 10
	case ranks <= 8:
		return 8 << 10
	}
	return max(64, (64<<10)/ranks&^63)
}

// Options are the options of New. The zero value and nil are the defaults. All ranks must
// have the same Flat, Chunk, Staged, Fold and Order; New compares them.
type Options struct {
	// Timeout is how long a call waits for ranks that do not come. 0: DefaultTimeout.
	Timeout time.Duration

	// Logger is told, at debug level, why a comm died; callers know by the error. nil
	// discards.
	Logger *slog.Logger

	// Fold is the bracketing of reductions; see protocol.Fold. nil: from the left.
	Fold protocol.Fold

	// Order lists the ranks as Fold counts them. nil: by number.
	Order []int

	// Flat is the largest contribution of a rank, in bytes, that goes through its flat
	// slot: copied in, one meeting, read by every rank. A multiple of 64. 0: 2 KiB for
	// two ranks, 8 KiB up to eight, less for more; negative: 64 bytes.
	Flat int

	// Chunk is the bytes of a staging slot, of which a rank has two. Larger contributions
	// than Flat that the others cannot reach in place go through them. A multiple of 64,
	// and at least 64 for each rank. 0: DefaultChunk.
	Chunk int

	// Staged has registered memory treated like any other.
	Staged bool
}

// withDefaults returns a copy of o with the defaults for so many ranks filled in.
func (o *Options) withDefaults(ranks int) (Options, error) {
	out := *cmp.Or(o, &Options{})
	switch {
	case out.Timeout < 0:
		return out, fmt.Errorf("%w: Timeout %v, expected nothing negative", protocol.ErrBadCall, out.Timeout)
	case out.Flat > 0 && out.Flat%64 != 0:
		return out, fmt.Errorf("%w: Flat %d, expected a multiple of 64", protocol.ErrBadCall, out.Flat)
	case out.Chunk < 0 || out.Chunk%64 != 0:
		return out, fmt.Errorf("%w: Chunk %d, expected a multiple of 64", protocol.ErrBadCall, out.Chunk)
	}
	out.Timeout = cmp.Or(out.Timeout, DefaultTimeout)
	out.Logger = cmp.Or(out.Logger, slog.New(slog.DiscardHandler))
	if out.Flat == 0 {
		out.Flat = defaultFlat(ranks)
	} else if out.Flat < 0 {
		out.Flat = 64
	}
	out.Chunk = cmp.Or(out.Chunk, DefaultChunk)
	if out.Chunk < 64*ranks {
		return out, fmt.Errorf("%w: Chunk %d, expected at least 64 for each of %d ranks",
			protocol.ErrBadCall, out.Chunk, ranks)
	}
	return out, nil
}
