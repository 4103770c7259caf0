package outer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/artifact"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/tensor/train"
)

// source returns where the update of a peer lies.
func (p *Outer) source(window, uid uint64) (store.Store, string) {
	return p.o.Store, artifact.UpdateName(window, uid)
}

// put encodes the way from the last round's weights to weights, and puts it. An update
// that this peer put before a crash stays: others may have it.
func (p *Outer) put(ctx context.Context, weights []train.Weight) error {
	h := codec.Header{Window: p.window, UID: p.o.UID, Step: uint64(p.stats.Rounds)}
	payload, err := p.encoder.Encode(h, func(i int, dst []float32) error {
		for j, before := range p.weights[i] {
			dst[j] = before - weights[i].Values[j]
		}
		return nil
	})
	if err != nil {
		return err
	}
	key := artifact.UpdateName(p.window, p.o.UID)
	err = p.o.Store.Put(ctx, key, bytes.NewReader(payload.Bytes()), payload.Size(), &store.PutOptions{Exclusive: true})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	p.stats.Sent += payload.Size()
	return err
}

// round gathers the round's updates, publishes the result and applies it; or applies the
// one that another peer published before.
func (p *Outer) round(ctx context.Context) error {
	uids, err := p.expected(ctx)
	if err != nil {
		return err
	}
	r, err := p.g.Gather(ctx, p.plan(uids))
	if err != nil {
		return err
	}
	// Peers are skipped then that another peer may wait for.
	if err := context.Cause(ctx); err != nil {
		r.Close()
		return fmt.Errorf("gather of window %d: %w", p.window, err)
	}
	for _, uid := range r.Skipped {
		p.stats.Missing[uid]++
		p.stats.Reasons[uid] = fmt.Sprintf("%v: %s", r.Reasons[uid], r.Details[uid])
	}
	if r.Skip {
		r.Close()
		return fmt.Errorf("%w: window %d has no update of %d peers; peer %d: %s", ErrRound, p.window, len(uids), p.o.UID, r.Details[p.o.UID])
	}
	err = artifact.Emit(ctx, gather.Ranks{}, p.o.Store, r, nil)
	if errors.Is(err, store.ErrExists) {
		r, err = p.theirs(ctx, r)
	}
	if err != nil {
		return err
	}
	return p.apply(ctx, r)
}

// theirs returns the result that another peer published before this peer's own.
func (p *Outer) theirs(ctx context.Context, own *gather.Result) (*gather.Result, error) {
	a, err := p.published(ctx)
	switch {
	case err == nil && a == nil:
		err = fmt.Errorf("%w: the aggregate of window %d was there and is not any more", ErrRound, p.window)
	case err == nil && a.Digest == own.Digest():
		return own, nil
	}
	own.Close()
	if err != nil {
		return nil, err
	}
	return p.again(ctx, a)
}

// plan is of the round under way.
func (p *Outer) plan(uids []uint64) *gather.Plan {
	return &gather.Plan{Window: p.window, Intended: uids, Timeout: p.o.Timeout, Manifest: p.m.Digest(),
		Policy: gather.Policy{MinPeers: 1, NormLimit: p.o.NormLimit, Aggregator: p.o.Aggregator}}
}

// published returns the aggregate of the round under way; nil where there is none yet.
func (p *Outer) published(ctx context.Context) (*artifact.Aggregate, error) {
	a, err := artifact.Load(ctx, p.o.Store, p.window)
	switch {
	case outcome.Of(err) == outcome.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case a.Result.Window != p.window || a.Result.Manifest != p.m.Digest() || a.Result.Aggregator != p.o.Aggregator:
		return nil, fmt.Errorf("%w: the store's aggregate is of window %d, manifest %v, rule %s; expected %d, %v, %s: is the store that of another run?",
			ErrRound, a.Result.Window, a.Result.Manifest, a.Result.Aggregator, p.window, p.m.Digest(), p.o.Aggregator)
	}
	for _, uid := range a.Result.UIDs {
		if uid < 1 || uid > uint64(p.o.Peers) {
			return nil, fmt.Errorf("%w: the aggregate of window %d has peer %d, expected 1 to %d", ErrRound, p.window, uid, p.o.Peers)
		}
	}
	return a, nil
}

// again gathers exactly the updates of an aggregate.
func (p *Outer) again(ctx context.Context, a *artifact.Aggregate) (*gather.Result, error) {
	plan := a.Plan(*p.plan(nil))
	plan.Attempt = 1 // the round's own gather was 0
	r, err := p.g.Gather(ctx, plan)
	if err != nil {
		return nil, err
	}
	if err := a.Verify(r); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// joined is the prefix of the keys by which peers announce themselves for a window.
func joined(window uint64) string { return fmt.Sprintf("joined-%d-", window) }

// announce says that this peer takes part in the round under way.
func (p *Outer) announce(ctx context.Context) error {
	key := joined(p.window) + strconv.FormatUint(p.o.UID, 10)
	return p.o.Store.Put(ctx, key, strings.NewReader("1"), 1, nil)
}

// expected returns the peers whose updates the round under way waits for: those of the
// last round and those that announced themselves; in the first round, and where the store
// lists nothing, all.
func (p *Outer) expected(ctx context.Context) ([]uint64, error) {
	all := make([]uint64, p.o.Peers)
	for i := range all {
		all[i] = uint64(i) + 1
	}
	if p.window == 1 {
		return all, nil
	}
	there, err := p.o.Store.List(ctx, joined(p.window))
	if errors.Is(err, store.ErrUnsupported) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(uid uint64) bool {
		return !slices.Contains(p.last, uid) && !slices.ContainsFunc(there, func(e store.Entry) bool { return e.Key == joined(p.window)+strconv.FormatUint(uid, 10) })
	}), nil
}
