package gather

import (
	"cmp"
	"slices"

	"github.com/ringside-go/ringside/gather/outcome"
)

// merged is what all ranks found, one record a peer.
type merged struct {
	records    map[uint64]*Record
	duplicates int // peers that two ranks have, with the same payload
	conflicts  int // with different payloads
}

// merge puts partials together, which are by rank. Every rank comes to the same.
func merge(partials []*Partial) *merged {
	m := &merged{records: map[uint64]*Record{}}
	for _, p := range partials {
		for i := range p.Records {
			m.add(&p.Records[i])
		}
	}
	return m
}

// add takes one record more. Of two OK ones that differ the earlier upload stays: later
// ones may be made from it.
func (m *merged) add(r *Record) {
	old := m.records[r.UID]
	switch {
	case old == nil || old.Outcome != outcome.OK && r.Outcome == outcome.OK:
		m.records[r.UID] = r
	case r.Outcome != outcome.OK:
	case old.Digest == r.Digest:
		m.duplicates++
	default:
		m.conflicts++
		if cmp.Or(cmp.Compare(r.Modified, old.Modified), cmp.Compare(r.ETag, old.ETag)) < 0 {
			m.records[r.UID] = r
		}
	}
}

// unknown returns those of wanted that no rank has a record of.
func (m *merged) unknown(wanted []uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(wanted), func(uid uint64) bool { return m.records[uid] != nil })
}

// accepted counts those of wanted that are OK.
func (m *merged) accepted(wanted []uint64) int {
	n := 0
	for _, uid := range wanted {
		if r := m.records[uid]; r != nil && r.Outcome == outcome.OK {
			n++
		}
	}
	return n
}
