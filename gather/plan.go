package gather

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ringside-go/ringside/gather/codec"
)

// Errors of this package.
var (
	// ErrPlan is returned for a plan that cannot be.
	ErrPlan = errors.New("gather: bad plan")

	// ErrAborted is returned on every rank when one cannot go on, or when the ranks do
	// not have the same plan or result.
	ErrAborted = errors.New("gather: aborted")
)

// MaxPeers bounds the peers and reserves of a plan.
const MaxPeers = 65535

// Deal is how peers are dealt to ranks. Each way is a function of the plan and of the
// number of ranks, so that ranks need no messages.
type Deal string

// The ways to deal.
const (
	// RoundRobin gives every rank as many peers, or one less.
	RoundRobin Deal = ""

	// Longest gives the peer with the largest of Plan.Sizes to the rank that has the
	// fewest bytes so far, and goes on with the next smaller one.
	Longest Deal = "longest-first"

	// Rendezvous has a peer stay at its rank when other ranks come or go.
	Rendezvous Deal = "rendezvous"
)

func (d Deal) valid() bool { return d == RoundRobin || d == Longest || d == Rendezvous }

// Policy is the part of a plan that does not change from window to window.
type Policy struct {
	// ReserveRounds is how often failed peers are replaced by reserves. The known
	// implementation has 1; 3 is recommended.
	ReserveRounds int `cbor:"reserve_rounds" json:"reserve_rounds"`

	// MinPeers is the least number of peers that make an update. With fewer the window is
	// skipped. 0 is as 1.
	MinPeers int `cbor:"min_peers" json:"min_peers"`

	// NormLimit bounds the L2 norm of each parameter of a peer. 0: no bound.
	NormLimit float64 `cbor:"norm_limit" json:"norm_limit"`

	// ClipFloor is the least norm that the rule clip-mean scales peers down to. Without
	// it a parameter that more than half of the peers left as it was is not updated.
	ClipFloor float64 `cbor:"clip_floor" json:"clip_floor,omitempty"`

	// Aggregator is the rule by which updates become one; package agg knows them.
	Aggregator string `cbor:"aggregator" json:"aggregator"`

	// Deal is how peers are dealt to ranks.
	Deal Deal `cbor:"deal" json:"deal,omitempty"`
}

// Plan says what is to be gathered in one window. All ranks have the same.
type Plan struct {
	Window   uint64   `cbor:"window" json:"window"`
	Attempt  uint32   `cbor:"attempt" json:"attempt"`
	Intended []uint64 `cbor:"intended" json:"intended"`
	Reserves []uint64 `cbor:"reserves" json:"reserves"`
	// Unix seconds, inclusive; 0: no bound
	TMin     int64         `cbor:"t_min" json:"t_min"`
	TMax     int64         `cbor:"t_max" json:"t_max"`
	Timeout  time.Duration `cbor:"timeout" json:"timeout_ns"` // of each round of requests
	Manifest codec.Digest  `cbor:"manifest" json:"manifest"`
	Policy   Policy        `cbor:"policy" json:"policy"`
	// Weights multiply what peers sent, where the rule is a mean; its divisor remains
	// the number of peers. Each is from 0 to 1, and 1 where none is given. A peer of
	// weight 0 is checked, and is none of those that the mean is of.
	Weights map[uint64]float64 `cbor:"weights,omitempty" json:"weights,omitempty"`
	// bytes of each peer's payload, as of the window before; for Longest
	Sizes map[uint64]uint64 `cbor:"sizes" json:"sizes,omitempty"`

	// Removed counts the duplicates that Normalize removed.
	Removed int `cbor:"removed" json:"duplicates_removed"`
}

// Normalize removes what is in Intended or Reserves twice, keeping the first, and
// reserves that are intended. It returns ErrPlan for a plan that cannot be.
func (p *Plan) Normalize() error {
	switch {
	case len(p.Intended)+len(p.Reserves) > MaxPeers:
		return fmt.Errorf("%w: %d peers and %d reserves, expected at most %d", ErrPlan, len(p.Intended), len(p.Reserves), MaxPeers)
	case p.Timeout <= 0:
		return fmt.Errorf("%w: timeout %v, expected above 0", ErrPlan, p.Timeout)
	case p.TMin != 0 && p.TMax != 0 && p.TMin > p.TMax:
		return fmt.Errorf("%w: the window ends at %d, before it begins at %d", ErrPlan, p.TMax, p.TMin)
	case p.Policy.ReserveRounds < 0 || p.Policy.MinPeers < 0 || !(p.Policy.NormLimit >= 0) || !(p.Policy.ClipFloor >= 0 && p.Policy.ClipFloor <= math.MaxFloat32):
		return fmt.Errorf("%w: policy %+v: expected numbers of at least 0", ErrPlan, p.Policy)
	case !p.Policy.Deal.valid():
		return fmt.Errorf("%w: peers are dealt %q, expected nothing, %q or %q", ErrPlan, p.Policy.Deal, Longest, Rendezvous)
	}
	for uid, w := range p.Weights {
		if !(w >= 0 && w <= 1) {
			return fmt.Errorf("%w: peer %d has weight %v, expected 0 to 1", ErrPlan, uid, w)
		}
	}
	seen := map[uint64]bool{}
	first := func(uid uint64) bool {
		if seen[uid] {
			p.Removed++
			return true
		}
		seen[uid] = true
		return false
	}
	p.Intended = slices.DeleteFunc(slices.Clone(p.Intended), first)
	p.Reserves = slices.DeleteFunc(slices.Clone(p.Reserves), first)
	return nil
}

// Marshal returns the canonical encoding.
func (p *Plan) Marshal() ([]byte, error) { return codec.Marshal(p) }

// ParsePlan reads a plan that Normalize left as it is.
func ParsePlan(b []byte) (*Plan, error) {
	var p Plan
	if err := codec.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	removed := p.Removed
	if err := p.Normalize(); err != nil {
		return nil, err
	}
	if p.Removed != removed {
		return nil, fmt.Errorf("%w: %d peers are named twice", ErrPlan, p.Removed-removed)
	}
	return &p, nil
}

// Digest returns the digest of the plan.
func (p *Plan) Digest() codec.Digest {
	d, err := codec.Sum(p)
	if err != nil {
		// it holds numbers and strings
		panic("gather: a plan cannot be encoded: " + err.Error())
	}
	return d
}

// Primaries returns the intended peers in the order in which they are dealt to ranks.
func (p *Plan) Primaries() []uint64 { return slices.Sorted(slices.Values(p.Intended)) }
