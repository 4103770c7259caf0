package outer

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/agg"
	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/tensor/train"
)

// Defaults of Options. The outer step is longer than the mean of the updates. Momentum,
// as the DiLoCo paper has it, is no better in runs of tens of rounds (docs/decisions.md).
const (
	DefaultLR       = 1.4
	DefaultMomentum = 0
	DefaultBeta     = 0.95
	DefaultTimeout  = time.Minute
)

// DefaultConfig returns the format of updates: all values, of 4 levels. Few peers meet
// here, so that robust rules need the votes of all of them at every position.
func DefaultConfig() codec.Config {
	c := codec.DefaultConfig()
	c.TopK = c.Chunk * c.Chunk
	return c
}

// ErrOption is returned by New for options that cannot be.
var ErrOption = errors.New("outer: bad option")

// ErrRound is returned for a round that this peer cannot follow.
var ErrRound = errors.New("outer: the round cannot be followed")

// Options of a peer. Store, Spool, UID and Peers are required. All peers have the same
// but for UID, Spool and Key.
type Options struct {
	Store store.Store
	Spool string // folder for payloads while they are worked on, of this peer alone

	UID   uint64 // 1 to Peers
	Peers int

	Config     *codec.Config   // of payloads. Nil: DefaultConfig
	Optimizer  apply.Optimizer // of the outer step. Zero: the defaults
	Aggregator string          // rule of package agg. Empty: agg.Default
	NormLimit  float64         // largest norm of a parameter of an update; 0: no bound

	// Timeout is how long a round waits for updates that are not there. 0: the default.
	Timeout time.Duration

	// Fetch says how payloads are got, and how often one that is not there is asked for.
	Fetch store.FetchOptions

	Key  ed25519.PrivateKey           // signs this peer's updates. Nil does not sign
	Keys map[uint64]ed25519.PublicKey // see gather.Options
}

// Outer is one peer. It implements train.Outer; its methods are for one goroutine.
type Outer struct {
	o        Options
	m        *codec.Manifest
	g        *gather.Gatherer
	encoder  *codec.Encoder
	weights  apply.Mem // of the last round that is over: the same at every peer
	momentum apply.Mem
	window   uint64   // of the round under way
	last     []uint64 // peers of the last round
	stats    Stats
}

// Stats says what a peer did so far.
type Stats struct {
	Peer     uint64 `json:"peer"`
	Rounds   int    `json:"rounds"`         // that are over
	Sent     int64  `json:"sent_bytes"`     // of this peer's updates
	Received int64  `json:"received_bytes"` // of all peers' updates, over all attempts

	// Missing counts for each peer the rounds that went without it.
	Missing map[uint64]int `json:"missing"`

	// Reasons has the last cause for each peer of Missing.
	Reasons map[uint64]string `json:"reasons"`

	// Weights is the SHA-256 of the weights of the last round, in hexadecimal.
	Weights string `json:"weights_sha256"`
}

var _ train.Outer = (*Outer)(nil)

// New returns a peer, which has done nothing yet.
func New(o *Options) (*Outer, error) {
	p := &Outer{o: *o, window: 1, stats: Stats{Peer: o.UID, Missing: map[uint64]int{}, Reasons: map[uint64]string{}}}
	switch {
	case o.Peers < 1 || o.Peers > gather.MaxPeers:
		return nil, fmt.Errorf("%w: %d peers, expected 1 to %d", ErrOption, o.Peers, gather.MaxPeers)
	case o.UID < 1 || o.UID > uint64(o.Peers):
		return nil, fmt.Errorf("%w: peer %d, expected 1 to %d", ErrOption, o.UID, o.Peers)
	case o.Store == nil || o.Spool == "":
		return nil, fmt.Errorf("%w: expected a store and a folder for the spool", ErrOption)
	}
	if p.o.Aggregator == "" {
		p.o.Aggregator = agg.Default
	}
	if _, err := agg.Find(p.o.Aggregator); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	if p.o.Optimizer == (apply.Optimizer{}) {
		p.o.Optimizer = apply.Optimizer{LR: DefaultLR, Momentum: DefaultMomentum}
	}
	if p.o.Timeout == 0 {
		p.o.Timeout = DefaultTimeout
	}
	if p.o.Config == nil {
		c := DefaultConfig()
		p.o.Config = &c
	}
	return p, nil
}

// Peer implements train.Outer.
func (p *Outer) Peer() (index, peers int) { return int(p.o.UID) - 1, p.o.Peers }

// Stats returns what the peer did so far.
func (p *Outer) Stats() Stats {
	s := p.stats
	h := sha256.New()
	for _, w := range p.weights {
		b := make([]byte, 0, 4*len(w))
		for _, x := range w {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		h.Write(b)
	}
	s.Weights = hex.EncodeToString(h.Sum(nil))
	return s
}

// Begin implements train.Outer: it applies the rounds that the store has.
func (p *Outer) Begin(ctx context.Context, weights []train.Weight) (rounds int, err error) {
	tensors := make([]codec.Tensor, len(weights))
	p.weights = nil
	for i, w := range weights {
		tensors[i] = codec.Tensor{Name: w.Name, DType: "F32"}
		for _, d := range w.Shape {
			tensors[i].Shape = append(tensors[i].Shape, int64(d))
		}
		p.weights = append(p.weights, slices.Clone(w.Values))
	}
	if p.m, err = codec.NewManifest(*p.o.Config, tensors); err != nil {
		return 0, err
	}
	p.g, err = gather.New(nil, &gather.Options{Manifest: p.m, Spool: p.o.Spool, Fetch: p.o.Fetch, Keys: p.o.Keys, Source: p.source})
	if err != nil {
		return 0, err
	}
	p.encoder = codec.NewEncoder(p.m, &codec.EncoderOptions{Beta: DefaultBeta, Key: p.o.Key})
	p.momentum = apply.NewMem(p.m)
	return p.follow(ctx, weights)
}

// Exchange implements train.Outer. A round that others finished meanwhile goes without
// this peer's steps.
func (p *Outer) Exchange(ctx context.Context, weights []train.Weight) (rounds int, err error) {
	a, err := p.published(ctx)
	if err != nil {
		return 0, err
	}
	if a == nil {
		if err := p.put(ctx, weights); err != nil {
			return 0, err
		}
		if err := p.round(ctx); err != nil {
			return 0, err
		}
	}
	return p.follow(ctx, weights)
}

// follow applies published rounds until there is none, announces this peer for the next
// and gives weights the values of the last.
func (p *Outer) follow(ctx context.Context, weights []train.Weight) (rounds int, err error) {
	for {
		a, err := p.published(ctx)
		if err != nil {
			return 0, err
		}
		if a == nil {
			break
		}
		r, err := p.again(ctx, a)
		if err != nil {
			return 0, err
		}
		if err := p.apply(ctx, r); err != nil {
			return 0, err
		}
	}
	if err := p.announce(ctx); err != nil {
		return 0, err
	}
	for i := range weights {
		copy(weights[i].Values, p.weights[i])
	}
	return p.stats.Rounds, nil
}

// apply takes the outer step of a round, which is then over.
func (p *Outer) apply(ctx context.Context, r *gather.Result) error {
	defer r.Close()
	_, err := apply.Update(ctx, gather.Ranks{}, r, p.m, p.weights, &apply.Options{Optimizer: p.o.Optimizer, Momentum: p.momentum})
	if err != nil {
		return err
	}
	p.stats.Rounds++
	p.stats.Received += r.Wire
	p.window, p.last = p.window+1, r.UIDs
	return nil
}
