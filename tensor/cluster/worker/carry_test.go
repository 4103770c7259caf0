package worker

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard"
)

// moveOnce carries out one collective on all sessions, each with the elements that in
// returns for its part, and returns the result of each.
func moveOnce(t *testing.T, sessions []*shared, kind protocol.Kind, m shard.Move, in func(rank, i int) float32) [][]float32 {
	t.Helper()
	group := make([]int, len(sessions))
	for r := range group {
		group[r] = r
	}
	m.In, m.Out = 0, 1
	c := &shard.Collective{Kind: kind, Op: element.Sum, DType: tensor.F32, Scale: 1, Group: group, Moves: []shard.Move{m}}
	steps := []planStep{
		{Step: &shard.Step{Kind: shard.Start, Collective: c}, dead: []bool{kind == protocol.AllReduce}},
		{Step: &shard.Step{Kind: shard.Wait, Collective: c, Frees: []shard.Var{0}}},
	}
	p := &shard.Plan{Inputs: make([]shard.Placed, 1), Outputs: []shard.Output{{Var: 1}}}
	out := make([][]float32, len(sessions))
	together(sessions, func(rank int, s *shared) {
		src, err := s.dev.Arena().Alloc(4 * m.InShape.Elems())
		if err != nil {
			t.Error(err)
			return
		}
		for i := range m.InShape.Elems() {
			binary.LittleEndian.PutUint32(src.Bytes()[4*i:], math.Float32bits(in(rank, i)))
		}
		id, err := s.keep(tensor.F32, m.InShape, src)
		if err != nil {
			t.Error(err)
			return
		}
		made, err := s.carry(t.Context(), &rankPlan{plan: p, steps: steps, values: 2}, []uint64{id}, nil, nil)
		if err != nil {
			t.Errorf("%v, rank %d: %v", kind, rank, err)
			return
		}
		b := bytesOf(t, s, made[0])
		for i := range m.OutShape.Elems() {
			out[rank] = append(out[rank], math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		}
		s.space.Free(made[0])
	})
	return out
}

// TestCollectivesTakeTensorsWhereTheyLie checks that collectives of workers of one host
// copy no tensor of their arenas on its way, except in all-reduces of less than a
// megabyte, and that their results are right.
func TestCollectivesTakeTensorsWhereTheyLie(t *testing.T) {
	for _, ranks := range []int{2, 3} {
		sessions := teamOf(t, ranks)
		const part = 128<<10 + 16 // elements
		whole, counts := ranks*part, make([]int, ranks)
		for r := range counts {
			counts[r] = part
		}
		in := func(rank, i int) float32 { return float32(rank*1000 + i%1000) }
		sum := func(i int) (x float32) {
			for r := range ranks {
				x += in(r, i)
			}
			return x
		}
		for kind, c := range map[protocol.Kind]struct {
			move shard.Move
			want func(rank, i int) float32
		}{
			protocol.AllReduce: {shard.Move{InShape: tensor.Shape{3 * part}, OutShape: tensor.Shape{3 * part}},
				func(_, i int) float32 { return sum(i) }},
			protocol.AllGather: {shard.Move{InShape: tensor.Shape{part}, OutShape: tensor.Shape{whole}, Recv: counts},
				func(_, i int) float32 { return in(i/part, i%part) }},
			protocol.ReduceScatter: {shard.Move{InShape: tensor.Shape{whole}, OutShape: tensor.Shape{part}, Send: counts},
				func(rank, i int) float32 { return sum(rank*part + i) }},
			protocol.AllToAll: {shard.Move{InShape: tensor.Shape{whole}, OutShape: tensor.Shape{whole}, Send: counts, Recv: counts},
				func(rank, i int) float32 { return in(i/part, rank*part+i%part) }},
		} {
			got := moveOnce(t, sessions, kind, c.move, in)
			for rank := range got {
				for i, x := range got[rank] {
					if want := c.want(rank, i); x != want {
						t.Fatalf("%v of %d workers: element %d of rank %d is %v, expected %v", kind, ranks, i, rank, x, want)
					}
				}
			}
		}
		for rank, s := range sessions {
			if staged, inPlace := s.groups[0].Copied(); staged != 0 || inPlace != 4 {
				t.Errorf("rank %d of %d: %d staged, %d in place, expected 0 and 4", rank, ranks, staged, inPlace)
			}
		}
		small := shard.Move{InShape: tensor.Shape{part / 2}, OutShape: tensor.Shape{part / 2}}
		moveOnce(t, sessions, protocol.AllReduce, small, in)
		if staged, _ := sessions[0].groups[0].Copied(); staged != 1 {
			t.Errorf("an all-reduce of %d bytes: %d staged, expected 1", 2*part, staged)
		}
	}
}

// TestCollectivesOfMemoryThatCanShrink checks that an arena in files that can be
// truncated is not shown to other workers.
func TestCollectivesOfMemoryThatCanShrink(t *testing.T) {
	sessions := teamOf(t, 2)
	dev := NewTestDevice(t, cpu.Options{Arena: shm.ArenaOptions{Segment: shm.Options{Backing: shm.Tmpfs, Dir: t.TempDir()}}})
	s := sessions[1]
	s.space.Close()
	old := s.dev
	s.dev = dev
	s.space = dev.Open()
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	const n = 512 << 10
	m := shard.Move{InShape: tensor.Shape{n}, OutShape: tensor.Shape{n}}
	got := moveOnce(t, sessions, protocol.AllReduce, m, func(rank, i int) float32 { return float32(rank + i) })
	for rank := range got {
		if len(got[rank]) != n || got[rank][n-1] != 2*n-1 {
			t.Errorf("rank %d has %v elements", rank, len(got[rank]))
		}
		if staged, inPlace := sessions[rank].groups[0].Copied(); staged != 1 || inPlace != 0 {
			t.Errorf("rank %d: %d staged, %d in place, expected 1 and 0", rank, staged, inPlace)
		}
	}
}

// given is a result that is waited for.
type given struct{ finished, dropped int }

func (g *given) Finish(uint64) error { g.finished++; return nil }
func (g *given) Drop()               { g.dropped++ }

// TestResultOverQuota wants the result of a collective between GPUs to be given up where
// a session's quota has no room for it.
func TestResultOverQuota(t *testing.T) {
	c := &carrier{base: &base{space: &limited{quota: 100, sizes: map[uint64]int{}}}}
	for i, want := range []given{{finished: 1}, {dropped: 1}} {
		var g given
		_, err := c.finishNear(&movement{near: true, pending: &g}, device.Value{DType: tensor.U8, Shape: tensor.Shape{60}})
		if g != want || errors.Is(err, errQuota) != (i == 1) {
			t.Errorf("result %d of 60 bytes, of at most 100: %+v, %v; expected %+v", i, g, err, want)
		}
	}
}
