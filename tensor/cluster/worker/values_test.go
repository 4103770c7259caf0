package worker

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

// TestUploadsInParts checks that each worker has its part, which may be empty, of an
// upload with a layout at once. An upload that is to be updated is copied at once, whole
// if it has no layout. An impossible layout ends the session.
func TestUploadsInParts(t *testing.T) {
	const ranks = 3
	sessions := teamOf(t, ranks)
	upload := func(id uint64, layout uint8, own bool, dims ...int) *wire.Upload {
		n := 1
		for _, d := range dims {
			n *= d
		}
		u := &wire.Upload{ID: id, Layout: layout, Own: own, Value: wire.Value{DType: uint8(tensor.U8), Dims: dims, Inline: make([]byte, n)}}
		for i := range u.Inline {
			u.Inline[i] = byte(i)
		}
		return u
	}
	for name, x := range map[string]struct {
		u    *wire.Upload
		want [ranks][]byte // nil for none
	}{
		"rows":         {upload(1, 1, false, 4, 2), [ranks][]byte{{0, 1, 2, 3}, {4, 5}, {6, 7}}},
		"columns":      {upload(2, 2, false, 2, 3), [ranks][]byte{{0, 3}, {1, 4}, {2, 5}}},
		"two rows":     {upload(3, 1, true, 2, 1), [ranks][]byte{{0}, {1}, nil}},
		"own":          {upload(4, 0, true, 2), [ranks][]byte{{0, 1}, {0, 1}, {0, 1}}},
		"nowhere yet":  {upload(5, 0, false, 2), [ranks][]byte{nil, nil, nil}},
		"no rows, own": {upload(6, 1, true, 0, 2), [ranks][]byte{nil, nil, nil}},
	} {
		for r, s := range sessions {
			if err := s.take(x.u); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			v := s.values[x.u.ID]
			if known := x.u.Layout != 0 || x.u.Own; v.lies != known || (v.id != 0) != known || (v.whole == nil) != (known || v.shape.Elems() == 0) {
				t.Errorf("%s, rank %d: %+v", name, r, v)
			}
			var got []byte
			if part, ok := s.space.Lookup(v.id); ok && part.Bytes() > 0 {
				got = bytesOf(t, s, v.id)
			}
			if !bytes.Equal(got, x.want[r]) {
				t.Errorf("%s, rank %d: %v, expected %v", name, r, got, x.want[r])
			}
		}
	}
	for name, u := range map[string]*wire.Upload{
		"a dim too many":           upload(10, 3, false, 4, 2),
		"along what isn't there":   upload(11, 0x11, false, 4, 2),
		"an upload that was there": upload(1, 1, false, 4, 2),
	} {
		if err := sessions[0].take(u); !errors.Is(err, errProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	onStage := func(stage uint32, u *wire.Upload) *wire.Upload {
		u.Stage = stage
		return u
	}
	if err := sessions[1].take(onStage(1, upload(12, 1, false, 4, 2))); !errors.Is(err, errProtocol) {
		t.Errorf("a stage where there are none: %v", err)
	}
	staged := sessions[1]
	staged.stages = append(staged.stages, shard.Stage{Mesh: shard.Line(1), Ranks: []int{3}})
	for name, u := range map[string]*wire.Upload{
		"a layout on no stage": upload(13, 1, false, 4, 2), "a stage too many": onStage(3, upload(14, 0, false, 4)),
		"a layout of another stage": onStage(2, upload(15, 0x11, false, 4, 2)),
	} {
		if err := staged.take(u); !errors.Is(err, errProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		u          *wire.Upload
		lies, here bool
	}{{upload(16, 0, true, 4), false, false}, {onStage(1, upload(17, 0, false, 4)), true, true}, {onStage(2, upload(18, 1, true, 4)), true, false}} {
		err := staged.take(c.u)
		if v := staged.values[c.u.ID]; err != nil || v.lies != c.lies || (v.id != 0) != c.here || (v.whole == nil) != c.lies {
			t.Errorf("upload %d where there are stages: %v, %+v", c.u.ID, err, v)
		}
	}
	alone := &forwarded{sessions[0].base}
	if err := alone.upload(upload(1, 1, false, 4, 2)); !errors.Is(err, errProtocol) {
		t.Errorf("a layout for one worker: %v", err)
	}
}
