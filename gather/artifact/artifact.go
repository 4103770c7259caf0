// Package artifact publishes what a window's gather came to, so that those that were not
// there can verify it and apply it.
//
//	aggregate-7.json  the result: peers, digests, norms, reasons; and its digest
//	aggregate-7.full  the payloads of the accepted peers, one behind the other by UIDs
//
//	| payload of UIDs[0] | payload of UIDs[1] | … |    Peers[i].Size bytes each
//
// Rank 0 creates both, once: a second emitter gets store.ErrExists. Where the store
// takes uploads in parts, every rank uploads payloads that it has, and no rank holds
// more than a piece of any. Payloads smaller than the least part of S3 go together, by
// the rank that has the first of them; the others send it theirs in pieces.
//
// An object of payloads is a source for a Gatherer like any other (Source), so that an
// artifact is applied by the same code as live payloads, to the same bits.
package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/store"
)

// Version of the JSON.
//
//	1  2026-11: the first
const Version = 1

// partSize is the least bytes of a part; S3 refuses less than 5 MiB of any but the last.
const partSize = 5 << 20

// piece is what ranks send each other of a payload at once.
const piece = 1 << 20

// ErrVerify is returned when an aggregate does not hold what it says.
var ErrVerify = errors.New("artifact: verification failed")

// Aggregate is the published result of a window.
type Aggregate struct {
	Version int             `json:"version"`
	Digest  codec.Digest    `json:"digest"` // of Result
	Result  *gather.Result  `json:"result"`
	Overlap json.RawMessage `json:"overlap,omitempty"`
}

// Name returns the key of the JSON of a window.
func Name(window uint64) string { return fmt.Sprintf("aggregate-%d.json", window) }

// FullName returns the key of the payloads of a window.
func FullName(window uint64) string { return fmt.Sprintf("aggregate-%d.full", window) }

// UpdateName returns the key of a peer's payload.
func UpdateName(window, uid uint64) string { return fmt.Sprintf("update-%d-%d.grd1", window, uid) }

// Emit publishes the JSON, by rank 0. overlap is that report's JSON, or nil.
func Emit(ctx context.Context, ranks gather.Ranks, s store.Store, r *gather.Result, overlap []byte) error {
	var mine error
	if ranks.Rank() == 0 {
		b, err := json.Marshal(&Aggregate{Version, r.Digest(), r, overlap})
		if err != nil {
			return err
		}
		mine = s.Put(ctx, Name(r.Window), bytes.NewReader(b), int64(len(b)), exclusive(r))
	}
	return together(ctx, ranks, mine)
}

func exclusive(r *gather.Result) *store.PutOptions {
	return &store.PutOptions{Exclusive: true, Metadata: map[string]string{"digest": r.Digest().String()}}
}

// together has every rank return an error when one has one.
func together(ctx context.Context, ranks gather.Ranks, mine error) error {
	flags := gather.Ready
	if mine != nil {
		flags = gather.Abort
	}
	_, err := ranks.Agree(ctx, "the artifact", flags, codec.Digest{})
	if mine != nil {
		return mine
	}
	return err
}

// EmitFull publishes the payloads. All ranks call it.
func EmitFull(ctx context.Context, ranks gather.Ranks, s store.Uploader, r *gather.Result) error {
	key := FullName(r.Window)
	var id string
	var mine error
	if ranks.Rank() == 0 {
		id, mine = s.CreateUpload(ctx, key, exclusive(r))
	}
	if err := together(ctx, ranks, mine); err != nil {
		return err
	}
	b, err := ranks.Broadcast(ctx, []byte(id))
	if err != nil {
		return err
	}
	tags, mine := upload(ctx, ranks, s, r, string(b))
	if err := together(ctx, ranks, mine); err != nil {
		return errors.Join(err, abandon(ctx, ranks, s, key, string(b)))
	}
	all, err := ranks.Gather(ctx, []byte(join(tags)))
	if err != nil {
		return errors.Join(err, abandon(ctx, ranks, s, key, string(b)))
	}
	if ranks.Rank() == 0 {
		if mine = s.CompleteUpload(ctx, key, id, split(all, len(groups(r))), exclusive(r)); mine != nil {
			mine = errors.Join(mine, abandon(ctx, ranks, s, key, id))
		}
	}
	return together(ctx, ranks, mine)
}

// abandon leaves nothing of an upload. It works also where ctx is done.
func abandon(ctx context.Context, ranks gather.Ranks, s store.Uploader, key, id string) error {
	if ranks.Rank() != 0 {
		return nil
	}
	return s.AbortUpload(context.WithoutCancel(ctx), key, id)
}

// join and split carry the ETags of parts, by number, between ranks.
func join(tags map[int]string) string {
	b, _ := json.Marshal(tags) // numbers and strings
	return string(b)
}

func split(all [][]byte, n int) []string {
	out := make([]string, n)
	for _, b := range all {
		tags := map[int]string{}
		if json.Unmarshal(b, &tags) != nil {
			continue // its parts are missing, and the store says so
		}
		for i, tag := range tags {
			if i >= 0 && i < n {
				out[i] = tag
			}
		}
	}
	return out
}

// group is the peers of one part.
type group struct {
	from, to int // places in UIDs
	size     int64
}

// groups puts payloads together until a part is large enough.
func groups(r *gather.Result) []group {
	var out []group
	for i := range r.Peers {
		if n := len(out); n == 0 || out[n-1].size >= partSize {
			out = append(out, group{from: i})
		}
		g := &out[len(out)-1]
		g.to = i + 1
		g.size += r.Peers[i].Size
	}
	return out
}

// upload uploads the parts whose first payload this rank has, and sends the others
// theirs. All ranks go through the parts in order.
func upload(ctx context.Context, ranks gather.Ranks, s store.Uploader, r *gather.Result, id string) (map[int]string, error) {
	tags := map[int]string{}
	for n, g := range groups(r) {
		to := r.Peers[g.from].Rank
		if ranks.Rank() == to {
			in := &incoming{ctx: ctx, ranks: ranks, r: r, g: g}
			tag, err := s.UploadPart(ctx, FullName(r.Window), id, n+1, in, g.size)
			// the senders do not know of err
			if _, drained := io.Copy(io.Discard, in); err == nil {
				err = drained
			}
			if err != nil {
				return nil, fmt.Errorf("part %d of %s: %w", n+1, FullName(r.Window), err)
			}
			tags[n] = tag
			continue
		}
		for i := g.from; i < g.to; i++ {
			if r.Peers[i].Rank != ranks.Rank() {
				continue
			}
			buf := make([]byte, piece)
			for off := int64(0); off < r.Peers[i].Size; {
				b := buf[:min(piece, r.Peers[i].Size-off)]
				if _, err := r.Payloads[r.Peers[i].UID].File.ReadAt(b, off); err != nil {
					return nil, err
				}
				if err := collective.Send(ctx, ranks.Group, b, to); err != nil {
					return nil, err
				}
				off += int64(len(b))
			}
		}
	}
	return tags, nil
}

// incoming reads the payloads of a group, wherever they lie.
type incoming struct {
	ctx   context.Context
	ranks gather.Ranks
	r     *gather.Result
	g     group
	off   int64  // in the payload of g.from
	left  []byte // of the piece under way
	buf   []byte
}

// Read implements io.Reader.
func (in *incoming) Read(b []byte) (int, error) {
	for len(in.left) == 0 {
		if in.g.from == in.g.to {
			return 0, io.EOF
		}
		p := &in.r.Peers[in.g.from]
		if in.off == p.Size {
			in.g.from, in.off = in.g.from+1, 0
			continue
		}
		if in.buf == nil {
			in.buf = make([]byte, piece)
		}
		in.left = in.buf[:min(piece, p.Size-in.off)]
		var err error
		if p.Rank == in.ranks.Rank() {
			_, err = in.r.Payloads[p.UID].File.ReadAt(in.left, in.off)
		} else {
			err = collective.Recv(in.ctx, in.ranks.Group, in.left, p.Rank)
		}
		if err != nil {
			return 0, err
		}
		in.off += int64(len(in.left))
	}
	n := copy(b, in.left)
	in.left = in.left[n:]
	return n, nil
}

// Load reads the JSON of a window and checks that it agrees with itself.
func Load(ctx context.Context, s store.Store, window uint64) (*Aggregate, error) {
	o, err := s.Open(ctx, Name(window), store.Get{})
	if err != nil {
		return nil, err
	}
	defer o.Body.Close()
	b, err := io.ReadAll(io.LimitReader(o.Body, maxJSON+1))
	if err != nil {
		return nil, err
	}
	a, err := Parse(b)
	if err == nil && a.Result.Window != window {
		return nil, fmt.Errorf("%w: %s is of window %d", ErrVerify, Name(window), a.Result.Window)
	}
	return a, err
}

// maxJSON bounds the JSON of a window. 256 peers with 300 parameters have 1.5 MB.
const maxJSON = 256 << 20

// Parse reads an aggregate.
func Parse(b []byte) (*Aggregate, error) {
	if len(b) > maxJSON {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrVerify, maxJSON)
	}
	var a Aggregate
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVerify, err)
	}
	r := a.Result
	switch {
	case a.Version != Version || r == nil:
		return nil, fmt.Errorf("%w: version %d, expected %d and a result", ErrVerify, a.Version, Version)
	case len(r.Peers) != len(r.UIDs):
		return nil, fmt.Errorf("%w: %d peers and %d uids", ErrVerify, len(r.Peers), len(r.UIDs))
	case r.Digest() != a.Digest:
		return nil, fmt.Errorf("%w: the result has digest %v, expected %v", ErrVerify, r.Digest(), a.Digest)
	}
	var size int64
	for i := range r.Peers {
		if size += r.Peers[i].Size; size < 0 {
			return nil, fmt.Errorf("%w: the payloads have more than 2⁶³ bytes", ErrVerify)
		}
		if r.Peers[i].UID != r.UIDs[i] || r.Peers[i].Size < 0 || r.Peers[i].Outcome != outcome.OK {
			return nil, fmt.Errorf("%w: record %d is of peer %d with %d bytes, outcome %v", ErrVerify, i, r.Peers[i].UID, r.Peers[i].Size, r.Peers[i].Outcome)
		}
	}
	if err := a.Plan(gather.Plan{Timeout: 1}).Normalize(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVerify, err)
	}
	return &a, nil
}

// Plan returns a plan that gathers the accepted peers again, for Source or for the places
// where the payloads lay.
func (a *Aggregate) Plan(like gather.Plan) *gather.Plan {
	like.Window, like.Intended, like.Reserves = a.Result.Window, a.Result.UIDs, nil
	like.TMin, like.TMax, like.Manifest = 0, 0, a.Result.Manifest
	like.Policy.Aggregator, like.Policy.ClipFloor, like.Weights = a.Result.Aggregator, a.Result.ClipFloor, a.Result.Weights
	return &like
}

// Source returns where the payloads of a published window lie, for gather.Options.
func (a *Aggregate) Source(s store.Store) func(window, uid uint64) (store.Store, string) {
	v := &view{Store: s, at: map[string][2]int64{}, key: FullName(a.Result.Window)}
	off := int64(0)
	for i := range a.Result.Peers {
		p := &a.Result.Peers[i]
		v.at[fmt.Sprint(p.UID)] = [2]int64{off, p.Size}
		off += p.Size
	}
	return func(_, uid uint64) (store.Store, string) { return v, fmt.Sprint(uid) }
}

// view is the payloads of an object as objects of their own.
type view struct {
	store.Store
	key string
	at  map[string][2]int64 // by peer: offset and size
}

// Open implements store.Store.
func (v *view) Open(ctx context.Context, key string, get store.Get) (*store.Object, error) {
	at, ok := v.at[key]
	if !ok {
		return nil, outcome.Errorf(outcome.NotFound, "peer %s is not in %s", key, v.key)
	}
	n := at[1] - get.Off
	if get.Len > 0 {
		n = min(n, get.Len)
	}
	o, err := v.Store.Open(ctx, v.key, store.Get{Off: at[0] + get.Off, Len: max(n, 1), IfMatch: get.IfMatch})
	if err == nil {
		o.Size = at[1]
	}
	return o, err
}

// Verify compares an aggregate with what was gathered again by its Plan.
func (a *Aggregate) Verify(again *gather.Result) error {
	for _, uid := range again.Skipped {
		return fmt.Errorf("%w: peer %d: %v: %s", ErrVerify, uid, again.Reasons[uid], again.Details[uid])
	}
	was := map[uint64]codec.Digest{}
	for i := range a.Result.Peers {
		was[a.Result.Peers[i].UID] = a.Result.Peers[i].Digest
	}
	for i := range again.Peers {
		if p := &again.Peers[i]; was[p.UID] != p.Digest {
			return fmt.Errorf("%w: the payload of peer %d has digest %v, expected %v", ErrVerify, p.UID, p.Digest, was[p.UID])
		}
	}
	if again.Digest() != a.Digest {
		return fmt.Errorf("%w: the result has digest %v, expected %v", ErrVerify, again.Digest(), a.Digest)
	}
	for p, c := range again.ClipNorms {
		if p >= len(a.Result.ClipNorms) || a.Result.ClipNorms[p] != c {
			return fmt.Errorf("%w: clip norm of parameter %d is %v, the aggregate has %v", ErrVerify, p, c, a.Result.ClipNorms)
		}
	}
	return nil
}
