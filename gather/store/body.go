package store

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/shm/plain"
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
			b.err = outcome.Errorf(outcome.TooLarge, "%s: more than %d bytes", plain.Name(b.w.key), limit)
			break
		}
		if b.o.Size >= 0 { // what is behind the end was not asked for
			if p = p[:min(int64(len(p)), b.o.Size-b.pos)]; len(p) == 0 {
				b.err = io.EOF
				break
			}
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
	s := outcome.Network
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		s = outcome.Truncated
	}
	broken := outcome.Errorf(s, "%s: ended at byte %d of %d: %v", plain.Name(b.w.key), b.pos, size, err)
	etag := b.o.ETag
	if strings.HasPrefix(etag, "W/") { // a weak one matches nothing
		etag = ""
	}
	// without these there is no asking for the rest of the same object
	if etag == "" && b.o.LastModified.IsZero() || size < 0 {
		return broken
	}
	for {
		if !whole && !b.w.pause(b.ctx, broken) {
			return broken
		}
		o, err := b.w.open(b.ctx, Get{Off: b.pos, Len: min(b.w.o.Part, size-b.pos), IfMatch: etag})
		if err == nil {
			return b.replace(o)
		}
		if whole = false; errors.Is(err, errNoRange) {
			return broken
		}
		if !outcome.Of(err).Retryable() || outcome.Of(err) == outcome.Changed {
			return err
		}
		if broken.Outcome = outcome.Of(err); broken.Outcome == outcome.NotFound {
			broken.Outcome = outcome.Changed // it was there
			return broken
		}
	}
}

// replace goes on with the next answer, which must be of the same object: a server may
// have passed by If-Match.
func (b *body) replace(o *Object) error {
	b.o.Body.Close()
	was := b.o
	b.o, b.part = o, 0
	if o.ETag != was.ETag || !o.LastModified.Equal(was.LastModified) || o.Size >= 0 && o.Size != was.Size {
		return outcome.Errorf(outcome.Changed, "%s: ETag %.80q of %d bytes from byte %d on, was %.80q of %d", plain.Name(b.w.key), o.ETag, o.Size, b.pos, was.ETag, was.Size)
	}
	o.Size = was.Size
	return nil
}
