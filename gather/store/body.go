package store

import (
	"context"
	"errors"
	"io"

	"github.com/ringside-go/ringside/gather/status"
)

// body reads an object over as many requests as it takes: one for each part, and another
// where one broke.
type body struct {
	w    *fetch
	ctx  context.Context
	o    *Object
	pos  int64 // of the next byte
	part int64 // bytes read of the request under way
	err  error // the last; every later Read returns it
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	for b.err == nil {
		// a store that does not say sizes
		if limit := b.w.o.MaxBytes; limit > 0 && b.pos > limit {
			b.err = status.Errorf(status.TooLarge, "%s: more than %d bytes", b.w.key, limit)
			break
		}
		n, err := b.o.Body.Read(p)
		b.pos += int64(n)
		b.part += int64(n)
		b.w.got.Wire += int64(n)
		if err != nil {
			b.err = b.next(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, b.err
}

// next makes the next request after one ended with err, unless the object is whole.
func (b *body) next(err error) error {
	size := b.o.Size
	if errors.Is(err, io.EOF) && (b.pos == size || size < 0) {
		return io.EOF
	}
	if b.ctx.Err() != nil {
		return netError(b.ctx, b.w.key, context.Cause(b.ctx))
	}
	whole := errors.Is(err, io.EOF) && b.part == b.w.o.Part
	s := status.Network
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		s = status.Truncated
	}
	broken := status.Errorf(s, "%s: ended at byte %d of %d: %v", b.w.key, b.pos, size, err)
	if b.o.ETag == "" || size < 0 { // there is no asking for the rest of the same object
		return broken
	}
	for {
		if !whole && !b.w.pause(b.ctx, broken) {
			return broken
		}
		o, err := b.w.open(b.ctx, Get{Off: b.pos, Len: min(b.w.o.Part, size-b.pos), IfMatch: b.o.ETag})
		if err == nil {
			b.o.Body.Close()
			b.o, b.part = o, 0
			b.o.Size = size
			return nil
		}
		if whole = false; !status.Of(err).Retryable() || status.Of(err) == status.Changed {
			return err
		}
		if broken.Status = status.Of(err); broken.Status == status.NotFound {
			broken.Status = status.Changed // it was there
			return broken
		}
	}
}
