package gather

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/store"
)

// Payload is a checked payload in this rank's spool.
type Payload struct {
	Report *codec.Report
	File   *store.Spooled
}

// Progress is how far this rank's requests are.
type Progress struct {
	Peers, Done, OK int
	Bytes           int64
}

// fetchAll gets the payloads of mine and adds what it found to g.records.
func (g *Gatherer) fetchAll(ctx context.Context, w *window, mine []uint64) {
	ctx, cancel := context.WithTimeout(ctx, w.plan.Timeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	w.progress.Peers += len(mine)
	for _, uid := range mine {
		wg.Go(func() {
			r, p := g.fetchOne(ctx, w, uid)
			mu.Lock()
			defer mu.Unlock()
			w.records = append(w.records, *r)
			w.progress.Done++
			if w.progress.Bytes += r.Wire; p != nil {
				w.payloads[uid] = p
				w.progress.OK++
			}
			if g.o.Progress != nil {
				g.o.Progress(w.progress)
			}
		})
	}
	wg.Wait()
}

// Limits of what a record keeps of a store's words: records of all peers go to all ranks.
const (
	maxETag   = 128
	maxDetail = 512
)

// clean returns at most n bytes of s as UTF-8, which is what other ranks accept.
func clean(s string, n int) string {
	return strings.ToValidUTF8(s[:min(len(s), n)], "?")
}

// fetchOne gets one payload. Whatever happens to it stays with this peer.
func (g *Gatherer) fetchOne(ctx context.Context, w *window, uid uint64) (rec *Record, p *Payload) {
	rec = &Record{UID: uid}
	begin := time.Now()
	fail := func(err error) (*Record, *Payload) {
		rec.Outcome, rec.Detail = outcome.Of(err), clean(strings.TrimPrefix(err.Error(), outcome.Of(err).String()+": "), maxDetail)
		if rec.Elapsed = time.Since(begin).Seconds(); p != nil && p.File != nil {
			p.File.Remove()
		}
		return rec, nil
	}
	defer func() {
		if x := recover(); x != nil {
			rec, p = fail(outcome.Errorf(outcome.BadFormat, "the reader gave up: %v", x))
		}
	}()
	switch {
	case g.o.Banned != nil && g.o.Banned(uid):
		return fail(outcome.Errorf(outcome.Banned, "peer %d is banned", uid))
	case g.o.Keys != nil && g.o.Keys[uid] == nil:
		return fail(outcome.Errorf(outcome.BadDigest, "peer %d has no public key, expected one of each peer", uid))
	case !g.claims.claim(w.plan.Window, w.attempt, uid):
		return fail(outcome.Errorf(outcome.Duplicate, "peer %d was fetched in window %d", uid, w.plan.Window))
	}
	p = &Payload{}
	want := codec.Expect{Manifest: g.o.Manifest, Window: w.plan.Window, UID: uid, NormLimit: w.plan.Policy.NormLimit, Key: g.o.Keys[uid]}
	from, key := g.o.Source(w.plan.Window, uid)
	got, err := w.fetcher.Fetch(ctx, from, key, func(body io.Reader) error {
		if err := g.place(p, w, uid); err != nil {
			return err
		}
		var err error
		p.Report, err = codec.Validate(io.TeeReader(body, p.File), &want)
		return err
	})
	rec.ETag, rec.Wire, rec.Attempts = clean(got.ETag, maxETag), got.Wire, got.Attempts
	if !got.LastModified.IsZero() {
		rec.Modified = got.LastModified.Unix()
	}
	if err != nil {
		return fail(err)
	}
	rec.Elapsed = time.Since(begin).Seconds()
	rec.Size, rec.Step, rec.Digest = p.Report.Size, p.Report.Header.Step, p.Report.Digest
	rec.Indices, rec.Meta, rec.Norms = p.Report.Indices, p.Report.Header.Meta, p.Report.Norms
	return rec, p
}

// place gives a payload whose body begins an empty file: a new one, the first time. A
// peer that has sent nothing has none.
func (g *Gatherer) place(p *Payload, w *window, uid uint64) error {
	if p.File != nil {
		return p.File.Reset()
	}
	var err error
	p.File, err = g.spool.Create(fmt.Sprintf("%d-%d-%d.grd1", w.plan.Window, w.attempt, uid))
	return err
}
