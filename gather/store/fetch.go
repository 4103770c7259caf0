package store

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/shm/plain"
)

// Defaults of FetchOptions.
const (
	DefaultBase        = 250 * time.Millisecond
	DefaultCap         = 5 * time.Second
	DefaultConcurrency = 8
	DefaultPart        = 64 << 20

	// Buffer is the memory that a payload takes while it arrives.
	Buffer = 256 << 10

	// grace is how long after the end of a window an object may take to show.
	grace = 3 * time.Second
)

// FetchOptions changes a Fetcher. The zero value is the documented default.
type FetchOptions struct {
	Base, Cap time.Duration // of the waits: uniform in 0 to min(Cap, Base·2ⁿ)
	// requests that may fail; 0: as many as the context has time for
	Attempts    int
	Concurrency int   // requests under way. 0: DefaultConcurrency
	Memory      int64 // bytes of buffers, which lowers Concurrency; 0: no bound
	Part        int64 // bytes of one request. 0: DefaultPart

	// Hold is how long an attempt may take while it has one of the Concurrency places:
	// one that stalls then goes behind those that wait. 0: as long as the context.
	Hold time.Duration

	MaxBytes int64 // the largest payload. 0: no bound

	// TMin and TMax bound LastModified, both inclusive, in whole seconds. Zero: no bound.
	TMin, TMax time.Time
}

// Fetcher gets payloads. Fetch may be called concurrently.
type Fetcher struct {
	o     FetchOptions
	slots chan struct{}
}

// Fetched says what a Fetch found. It is filled in as far as Fetch came.
type Fetched struct {
	ETag         string
	LastModified time.Time // whole seconds; zero where the store does not say
	Size         int64
	Wire         int64 // bytes that arrived, over all attempts
	Attempts     int
}

// NewFetcher returns a Fetcher.
func NewFetcher(o FetchOptions) *Fetcher {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&o.Base, DefaultBase)
	set(&o.Cap, DefaultCap)
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Memory > 0 {
		o.Concurrency = int(max(min(int64(o.Concurrency), o.Memory/Buffer), 1))
	}
	if o.Part == 0 {
		o.Part = DefaultPart
	}
	return &Fetcher{o, make(chan struct{}, o.Concurrency)}
}

// Share returns o for a rank that has so much time for so many payloads: with more than
// have a place at once, an attempt has its share of the time, unless o says how much.
func (o FetchOptions) Share(all time.Duration, payloads int) FetchOptions {
	if places := NewFetcher(o).o.Concurrency; o.Hold == 0 && payloads > places {
		o.Hold = all * time.Duration(places) / time.Duration(payloads)
	}
	return o
}

// Fetch gives the body of an object to use, until use returns nil or an error of its
// own. use is called again with the body from its start when an attempt broke that
// could not be continued. The context's deadline is that of the whole call.
func (f *Fetcher) Fetch(ctx context.Context, s Store, key string, use func(io.Reader) error) (Fetched, error) {
	w := &fetch{Fetcher: f, store: s, key: key}
	for {
		err := w.once(ctx, use)
		if err == nil || !w.again(ctx, err) {
			return w.got, err
		}
	}
}

// fetch is one Fetch.
type fetch struct {
	*Fetcher
	store   Store
	key     string
	got     Fetched
	failed  int  // attempts
	late    bool // an attempt began after the window and its grace
	changed bool // it was begun anew for a changed object
}

// once makes one attempt from the start.
func (w *fetch) once(ctx context.Context, use func(io.Reader) error) error {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-ctx.Done():
		return outcome.Errorf(outcome.Of(context.Cause(ctx)), "%s: %v before a request could be made", plain.Name(w.key), context.Cause(ctx))
	}
	if w.o.Hold > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.o.Hold)
		defer cancel()
	}
	get := Get{}
	if w.o.MaxBytes == 0 || w.o.MaxBytes > w.o.Part {
		get.Len = w.o.Part
	}
	o, err := w.open(ctx, get)
	if err != nil {
		return err
	}
	b := &body{w: w, ctx: ctx, o: o}
	defer func() { b.o.Body.Close() }()
	w.got.ETag, w.got.Size, w.got.LastModified = o.ETag, o.Size, sameSecond(o.LastModified)
	if err := w.allowed(); err != nil {
		return err
	}
	err = use(b)
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		return b.err
	}
	if err != nil {
		return &final{err}
	}
	return nil
}

// final is an error of use: another attempt would end the same.
type final struct{ error }

func (f *final) Unwrap() error { return f.error }

// open makes one request.
func (w *fetch) open(ctx context.Context, get Get) (*Object, error) {
	w.got.Attempts++
	if !w.o.TMax.IsZero() && time.Now().After(w.o.TMax.Add(grace)) {
		w.late = true
	}
	return w.store.Open(ctx, w.key, get)
}

// allowed looks at time and size.
func (w *fetch) allowed() error {
	t := w.got.LastModified
	switch {
	case t.IsZero() && !(w.o.TMin.IsZero() && w.o.TMax.IsZero()):
		return outcome.Errorf(outcome.TooLate, "%s: the store gives no time of its last change, expected one in the window", plain.Name(w.key))
	case !w.o.TMin.IsZero() && t.Before(sameSecond(w.o.TMin)):
		return outcome.Errorf(outcome.TooEarly, "%s: last modified %s, expected from %s", plain.Name(w.key), t.UTC().Format(time.RFC3339), w.o.TMin.UTC().Format(time.RFC3339))
	case !w.o.TMax.IsZero() && t.After(sameSecond(w.o.TMax)):
		return outcome.Errorf(outcome.TooLate, "%s: last modified %s, expected until %s", plain.Name(w.key), t.UTC().Format(time.RFC3339), w.o.TMax.UTC().Format(time.RFC3339))
	case w.o.MaxBytes > 0 && w.got.Size > w.o.MaxBytes:
		return outcome.Errorf(outcome.TooLarge, "%s: %d bytes, expected at most %d", plain.Name(w.key), w.got.Size, w.o.MaxBytes)
	}
	return nil
}

// again reports whether another attempt may be made after err, and waits for its time.
func (w *fetch) again(ctx context.Context, err error) bool {
	var own *final
	s := outcome.Of(err)
	if errors.As(err, &own) || !s.Retryable() || ctx.Err() != nil {
		return false
	}
	if s == outcome.Changed {
		if w.changed {
			return false
		}
		w.changed = true
	}
	return w.pause(ctx, err)
}

// pause counts a failed request and waits. It returns false when there is to be no other.
func (w *fetch) pause(ctx context.Context, err error) bool {
	w.failed++
	if w.late || w.o.Attempts > 0 && w.failed >= w.o.Attempts {
		return false
	}
	most := min(w.o.Cap, w.o.Base<<min(w.failed-1, 20))
	wait := time.Duration(rand.Int64N(int64(most) + 1))
	var told *retryAfter
	if errors.As(err, &told) {
		wait = max(wait, told.after)
	}
	if until, ok := ctx.Deadline(); ok && time.Until(until) < wait {
		return false
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
