package artifact_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/agg"
	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/artifact"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/gather/store/storetest"
)

const window = 5

type bed struct {
	m     *codec.Manifest
	peers *store.Mem
	plan  gather.Plan
}

func newBed(t testing.TB) *bed {
	b := &bed{m: codectest.Tiny(codec.DefaultConfig()), peers: &store.Mem{}}
	for uid := uint64(1); uid <= 8; uid++ {
		p := codectest.Payload(b.m, window, uid, nil).Bytes()
		if err := b.peers.Put(t.Context(), fmt.Sprint(uid), bytes.NewReader(p), int64(len(p)), nil); err != nil {
			t.Fatal(err)
		}
	}
	b.plan = gather.Plan{Window: window, Timeout: time.Minute, Manifest: b.m.Digest(), Intended: []uint64{3, 5, 6, 9}, Reserves: []uint64{1},
		Policy: gather.Policy{ReserveRounds: 1, Aggregator: "centered-clip", ClipFloor: 100}}
	return b
}

func (b *bed) source(_, uid uint64) (store.Store, string) { return b.peers, fmt.Sprint(uid) }

// on gathers on one rank and applies to zeros.
func (b *bed) on(group *collective.Group, plan gather.Plan, source func(_, _ uint64) (store.Store, string), spool string, then func(gather.Ranks, *gather.Result) error) (apply.Mem, error) {
	g, err := gather.New(group, &gather.Options{Manifest: b.m, Spool: spool, Source: source, Fetch: store.FetchOptions{Attempts: 1}})
	if err != nil {
		return nil, err
	}
	r, err := g.Gather(context.Background(), &plan)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	w := apply.NewMem(b.m)
	if _, err := apply.Update(context.Background(), g.Ranks, r, b.m, w, &apply.Options{Replicated: true}); err != nil {
		return nil, err
	}
	if then != nil {
		return w, then(g.Ranks, r)
	}
	return w, nil
}

// TestT22Artifact: whatever the number of ranks, one object appears, with the same bytes;
// it is not made twice; nothing is left of uploads; and it is applied to the same bits.
func TestT22Artifact(t *testing.T) {
	b := newBed(t)
	var first string
	var want apply.Mem
	for _, ranks := range []int{1, 2, 3, 8} {
		s := &store.Mem{}
		gs := []*collective.Group{nil}
		if ranks > 1 {
			var err error
			if gs, err = collective.Local(ranks, &collective.Options{Linger: -1}); err != nil {
				t.Fatal(err)
			}
		}
		spool := t.TempDir()
		var wg sync.WaitGroup
		for _, group := range gs {
			wg.Go(func() {
				w, err := b.on(group, b.plan, b.source, spool, func(ranks gather.Ranks, r *gather.Result) error {
					if err := artifact.EmitFull(t.Context(), ranks, s, r); err != nil {
						return err
					}
					if err := artifact.Emit(t.Context(), ranks, s, r, nil); err != nil {
						return err
					}
					err := artifact.EmitFull(t.Context(), ranks, s, r)
					if !errors.Is(err, store.ErrExists) && !errors.Is(err, gather.ErrAborted) {
						t.Errorf("a second emitter: %v", err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				} else if ranks == 1 {
					want = w
				}
			})
		}
		wg.Wait()
		for _, g := range gs {
			if g != nil {
				g.Close()
			}
		}
		all := ""
		list, _ := s.List(t.Context(), "")
		for _, e := range list {
			o, err := s.Open(t.Context(), e.Key, store.Get{})
			if err != nil {
				t.Fatal(err)
			}
			data, _ := io.ReadAll(o.Body)
			all += fmt.Sprintf("%s %x\n", e.Key, data)
		}
		if first == "" {
			first = all
		}
		if len(list) != 2 || all != first {
			t.Errorf("%d ranks: %d objects, other bytes than one rank's: %v", ranks, len(list), all != first)
		}
		if left, _ := s.Uploads(t.Context(), ""); len(left) != 0 {
			t.Errorf("%d ranks: uploads are left: %v", ranks, left)
		}
		loaded(t, b, s, want)
	}
}

// loaded applies an artifact on one rank and compares the weights.
func loaded(t *testing.T, b *bed, s store.Store, want apply.Mem) {
	t.Helper()
	a, err := artifact.Load(t.Context(), s, window)
	if err != nil {
		t.Fatal(err)
	}
	w, err := b.on(nil, *a.Plan(b.plan), a.Source(s), t.TempDir(), func(_ gather.Ranks, r *gather.Result) error { return a.Verify(r) })
	if err != nil {
		t.Fatal(err)
	}
	for p := range w {
		if !slices.Equal(w[p], want[p]) {
			t.Errorf("the artifact gives other weights than the live payloads")
		}
	}
}

// breaking is a store whose part uploads fail.
type breaking struct{ *store.Mem }

func (b *breaking) UploadPart(context.Context, string, string, int, io.Reader, int64) (string, error) {
	return "", errors.New("the line is cut")
}

// TestT22Interrupted: an upload that breaks leaves neither object nor upload.
func TestT22Interrupted(t *testing.T) {
	b := newBed(t)
	s := &breaking{&store.Mem{}}
	_, err := b.on(nil, b.plan, b.source, t.TempDir(), func(ranks gather.Ranks, r *gather.Result) error {
		return artifact.EmitFull(t.Context(), ranks, s, r)
	})
	left, _ := s.Uploads(t.Context(), "")
	list, _ := s.List(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), "the line is cut") || len(left) != 0 || len(list) != 0 {
		t.Errorf("%v, uploads %v, objects %v", err, left, list)
	}
}

// TestT22S3 publishes through the real gateway.
func TestT22S3(t *testing.T) {
	b := newBed(t)
	s := storetest.StartGateway(t, os.Getenv).Bucket(t, "aggregates")
	want, err := b.on(nil, b.plan, b.source, t.TempDir(), func(ranks gather.Ranks, r *gather.Result) error {
		return errors.Join(artifact.EmitFull(t.Context(), ranks, s, r), artifact.Emit(t.Context(), ranks, s, r, nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	loaded(t, b, s, want)
	if _, err := b.on(nil, b.plan, b.source, t.TempDir(), func(ranks gather.Ranks, r *gather.Result) error {
		return artifact.EmitFull(t.Context(), ranks, s, r)
	}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second emitter: %v, expected ErrExists", err)
	}
	if left, err := s.Uploads(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("uploads are left: %v, %v", left, err)
	}
}

// TestVerify: an aggregate that was changed, or whose payloads were, is found out.
func TestVerify(t *testing.T) {
	b := newBed(t)
	b.plan.Policy.Aggregator, b.plan.Weights = agg.Default, map[uint64]float64{5: 0.5}
	s := &store.Mem{}
	if _, err := b.on(nil, b.plan, b.source, t.TempDir(), func(ranks gather.Ranks, r *gather.Result) error {
		return artifact.Emit(t.Context(), ranks, s, r, nil)
	}); err != nil {
		t.Fatal(err)
	}
	a, err := artifact.Load(t.Context(), s, window)
	if err != nil {
		t.Fatal(err)
	}
	verify := func() error {
		_, err := b.on(nil, *a.Plan(b.plan), b.source, t.TempDir(), func(_ gather.Ranks, r *gather.Result) error { return a.Verify(r) })
		return err
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	o, _ := s.Open(t.Context(), artifact.Name(window), store.Get{})
	text, _ := io.ReadAll(o.Body)
	if err := s.Put(t.Context(), artifact.Name(window+1), bytes.NewReader(text), int64(len(text)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := artifact.Load(t.Context(), s, window+1); !errors.Is(err, artifact.ErrVerify) {
		t.Errorf("an aggregate under the name of another window: %v, expected ErrVerify", err)
	}
	p := codectest.Payload(b.m, window, 5, nil).Bytes()
	p[len(p)-1] ^= 1
	b.peers.Put(t.Context(), "5", bytes.NewReader(p), int64(len(p)), nil)
	if err := verify(); !errors.Is(err, artifact.ErrVerify) {
		t.Errorf("a flipped bit of a payload: %v, expected ErrVerify", err)
	}
	for old, fresh := range map[string]string{`"window":5`: `"window":6`, `"version":1`: `"version":2`, `"5":0.5`: `"5":0.25`, `"clip_floor":100`: `"clip_floor":-1`, a.Result.Peers[0].Digest.String(): strings.Repeat("0", 64)} {
		if _, err := artifact.Parse([]byte(strings.Replace(string(text), old, fresh, 1))); !errors.Is(err, artifact.ErrVerify) {
			t.Errorf("%s became %s: %v, expected ErrVerify", old, fresh, err)
		}
	}
}

// FuzzParse: an aggregate that Parse takes can be gathered again, from its own payloads.
func FuzzParse(f *testing.F) {
	b := newBed(f)
	s := &store.Mem{}
	if _, err := b.on(nil, b.plan, b.source, f.TempDir(), func(ranks gather.Ranks, r *gather.Result) error {
		return artifact.Emit(f.Context(), ranks, s, r, nil)
	}); err != nil {
		f.Fatal(err)
	}
	o, err := s.Open(f.Context(), artifact.Name(window), store.Get{})
	if err != nil {
		f.Fatal(err)
	}
	text, _ := io.ReadAll(o.Body)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := artifact.Parse(text)
		if err != nil {
			if !errors.Is(err, artifact.ErrVerify) {
				t.Fatal(err)
			}
			return
		}
		from, key := a.Source(s)(a.Result.Window, 3)
		if o, err := from.Open(t.Context(), key, store.Get{}); err == nil {
			o.Body.Close()
		}
		if err := a.Plan(b.plan).Normalize(); err != nil {
			t.Fatal(err)
		}
		if a.Verify(&gather.Result{}) == nil && len(a.Result.Peers) != 0 {
			t.Fatal("nothing is what the aggregate says")
		}
	})
}
