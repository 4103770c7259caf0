package gather

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/store"
)

// Options of a Gatherer. Manifest, Source and Spool are required.
type Options struct {
	Manifest *codec.Manifest

	// Source says where a peer's payload of a window lies.
	Source func(window, uid uint64) (store.Store, string)

	// Spool is the folder for payloads. Ranks of one host may share it.
	Spool string

	// Fetch says how payloads are got. MaxBytes, TMin and TMax come from manifest and
	// plan.
	Fetch store.FetchOptions

	// Keys are those that peers sign with. A peer without a key, or whose payload is not
	// signed by its key, is skipped with BAD_DIGEST. Nil asks for no signatures.
	Keys map[uint64]ed25519.PublicKey

	// Banned names peers that are not asked. Nil: none.
	Banned func(uid uint64) bool

	// Elastic goes on with the ranks that are left when one is lost, which fetch again
	// what it had. Otherwise all abort. It needs a group that can shrink.
	Elastic bool

	// Progress is called after every peer, by one goroutine at a time. Nil: it is not.
	Progress func(Progress)

	Logger *slog.Logger // nil discards
}

// Gatherer gathers window after window. Its methods are for one goroutine.
type Gatherer struct {
	Ranks
	o      Options
	claims claims
	spool  *store.Spool
	log    *slog.Logger
	deal   func(p *Plan, list []uint64, offset, rank, size int) []uint64
}

// New returns the Gatherer of this rank of a group; group nil is a rank alone.
func New(group *collective.Group, o *Options) (*Gatherer, error) {
	g := &Gatherer{Ranks: Ranks{group}, o: *o, log: o.Logger, deal: (*Plan).Share}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if err := o.Manifest.Check(); err != nil {
		return nil, err
	}
	// Ranks of one host share the folder: each has a file of its own for every peer,
	// for a peer is dealt to one rank only, and after a loss under another attempt.
	var err error
	g.spool, err = store.NewSpool(o.Spool)
	return g, err
}

// window is one Gather under way.
type window struct {
	plan     *Plan
	attempt  uint32
	fetcher  *store.Fetcher
	records  []Record
	payloads map[uint64]*Payload
	progress Progress
}

// Gather carries out rank 0's plan; what the others give is not looked at. A result with
// Skip set is no error: there is nothing to apply. When ctx ends, a rank alone returns
// what it has; the peers that it was waiting for are CANCELLED, or TIMEOUT at a deadline.
// After an error the payloads are gone.
func (g *Gatherer) Gather(ctx context.Context, plan *Plan) (*Result, error) {
	begin := time.Now()
	plan, err := g.agree(ctx, plan)
	if err != nil {
		return nil, err
	}
	w := &window{plan: plan, attempt: plan.Attempt, fetcher: store.NewFetcher(g.fetchOptions(plan)), payloads: map[uint64]*Payload{}}
	r, err := g.collect(ctx, w)
	if err != nil {
		for _, p := range w.payloads {
			p.File.Remove()
		}
		return nil, err
	}
	r.Time, r.Payloads = time.Since(begin).Seconds(), w.payloads
	for i := range r.Peers {
		if p := &r.Peers[i]; p.Rank != g.Rank() { // another rank has it too
			if mine, ok := w.payloads[p.UID]; ok {
				mine.File.Remove()
				delete(w.payloads, p.UID)
			}
		}
	}
	return r, nil
}

// agree gives all ranks rank 0's plan, and has all abort if one cannot use it.
func (g *Gatherer) agree(ctx context.Context, plan *Plan) (*Plan, error) {
	var b []byte
	var mine error
	if g.Rank() == 0 {
		if mine = plan.Normalize(); mine == nil {
			b, mine = plan.Marshal()
		}
	}
	b, err := g.Broadcast(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("%w: the plan: %w", ErrAborted, err)
	}
	flags, digest := Ready, codec.Digest{}
	if mine == nil {
		plan, mine = ParsePlan(b)
	}
	if mine == nil && plan.Manifest != g.o.Manifest.Digest() {
		mine = fmt.Errorf("%w: it is for manifest %v, rank %d has %v", ErrPlan, plan.Manifest, g.Rank(), g.o.Manifest.Digest())
	}
	if mine != nil {
		flags = Abort
	} else {
		digest = plan.Digest()
	}
	_, err = g.Agree(ctx, "the plan", flags, digest)
	if mine != nil && errors.Is(err, ErrAborted) {
		err = fmt.Errorf("%w: %w", ErrAborted, mine)
	}
	return plan, err
}

func (g *Gatherer) fetchOptions(plan *Plan) store.FetchOptions {
	o := g.o.Fetch
	o.MaxBytes = g.o.Manifest.MaxPayload()
	if plan.TMin != 0 {
		o.TMin = time.Unix(plan.TMin, 0)
	}
	if plan.TMax != 0 {
		o.TMax = time.Unix(plan.TMax, 0)
	}
	ranks := g.Size()
	return o.Share(plan.Timeout, (len(plan.Intended)+ranks-1)/ranks)
}

// collect fetches and exchanges records until every rank knows of all that is wanted: the
// primaries, what a lost rank had, and reserves while there are rounds left.
func (g *Gatherer) collect(ctx context.Context, w *window) (*Result, error) {
	primaries := w.plan.Primaries()
	wanted, rounds := primaries, w.plan.Policy.ReserveRounds
	todo, offset := primaries, 0
	var m *merged
	for {
		g.fetchWatched(ctx, w, g.deal(w.plan, todo, offset, g.Rank(), g.Size()))
		var err error
		if m, err = g.exchange(ctx, w); err != nil {
			return nil, err
		}
		if todo, offset = m.unknown(wanted), 0; len(todo) > 0 { // of a lost rank
			w.attempt++
			continue
		}
		missing := len(primaries) - m.accepted(wanted)
		next := len(wanted) - len(primaries)
		n := min(missing, len(w.plan.Reserves)-next)
		if rounds == 0 || n <= 0 || ctx.Err() != nil {
			break
		}
		rounds--
		todo, offset = w.plan.Reserves[next:next+n], len(wanted)
		wanted = append(wanted[:len(wanted):len(wanted)], todo...)
	}
	r := newResult(w.plan, m, wanted)
	flags := Ready
	if r.Skip {
		flags |= Skip
	}
	_, err := g.Agree(ctx, "the result", flags, r.Digest())
	return r, err
}

// watchEvery is how often a rank that fetches looks whether its group still works.
const watchEvery = 100 * time.Millisecond

// fetchWatched fetches; when the group fails meanwhile it gives up what is under way, if
// nothing can come of it.
func (g *Gatherer) fetchWatched(ctx context.Context, w *window, mine []uint64) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	if g.Group != nil && !g.o.Elastic {
		go func() {
			tick := time.NewTicker(watchEvery)
			defer tick.Stop()
			for {
				select {
				case <-done:
					return
				case <-tick.C:
					if err := g.Group.Err(); err != nil {
						cancel(outcome.Errorf(outcome.Cancelled, "%v", err))
						return
					}
				}
			}
		}()
	}
	g.fetchAll(ctx, w, mine)
	close(done)
}

// exchange gives every rank the records of all. When a rank is lost it shrinks the group,
// if it may, and exchanges again.
func (g *Gatherer) exchange(ctx context.Context, w *window) (*merged, error) {
	for {
		b, err := codec.Marshal(&Partial{Records: w.records})
		if err != nil {
			return nil, fmt.Errorf("gather: encoding a partial: %w", err)
		}
		all, err := g.Ranks.Gather(ctx, b)
		if err != nil {
			if err = g.shrink(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		partials := make([]*Partial, len(all))
		for rank, b := range all {
			if partials[rank], err = parsePartial(b, rank, len(g.o.Manifest.Params), g.o.Manifest.MaxPayload()); err != nil {
				return nil, errors.Join(ErrAborted, err)
			}
		}
		return merge(partials), nil
	}
}

// shrink goes on without the ranks that are lost.
func (g *Gatherer) shrink(ctx context.Context, lost error) error {
	if !g.o.Elastic || g.Group == nil || !errors.Is(lost, collective.ErrPeerLost) && !errors.Is(lost, collective.ErrTimeout) {
		return fmt.Errorf("%w: %w", ErrAborted, lost)
	}
	smaller, err := g.Group.Shrink(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w; going on without it: %w", ErrAborted, lost, err)
	}
	g.log.Warn("a rank is lost; the others go on", "cause", lost, "ranks", smaller.Size())
	old := g.Group
	g.Group = smaller
	return cmp.Or(old.Close(), nil)
}
