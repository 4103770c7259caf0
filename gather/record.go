package gather

import (
	"fmt"
	"math"
	"slices"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
)

// Record is what a rank found at one peer.
type Record struct {
	UID     uint64          `cbor:"uid" json:"uid"`
	Outcome outcome.Outcome `cbor:"status" json:"status"`
	Detail  string          `cbor:"detail" json:"detail,omitempty"`
	Rank    int             `cbor:"rank" json:"-"` // that has the payload
	ETag    string          `cbor:"etag" json:"etag,omitempty"`
	// Unix seconds; 0: not known
	Modified int64 `cbor:"modified" json:"last_modified,omitempty"`
	// bytes that arrived
	Wire     int64             `cbor:"wire" json:"-"`
	Size     int64             `cbor:"size" json:"payload_bytes,omitempty"`
	Attempts int               `cbor:"attempts" json:"-"`
	Elapsed  float64           `cbor:"elapsed" json:"-"` // seconds
	Step     uint64            `cbor:"step" json:"global_step,omitempty"`
	Digest   codec.Digest      `cbor:"digest" json:"digest"`
	Indices  codec.Digest      `cbor:"indices" json:"indices"`
	Meta     map[string]string `cbor:"meta" json:"meta,omitempty"`
	Norms    []float64         `cbor:"norms" json:"norms,omitempty"` // by parameter
}

// Partial is what one rank found so far. Payloads stay where they are.
type Partial struct {
	Records []Record `cbor:"records"`
}

// parsePartial reads another rank's partial of a manifest with params parameters, whose
// payloads have at most largest bytes.
func parsePartial(b []byte, rank, params int, largest int64) (*Partial, error) {
	var p Partial
	if err := codec.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("gather: partial of rank %d: %w", rank, err)
	}
	for i := range p.Records {
		r := &p.Records[i]
		bad := func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) || x < 0 }
		if !r.Outcome.Valid() || r.Outcome == outcome.OK && (len(r.Norms) != params || slices.ContainsFunc(r.Norms, bad)) {
			return nil, fmt.Errorf("gather: partial of rank %d: peer %d has outcome %d and %d norms, expected %d finite ones", rank, r.UID, r.Outcome, len(r.Norms), params)
		}
		if r.Size < 0 || r.Size > largest {
			return nil, fmt.Errorf("gather: partial of rank %d: peer %d has a payload of %d bytes, expected at most %d", rank, r.UID, r.Size, largest)
		}
		r.Rank = rank
	}
	return &p, nil
}
