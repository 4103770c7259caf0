package gather_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/gather/store/storetest"
)

// holes are inputs that harm the known implementation, by their number in its table, and
// the outcome that peer 3 of 1 to 5 has here when it sends them. OK: nothing is wrong
// with the peer.
var holes = []struct {
	number int
	input  string
	want   outcome.Outcome
}{
	{1, "a codebook of another length: every later peer vanished", outcome.BadShape},
	{2, "a code outside the codebook: an index error in the update", outcome.CodeRange},
	{3, "values of another shape: an error in the update", outcome.BadShape},
	{4, "three bytes of indices: one pair was spread over all", outcome.BadShape},
	{5, "an index twice: the position was their mean", outcome.IndexDup},
	{6, "a codebook of 1e30: the norm exploded", outcome.NormLimit},
	{7, "a parameter too many: lists of unequal length", outcome.UnknownParam},
	{8, "a peer named twice: it was applied twice", outcome.OK},
	{9, "a reserve that is a failed primary: it was fetched again", outcome.NotFound},
	{10, "a reserve without a parameter: lists beside the peers", outcome.MissingParam},
	{11, "an odd number of coefficients: every honest peer was rejected", outcome.OK},
	{12, "an object replaced after a HEAD: the window's times were passed by", outcome.TooLate},
	{13, "a broken transfer resumed: chunks out of order", outcome.OK},
	{14, "an update of an earlier window under the new key", outcome.WindowMismatch},
}

// TestHoles has each of them happen, and compares the outcome, the other peers, the
// requests and the weights, on one rank and on three.
func TestHoles(t *testing.T) {
	for _, h := range holes {
		t.Run(fmt.Sprint("H", h.number), func(t *testing.T) {
			t.Log(h.input)
			f, server := newHole(t, h.number)
			want := f.run(t, 1)[0] // without the third, unless nothing is wrong with it
			for _, uid := range []uint64{1, 2, 4, 5} {
				if want.err != nil || !slices.Contains(want.result.UIDs, uid) {
					t.Errorf("peer %d: %v, %v", uid, want.err, want.result.Reasons[uid])
				}
			}
			if r := want.result; r.Reasons[3] != h.want || slices.Contains(r.UIDs, 3) != (h.want == outcome.OK) || len(r.Skipped) != len(r.Reasons) {
				t.Errorf("uids %v, skipped %v for %v, expected peer 3 to be %v", r.UIDs, r.Skipped, r.Reasons, h.want)
			}
			gets := 1
			if h.number == 13 {
				gets = 3 // and two thirds of it are asked for once
			}
			if n := server.Count("GET", key(3)); n != gets || server.Count("HEAD", "") != 0 {
				t.Errorf("peer 3 was asked %d times, and %d times by HEAD; expected %d and 0", n, server.Count("HEAD", ""), gets)
			}
			for rank, got := range f.run(t, 3) {
				if got.err != nil || got.json != want.json || got.weights != want.weights {
					t.Errorf("rank %d of 3: %v, %s, expected %s", rank, got.err, got.json, want.json)
				}
			}
			clean := newFixture(t, f.m.Config, want.result.UIDs...)
			if h.number == 11 {
				return // its model is another one
			}
			clean.plan.Policy = f.plan.Policy
			if got := clean.run(t, 1)[0]; got.weights != want.weights {
				t.Error("the weights are not those of the accepted peers by themselves")
			}
		})
	}
}

// newHole has five peers, of which the third is the hole's, behind a server.
func newHole(t *testing.T, number int) (*fixture, *storetest.Server) {
	c := codec.KnownConfig()
	c.Bins = 64
	f, s := newFixture(t, c, uids(1, 5)...), storetest.NewServer(t)
	s.Mem, f.plan.Policy.NormLimit = f.mem, codectest.NormLimit
	var err error
	if f.from, err = store.NewHTTP(s.URL, nil); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, uid := range f.plan.Intended {
		f.mem.Chtime(key(uid), now)
	}
	switch number {
	case 8:
		f.plan.Intended = append(uids(1, 5), 3, 3)
	case 9:
		f.mem.Delete(t.Context(), key(3))
		f.plan.Reserves, f.plan.Policy.ReserveRounds = []uint64{3, 3}, 3
	case 10:
		// there is no 6
		f.plan.Intended, f.plan.Reserves = []uint64{1, 2, 4, 5, 6}, []uint64{3}
	case 11: // chunks of 29 coefficients, and of one
		if f.m, err = codec.NewManifest(c, []codec.Tensor{{Name: "odd", Shape: []int64{50257}, DType: "F32"}, {Name: "one", DType: "F32"}}); err != nil {
			t.Fatal(err)
		}
		f.plan.Manifest = f.m.Digest()
		for _, uid := range f.plan.Intended {
			f.put(t, uid, codectest.Payload(f.m, window, uid, nil).Bytes())
		}
	case 12:
		f.plan.TMin, f.plan.TMax = now.Unix()-100, now.Unix()+100
		f.mem.Chtime(key(3), now.Add(101*time.Second))
	case 13:
		f.fetch = store.FetchOptions{Base: time.Millisecond}
		s.Fault = func(k string, n int) storetest.Fault {
			if k == key(3) && n%3 != 0 {
				return storetest.Fault{Cut: 300}
			}
			return storetest.Fault{}
		}
	}
	for _, c := range codectest.Corpus(codectest.Tiny(c), window, 3) {
		if strings.HasPrefix(c.Name, fmt.Sprintf("H%d: ", number)) {
			f.put(t, 3, c.Bytes)
			f.mem.Chtime(key(3), now)
		}
	}
	return f, s
}
