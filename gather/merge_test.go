package gather

import (
	"testing"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
)

// TestT6Merge: a peer that two ranks have counts once. Of different payloads the earlier
// upload stays, whatever the ranks' order.
func TestT6Merge(t *testing.T) {
	ok := func(rank int, modified int64, etag string, digest byte) *Partial {
		return &Partial{Records: []Record{{UID: 5, Rank: rank, Modified: modified, ETag: etag, Digest: codec.Digest{digest}, Norms: []float64{1}}}}
	}
	bad := &Partial{Records: []Record{{UID: 5, Outcome: outcome.Timeout}}}
	plan := &Plan{Intended: []uint64{5}, Timeout: 1}
	for name, c := range map[string]struct {
		partials              []*Partial
		rank                  int
		duplicates, conflicts int
	}{
		"the same twice":                  {[]*Partial{ok(0, 9, "b", 1), ok(1, 9, "b", 1)}, 0, 1, 0},
		"another, later":                  {[]*Partial{ok(0, 8, "b", 1), ok(1, 9, "a", 2)}, 0, 0, 1},
		"another, earlier":                {[]*Partial{ok(0, 9, "a", 1), ok(1, 8, "b", 2)}, 1, 0, 1},
		"another, as early, by ETag":      {[]*Partial{ok(0, 9, "b", 1), ok(1, 9, "a", 2)}, 1, 0, 1},
		"a failure before":                {[]*Partial{bad, ok(1, 9, "a", 2)}, 1, 0, 0},
		"a failure behind":                {[]*Partial{ok(0, 9, "a", 2), bad}, 0, 0, 0},
		"one, and a rank without records": {[]*Partial{{}, ok(1, 9, "a", 2)}, 1, 0, 0},
	} {
		m := merge(c.partials)
		r := newResult(plan, m, []uint64{5})
		if len(r.UIDs) != 1 || r.Peers[0].Rank != c.rank || r.Duplicates != c.duplicates || r.Conflicts != c.conflicts {
			t.Errorf("%s: %+v, expected rank %d, %d duplicates, %d conflicts", name, r, c.rank, c.duplicates, c.conflicts)
		}
	}
}

// TestClipNorms: the clip is the lower median.
func TestClipNorms(t *testing.T) {
	for _, c := range []struct {
		norms []float64
		want  float64
	}{{[]float64{4}, 4}, {[]float64{4, 1}, 1}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 3, 1, 2}, 2}, {[]float64{0, 0, 5}, 0}} {
		var peers []Record
		for _, n := range c.norms {
			peers = append(peers, Record{Norms: []float64{n}})
		}
		for _, floor := range []float64{0, 2.5} {
			if got := clipNorms(peers, floor); got[0] != max(c.want, floor) {
				t.Errorf("%v, at least %v: %v, expected %v", c.norms, floor, got[0], c.want)
			}
		}
	}
}

// TestPartialRefused: what another rank says of a peer is checked.
func TestPartialRefused(t *testing.T) {
	for name, r := range map[string]Record{
		"an unknown outcome": {Outcome: 99},
		"too few norms":      {Norms: []float64{1}},
		"a norm less than 0": {Norms: []float64{1, -1}},
		"a size less than 0": {Norms: []float64{1, 1}, Size: -1},
		"too large a size":   {Norms: []float64{1, 1}, Size: 1001},
	} {
		b, err := codec.Marshal(&Partial{Records: []Record{r}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parsePartial(b, 1, 2, 1000); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := parsePartial([]byte{0xff}, 1, 2, 1000); err == nil {
		t.Error("what is no CBOR was accepted")
	}
}

// FuzzPartial: what another rank says is refused, or can be put together.
func FuzzPartial(f *testing.F) {
	b, err := codec.Marshal(&Partial{Records: []Record{{UID: 1, Norms: []float64{1, 2}}, {UID: 2, Outcome: outcome.Timeout}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	plan := &Plan{Intended: []uint64{1, 2, 3}, Timeout: 1}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePartial(b, 1, 2, 1000)
		if err != nil {
			return
		}
		m := merge([]*Partial{{Records: []Record{{UID: 1, Norms: []float64{3, 4}}, {UID: 2}, {UID: 3, Outcome: outcome.Timeout}}}, p})
		m.records[2].Norms = []float64{5, 6}
		if _, err := newResult(plan, m, plan.Primaries()).JSON(); err != nil {
			t.Fatal(err)
		}
	})
}
