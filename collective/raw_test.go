package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// f32s are floats as bytes.
func f32s(x ...float32) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// TestRaw: each kind on bytes does what the function with a type does, waited for at once
// or started, with parts of different size and of none.
func TestRaw(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		n := len(groups)
		counts := make([]int, n) // 0, 1, 2, ... elements of each rank
		total := 0
		for i := range counts {
			counts[i] = i
			total += i
		}
		all(t, groups, func(g *Group) error {
			r := g.Rank()
			var mine, sum, gathered, scattered, sent, got []float32
			for range r { // what this rank has to gather
				mine = append(mine, float32(r))
			}
			whole := make([]float32, total)
			for i := range whole {
				whole[i] = float32(i + r)
				sum = append(sum, float32(n*i+n*(n-1)/2)/2)
			}
			at := 0
			for i := range counts {
				for k := range counts[i] {
					gathered = append(gathered, float32(i))
					if i == r {
						scattered = append(scattered, sum[at+k])
					}
				}
				at += counts[i]
			}
			// All to all: rank i sends k elements to rank k.
			back := make([]int, n)
			for i := range counts {
				back[i] = r
				for range counts[i] {
					sent = append(sent, float32(100*r+i))
				}
				for range r {
					got = append(got, float32(100*i+r))
				}
			}
			for _, c := range []struct {
				raw  Raw
				want []byte
			}{
				{Raw{Kind: protocol.AllReduce, Op: element.Sum, Scale: 0.5, Src: f32s(whole...)}, f32s(sum...)},
				{Raw{Kind: protocol.ReduceScatter, Op: element.Sum, Scale: 0.5, Src: f32s(whole...), Send: counts}, f32s(scattered...)},
				{Raw{Kind: protocol.AllGather, Scale: 1, Src: f32s(mine...), Recv: counts}, f32s(gathered...)},
				{Raw{Kind: protocol.AllToAll, Scale: 1, Src: f32s(sent...), Send: counts, Recv: back}, f32s(got...)},
			} {
				for _, started := range []bool{false, true} {
					raw := c.raw
					raw.DType, raw.Dst = element.F32, make([]byte, len(c.want))
					var err error
					if started {
						err = raw.Start(ctx, g).Wait(ctx)
					} else {
						err = raw.Do(ctx, g)
					}
					if err != nil {
						return fmt.Errorf("%v, started %v: %w", raw.Kind, started, err)
					}
					if !slices.Equal(raw.Dst, c.want) {
						return fmt.Errorf("%v, started %v: %x, expected %x", raw.Kind, started, raw.Dst, c.want)
					}
				}
			}
			return nil
		})
	})
}

// TestRawRooted: calls with a root, and between two ranks, do on bytes what they do on
// slices.
func TestRawRooted(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		n, root := len(groups), len(groups)-1
		all(t, groups, func(g *Group) error {
			r := g.Rank()
			at := func(rank int, b []byte) []byte { // b on that rank, else nothing
				if r == rank {
					return b
				}
				return make([]byte, len(b))
			}
			var ranks []float32
			total := float32(0)
			for i := range n {
				ranks = append(ranks, float32(i))
				total += float32(i)
			}
			mine, other := f32s(float32(r)), f32s(float32(root))
			calls := []struct {
				raw  Raw
				want []byte
			}{
				{Raw{Kind: protocol.Reduce, Op: element.Sum, Scale: 1, Dst: make([]byte, 4), Src: mine}, at(root, f32s(total))},
				{Raw{Kind: protocol.Broadcast, Dst: append([]byte(nil), mine...)}, other},
				{Raw{Kind: protocol.Scatter, Dst: make([]byte, 4), Src: f32s(ranks...)}, mine},
				{Raw{Kind: protocol.Gather, Dst: make([]byte, 4*n), Src: mine}, at(root, f32s(ranks...))},
			}
			for _, c := range calls {
				c.raw.DType, c.raw.Peer = element.F32, root
				if err := c.raw.Do(ctx, g); err != nil || !slices.Equal(c.raw.Dst, c.want) {
					return fmt.Errorf("%v: %x, expected %x: %w", c.raw.Kind, c.raw.Dst, c.want, err)
				}
			}
			if n < 2 || r > 0 && r < root {
				return nil
			}
			pair := Raw{Kind: protocol.Send, DType: element.F32, Peer: root, Dst: f32s(7)}
			if r == root {
				pair.Kind, pair.Peer, pair.Dst = protocol.Recv, 0, make([]byte, 4)
			}
			if err := pair.Start(ctx, g).Wait(ctx); err != nil || !slices.Equal(pair.Dst, f32s(7)) {
				return fmt.Errorf("%v: %x: %w", pair.Kind, pair.Dst, err)
			}
			return nil
		})
	})
}

// TestRawRefused: what is wrong with a call is said before anything is sent, and the
// group goes on.
func TestRawRefused(t *testing.T) {
	groups, err := Local(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	ctx := hangGuard(t)
	all(t, groups, func(g *Group) error {
		b := make([]byte, 8)
		for what, c := range map[string]struct {
			raw  Raw
			want error
		}{
			"half an element": {Raw{Kind: protocol.AllReduce, DType: element.F32, Dst: b[:6], Src: b[:6]}, ErrLength},
			"lengths":         {Raw{Kind: protocol.AllReduce, DType: element.F32, Dst: b[:4], Src: b}, ErrLength},
			"no such dtype":   {Raw{Kind: protocol.AllReduce, DType: 200, Dst: b, Src: b}, ErrOp},
			"counts":          {Raw{Kind: protocol.AllGather, DType: element.F32, Dst: b, Src: b[:4], Recv: []int{1}}, ErrLength},
			"two buffers":     {Raw{Kind: protocol.Broadcast, DType: element.F32, Dst: b, Src: b}, ErrLength},
			"root":            {Raw{Kind: protocol.Reduce, Op: element.Sum, DType: element.F32, Dst: b, Src: b, Peer: 2}, ErrRank},
			"kind":            {Raw{Kind: protocol.Barrier, DType: element.F32}, ErrOp},
		} {
			for _, err := range []error{c.raw.Do(ctx, g), c.raw.Start(ctx, g).Wait(ctx)} {
				if !errors.Is(err, c.want) {
					return fmt.Errorf("%s: %v, expected %v", what, err, c.want)
				}
			}
		}
		return g.Barrier(ctx)
	})
}
