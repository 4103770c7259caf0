package gather

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
)

// Result is what a window's gather came to. It is the same on every rank, but for what
// JSON leaves out.
type Result struct {
	Window uint64 `json:"window" cbor:"window"`
	// too few peers: there is no update
	Skip bool `json:"skip" cbor:"skip"`
	// primaries ascending, then reserves
	UIDs []uint64 `json:"uids" cbor:"uids"`
	// by UIDs
	GlobalSteps []uint64 `json:"global_steps" cbor:"global_steps"`
	// primaries ascending, then reserves
	Skipped     []uint64 `json:"skipped_uids" cbor:"skipped_uids"`
	SuccessRate float64  `json:"success_rate" cbor:"success_rate"`
	Intended    []uint64 `json:"intended" cbor:"intended"`
	ReserveUsed int      `json:"reserve_used" cbor:"reserve_used"`
	Upload      int64    `json:"upload_bytes" cbor:"upload_bytes"`
	// of accepted payloads
	Download int64 `json:"download_bytes" cbor:"download_bytes"`
	// of the skipped
	Reasons map[uint64]outcome.Outcome `json:"reasons" cbor:"reasons"`
	// accepted ones, by UIDs
	Peers []Record `json:"peers" cbor:"peers"`
	// by parameter: the lower median, or the plan's floor
	ClipNorms []float64 `json:"clip_norms" cbor:"clip_norms"`
	ClipFloor float64   `json:"clip_floor,omitempty" cbor:"clip_floor"`
	// the plan's, of accepted peers
	Weights    map[uint64]float64 `json:"weights,omitempty" cbor:"weights,omitempty"`
	Removed    int                `json:"duplicates_removed" cbor:"duplicates_removed"`
	Duplicates int                `json:"duplicates" cbor:"duplicates"`
	Conflicts  int                `json:"conflicts" cbor:"conflicts"`
	PlanDigest codec.Digest       `json:"plan" cbor:"plan"`
	Manifest   codec.Digest       `json:"manifest" cbor:"manifest"`
	Aggregator string             `json:"aggregator" cbor:"aggregator"`

	// the plan's, at least 1; below it Skip is set
	MinPeers int `json:"-" cbor:"-"`

	// These differ between ranks or runs.
	Time     float64             `json:"-" cbor:"-"` // seconds
	Details  map[uint64]string   `json:"-" cbor:"-"` // of the skipped
	Wire     int64               `json:"-" cbor:"-"` // bytes that arrived on all ranks
	Payloads map[uint64]*Payload `json:"-" cbor:"-"` // that this rank holds
}

// JSON returns the result as all ranks have it.
func (r *Result) JSON() ([]byte, error) { return json.Marshal(r) }

// Digest returns a digest of what all ranks have: of the payloads that make the update,
// of their weights and of the rule, and of nothing that depends on where they lay or when
// they arrived.
func (r *Result) Digest() codec.Digest {
	type peer struct {
		UID    uint64
		Digest codec.Digest
	}
	body := struct {
		Window     uint64
		Manifest   codec.Digest
		Aggregator string
		Peers      []peer
		Weights    map[uint64]float64 `cbor:",omitempty"`
	}{Window: r.Window, Manifest: r.Manifest, Aggregator: r.Aggregator, Weights: r.Weights}
	for _, p := range r.Peers {
		body.Peers = append(body.Peers, peer{p.UID, p.Digest})
	}
	slices.SortFunc(body.Peers, func(a, b peer) int { return cmp.Compare(a.UID, b.UID) })
	d, err := codec.Sum(&body)
	if err != nil {
		// it holds numbers and strings
		panic("gather: a result cannot be encoded: " + err.Error())
	}
	return d
}

// Close removes the payloads of this rank from its spool.
func (r *Result) Close() error {
	var first error
	for _, p := range r.Payloads {
		first = cmp.Or(first, p.File.Remove())
	}
	clear(r.Payloads)
	return first
}

// newResult makes the result of what was found at wanted, which begins with the
// primaries.
func newResult(plan *Plan, m *merged, wanted []uint64) *Result {
	r := &Result{
		Window: plan.Window, Intended: plan.Primaries(), Removed: plan.Removed,
		Duplicates: m.duplicates, Conflicts: m.conflicts, Reasons: map[uint64]outcome.Outcome{}, Details: map[uint64]string{},
		PlanDigest: plan.Digest(), Manifest: plan.Manifest, Aggregator: plan.Policy.Aggregator,
		UIDs: []uint64{}, Skipped: []uint64{}, GlobalSteps: []uint64{}, Peers: []Record{}, ClipNorms: []float64{},
	}
	primaries := len(plan.Intended)
	order := append(slices.Clone(wanted[:primaries]), slices.Sorted(slices.Values(wanted[primaries:]))...)
	for i, uid := range order {
		rec := m.records[uid]
		r.Wire += rec.Wire
		if rec.Outcome != outcome.OK {
			r.Skipped = append(r.Skipped, uid)
			r.Reasons[uid], r.Details[uid] = rec.Outcome, rec.Detail
			continue
		}
		r.UIDs = append(r.UIDs, uid)
		r.GlobalSteps = append(r.GlobalSteps, rec.Step)
		r.Peers = append(r.Peers, *rec)
		if r.Download += rec.Size; i >= primaries {
			r.ReserveUsed++
		}
		if w, ok := plan.Weights[uid]; ok {
			if r.Weights == nil {
				r.Weights = map[uint64]float64{}
			}
			r.Weights[uid] = w
		}
	}
	if primaries > 0 {
		r.SuccessRate = float64(len(r.UIDs)) / float64(primaries)
	}
	r.MinPeers = max(1, plan.Policy.MinPeers)
	r.Skip = len(r.UIDs) < r.MinPeers
	r.ClipFloor = plan.Policy.ClipFloor
	r.ClipNorms = clipNorms(r.Peers, r.ClipFloor)
	return r
}

// clipNorms returns the lower median of the peers' norms of each parameter, at least
// floor.
func clipNorms(peers []Record, floor float64) []float64 {
	if len(peers) == 0 {
		return []float64{}
	}
	out := make([]float64, len(peers[0].Norms))
	norms := make([]float64, len(peers))
	for p := range out {
		for i := range peers {
			norms[i] = peers[i].Norms[p]
		}
		slices.Sort(norms)
		out[p] = max(norms[(len(norms)-1)/2], floor)
	}
	return out
}
