package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/shard"
)

// TestVoteRides checks that votes in an element of a reduction come out as "some worker
// failed" exactly if one did, for every reduction of every type.
func TestVoteRides(t *testing.T) {
	ops := []element.Reduction{element.Sum, element.Prod, element.Min, element.Max}
	dtypes := []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16, tensor.I64, tensor.I32, tensor.Bool}
	tried := 0
	for _, d := range dtypes {
		for _, op := range ops {
			for ranks := 2; ranks <= 64; ranks *= 2 {
				// The rank that fails: none, one, or all.
				for _, who := range []int{-1, 0, ranks / 2, ranks - 1, math.MaxInt} {
					scales := []float64{1}
					if op == element.Sum && d != tensor.I64 && d != tensor.I32 && d != tensor.Bool {
						scales = append(scales, 1/float64(ranks))
					}
					for _, scale := range scales {
						srcs := make([][]byte, ranks)
						for r := range srcs {
							srcs[r] = make([]byte, d.Size())
							srcs[r][0] = 0xee // what was there before
							writeVote(srcs[r], op, d, who == r || who == math.MaxInt)
						}
						out := make([]byte, d.Size())
						if err := collective.Fold(op, elementType(d), scale, out, srcs...); err != nil {
							t.Fatal(err)
						}
						if got := readVote(out, op); got != (who >= 0) {
							t.Fatalf("%v of %v, %d ranks, scale %v, failed %d: %x says %v", op, d, ranks, scale, who, out, got)
						}
						tried++
					}
				}
			}
		}
	}
	t.Logf("%d votes", tried)
}

// TestSumAndAgree checks that workers which reduce a sum vote in the same call of their
// group, and that after a failure all have the same error and none has a result.
func TestSumAndAgree(t *testing.T) {
	const ranks = 3
	sessions := teamOf(t, ranks)
	bad := fmt.Errorf("%w: for a test", tensor.ErrIndex)
	for name, who := range map[string]int{"all well": -1, "the first fails": 0, "the last fails": ranks - 1} {
		before := sessions[0].groups[0].Stats().Calls
		values := make([]float32, ranks)
		together(sessions, func(rank int, s *shared) {
			id := valueOf(t, s, float32(rank+1))
			at := s.next
			v := &placed{dtype: tensor.F32, layout: shard.Layout{shard.Partial(shard.Sum)}, lies: true, id: id}
			s.values[1] = v
			var failed error
			if rank == who {
				failed = bad
			}
			changes, agreed, err := s.gather(t.Context(), []uint64{1}, failed)
			if !agreed || len(changes) != 1 || (err != nil) != (who >= 0) || err != nil && codeOfAgreed(err) != wire.CodeIndex {
				t.Errorf("%s, rank %d: %d values moved, agreed %v: %v", name, rank, len(changes), agreed, err)
				return
			}
			if err != nil {
				if _, ok := s.space.Lookup(at); ok {
					t.Errorf("%s, rank %d: there is a result", name, rank)
				}
				return
			}
			s.end(&changes[0], true)
			values[rank] = math.Float32frombits(binary.LittleEndian.Uint32(bytesOf(t, s, v.id)))
		})
		calls := sessions[0].groups[0].Stats().Calls - before
		if who < 0 && (calls != 1 || values[0] != 6 || values[1] != 6 || values[2] != 6) {
			t.Errorf("%s: %v in %d calls, expected 6 on all in 1", name, values, calls)
		}
		if who >= 0 && calls != 2 { // the vote, and the search for the failure
			t.Errorf("%s: %d calls, expected 2", name, calls)
		}
	}
}

// codeOfAgreed returns the code of a failure that all workers have.
func codeOfAgreed(err error) wire.Code {
	var agreed *agreedError
	if errors.As(err, &agreed) {
		return agreed.Code
	}
	return 0
}

// teamOf returns the sessions of workers in a mesh of one dim, each of a worker of its
// own that does not serve.
func teamOf(t *testing.T, ranks int) []*shared {
	t.Helper()
	groups, err := collective.Local(ranks, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]*shared, ranks)
	for r := range out {
		dev := NewTestDevice(t, cpu.Options{Arena: shm.ArenaOptions{Segment: Segments()}})
		w, err := New(&Options{Device: dev})
		if err != nil {
			t.Fatal(err)
		}
		open := &wire.OpenSession{Session: 1, Name: "test", Workers: uint32(ranks), Rank: uint32(r)}
		s, err := newShared(t.Context(), newBase(&w.env, open, w.memoryOf(open, wire.SessionOpened{}), 0), open)
		if err != nil {
			t.Fatal(err)
		}
		s.groups[0] = groups[r]
		close(s.ready)
		out[r] = s
		t.Cleanup(w.close)
		t.Cleanup(s.space.Close)
	}
	t.Cleanup(func() {
		together(out, func(rank int, _ *shared) { _ = groups[rank].Close() })
	})
	return out
}

// together calls do for every session at the same time.
func together(sessions []*shared, do func(rank int, s *shared)) {
	var all sync.WaitGroup
	for rank, s := range sessions {
		all.Go(func() { do(rank, s) })
	}
	all.Wait()
}

// valueOf returns the id of a new value of one number.
func valueOf(t *testing.T, s *shared, x float32) uint64 {
	b, err := s.dev.Arena().Alloc(4)
	if err != nil {
		t.Error(err)
		return 0
	}
	binary.LittleEndian.PutUint32(b.Bytes(), math.Float32bits(x))
	id, err := s.keep(tensor.F32, tensor.Shape{}, b)
	if err != nil {
		t.Error(err)
	}
	return id
}

// bytesOf returns the bytes of a value.
func bytesOf(t *testing.T, s *shared, id uint64) []byte {
	v, ok := s.space.Lookup(id)
	if !ok {
		t.Errorf("value %d does not exist", id)
		return make([]byte, 8)
	}
	b, err := s.space.Read(id, 0, v.Bytes())
	if err != nil {
		t.Error(err)
		return make([]byte, v.Bytes())
	}
	return bytes.Clone(b)
}
