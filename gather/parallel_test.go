package gather_test

import (
	"bytes"
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/store"
)

// waves is a store that answers requests when so many wait, all at once.
type waves struct {
	store.Store
	size int

	mu      sync.Mutex
	waiting chan struct{} // is closed when the wave is full
	in, n   int           // requests of the wave under way; waves that were answered
}

func (w *waves) Open(ctx context.Context, key string, get store.Get) (*store.Object, error) {
	w.mu.Lock()
	if w.in == 0 {
		w.waiting = make(chan struct{})
	}
	wave := w.waiting
	if w.in++; w.in == w.size {
		w.in = 0
		w.n++
		close(wave)
	}
	w.mu.Unlock()
	select {
	case <-wave:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return w.Store.Open(ctx, key, get)
}

// counted is a store that counts the bytes that are read.
type counted struct {
	store.Store
	n atomic.Int64
}

func (c *counted) Open(ctx context.Context, key string, get store.Get) (*store.Object, error) {
	o, err := c.Store.Open(ctx, key, get)
	if err == nil {
		body := o.Body
		o.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(body, c), body}
	}
	return o, err
}

func (c *counted) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// parallel gathers 64 peers on so many ranks, of which each has a store and 4 requests
// under way, and wants all of them.
func parallel(t *testing.T, ranks int, at func(rank int) store.Store) {
	t.Helper()
	m := codectest.Tiny(codec.KnownConfig())
	spool := t.TempDir()
	var wg sync.WaitGroup
	for rank, group := range groups(t, ranks) {
		wg.Go(func() {
			g, err := gather.New(group, &gather.Options{Manifest: m, Spool: spool, Fetch: store.FetchOptions{Attempts: 1, Concurrency: 4},
				Source: func(_, uid uint64) (store.Store, string) { return at(rank), key(uid) }})
			if err != nil {
				t.Error(err)
				return
			}
			r, err := g.Gather(t.Context(), &gather.Plan{Window: window, Intended: uids(1, 64), Timeout: time.Minute, Manifest: m.Digest()})
			if err != nil {
				t.Error(err)
				return
			}
			if len(r.UIDs) != 64 {
				t.Errorf("%d ranks: %d peers, %v", ranks, len(r.UIDs), r.Details)
			}
			r.Close()
		})
	}
	wg.Wait()
}

// sixtyFour has the payloads of 64 peers, which are alike but for the header.
func sixtyFour(t *testing.T) *store.Mem {
	noLeaks(t)
	m, s := codectest.Tiny(codec.KnownConfig()), &store.Mem{}
	p := codectest.Payload(m, window, 1, nil)
	for _, uid := range uids(1, 64) {
		h := p.Header
		h.UID = uid
		sealed, err := codec.Seal(h, p.Sections(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), key(uid), bytes.NewReader(sealed.Bytes()), sealed.Size(), nil); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestT11Latency: 64 requests take as many round trips as they must with 4 at a time on
// each rank. The time is measured by ringside bench gather.
func TestT11Latency(t *testing.T) {
	s := sixtyFour(t)
	for _, ranks := range []int{1, 2, 4, 8} {
		w := &waves{Store: s, size: 4 * ranks}
		parallel(t, ranks, func(int) store.Store { return w })
		if want := 64 / w.size; w.n != want || w.in != 0 {
			t.Errorf("%d ranks: %d round trips and %d requests, expected %d", ranks, w.n, w.in, want)
		}
		t.Logf("%d ranks: %d round trips", ranks, w.n)
	}
}

// TestT12Bandwidth: each rank's line carries its share of the bytes, and a line that they
// share carries as many for any number of ranks. The time is measured by ringside bench
// gather.
func TestT12Bandwidth(t *testing.T) {
	s := sixtyFour(t)
	var all int64
	for _, ranks := range []int{1, 2, 4, 8} {
		lines := make([]*counted, ranks)
		for i := range lines {
			lines[i] = &counted{Store: s}
		}
		parallel(t, ranks, func(rank int) store.Store { return lines[rank] })
		if all == 0 {
			all = lines[0].n.Load()
		}
		for rank, l := range lines {
			// headers of larger numbers are a byte longer
			if n, want := l.n.Load(), all/int64(ranks); max(n, want)-min(n, want) > 64 {
				t.Errorf("rank %d of %d read %d bytes, expected %d", rank, ranks, n, want)
			}
		}
		t.Logf("%d ranks: %d bytes of %d on the line of rank 0", ranks, lines[0].n.Load(), all)
	}
}
