package collective

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// transports are what a test that is about the group itself runs on; all have the fold of
// two hosts of two ranks.
var transports = []string{"local", "tcp", "hosts"}

// onEach runs a test on groups of four ranks, on every transport.
func onEach(t *testing.T, o *Options, f func(t *testing.T, groups []*Group)) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			groups, err := openWorld(transport, []int{0, 0, 1, 1}, o)
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(t, groups)
			f(t, groups)
		})
	}
}

// guard is a context that ends a test which hangs.
func hangGuard(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestJoiningIsNoCall: the timeout of calls, however short, is not that of making a
// group.
func TestJoiningIsNoCall(t *testing.T) {
	onEach(t, &Options{Timeout: 1, Linger: -1}, func(t *testing.T, groups []*Group) {
		for r, g := range groups {
			if g.Rank() != r || g.Size() != len(groups) {
				t.Errorf("rank %d of %d, expected %d of %d", g.Rank(), g.Size(), r, len(groups))
			}
		}
	})
}

func TestWho(t *testing.T) {
	groups, err := openWorld("hosts", []int{0, 1, 0, 1, 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	for r, g := range groups {
		if g.Rank() != r || g.Size() != 5 || !slices.EqualFunc(g.Hosts(), [][]int{{0, 2}, {1, 3, 4}}, slices.Equal[[]int]) {
			t.Errorf("rank %d of %d on %v", g.Rank(), g.Size(), g.Hosts())
		}
		if want := fmt.Sprintf("world: rank %d of 5, hosts of [2 3]", r); g.String() != want {
			t.Errorf("%q, want %q", g, want)
		}
	}
}

func TestArgumentsRefused(t *testing.T) {
	ctx := hangGuard(t)
	groups, err := Local(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	g := groups[0]
	f, ints := make([]float32, 16), make([]int32, 16)
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"lengths":        {AllReduce(ctx, g, f[:3], f[:4], Sum), ErrLength},
		"overlap":        {AllReduce(ctx, g, f[:4], f[1:5], Sum), ErrOverlap},
		"mean of ints":   {AllReduce(ctx, g, ints, ints, Mean), ErrOp},
		"xor of floats":  {AllReduce(ctx, g, f, f, Xor), ErrOp},
		"no such op":     {AllReduce(ctx, g, f, f, Op(99)), ErrOp},
		"root":           {Broadcast(ctx, g, f, 2), ErrRank},
		"negative root":  {Reduce(ctx, g, f, f, Sum, -1), ErrRank},
		"reduce":         {Reduce(ctx, g, f[:1], f[:2], Sum, 0), ErrLength},
		"scatter":        {Scatter(ctx, g, f[:2], f[4:9], 0), ErrLength},
		"gather":         {Gather(ctx, g, f[:5], f[8:10], 0), ErrLength},
		"gather overlap": {Gather(ctx, g, f[:4], f[1:3], 0), ErrOverlap},
		"counts":         {AllGatherV(ctx, g, f[:4], f[8:10], []int{2, 1}), ErrLength},
		"too few counts": {AllGatherV(ctx, g, f[:4], f[8:10], []int{2}), ErrLength},
		"negative count": {ReduceScatterV(ctx, g, f[:2], f[8:9], []int{2, -1}, Sum), ErrLength},
		"huge count":     {GatherV(ctx, g, nil, f[:2], []int{2, math.MaxInt}, 1), ErrLength},
		"odd all-to-all": {AllToAll(ctx, g, f[:3], f[8:11]), ErrLength},
		"in place":       {AllToAll(ctx, g, f, f), ErrOverlap},
		"to oneself":     {AllToAllV(ctx, g, f[:2], f[8:10], []int{1, 1}, []int{0, 2}), ErrLength},
		"peer":           {Send(ctx, g, f, 7), ErrRank},
		"started":        {AllReduceAsync(ctx, g, f[:3], f[:4], Sum).Err(), ErrLength},
		"sub":            {second(g.Sub(ctx, 0, 0)), ErrRank},
		"alloc":          {second(Alloc[float32](g, -1)), ErrLength},
		// eight times that is 0
		"huge alloc": {second(Alloc[float64](g, 1<<61)), ErrLength},
		"objects":    {second(ScatterObject(ctx, g, []int{1}, 0)), ErrLength},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	// The group is none the worse.
	all(t, groups, func(g *Group) error { return g.Barrier(ctx) })
}

func second[T any](_ T, err error) error { return err }

// TestStartedDoTheSame: every call that can be started gives what the direct one gives.
func TestStartedDoTheSame(t *testing.T) {
	calls := []struct {
		name    string
		length  func(n int) int // of the result of n ranks
		direct  func(ctx context.Context, g *Group, dst, src []int32) error
		started func(ctx context.Context, g *Group, dst, src []int32) *Work
	}{
		{"broadcast", one,
			func(ctx context.Context, g *Group, dst, src []int32) error {
				dst[0] = src[0]
				return Broadcast(ctx, g, dst, 1)
			},
			func(ctx context.Context, g *Group, dst, src []int32) *Work {
				dst[0] = src[0]
				return BroadcastAsync(ctx, g, dst, 1)
			}},
		{"all-gather", every,
			func(ctx context.Context, g *Group, dst, src []int32) error { return AllGather(ctx, g, dst, src[:1]) },
			func(ctx context.Context, g *Group, dst, src []int32) *Work {
				return AllGatherAsync(ctx, g, dst, src[:1])
			}},
		{"gather", every,
			func(ctx context.Context, g *Group, dst, src []int32) error { return Gather(ctx, g, dst, src[:1], 1) },
			func(ctx context.Context, g *Group, dst, src []int32) *Work {
				return GatherAsync(ctx, g, dst, src[:1], 1)
			}},
		{"scatter", one,
			func(ctx context.Context, g *Group, dst, src []int32) error { return Scatter(ctx, g, dst, src, 1) },
			func(ctx context.Context, g *Group, dst, src []int32) *Work { return ScatterAsync(ctx, g, dst, src, 1) }},
		{"all-to-all", every,
			func(ctx context.Context, g *Group, dst, src []int32) error { return AllToAll(ctx, g, dst, src) },
			func(ctx context.Context, g *Group, dst, src []int32) *Work { return AllToAllAsync(ctx, g, dst, src) }},
		{"reduce", every,
			func(ctx context.Context, g *Group, dst, src []int32) error { return Reduce(ctx, g, dst, src, Sum, 1) },
			func(ctx context.Context, g *Group, dst, src []int32) *Work {
				return ReduceAsync(ctx, g, dst, src, Sum, 1)
			}},
		{"reduce-scatter", one,
			func(ctx context.Context, g *Group, dst, src []int32) error {
				return ReduceScatter(ctx, g, dst, src, Max)
			},
			func(ctx context.Context, g *Group, dst, src []int32) *Work {
				return ReduceScatterAsync(ctx, g, dst, src, Max)
			}},
		{"pairs", one,
			func(ctx context.Context, g *Group, dst, src []int32) error {
				if g.Rank()%2 == 0 {
					return Send(ctx, g, src[:1], g.Rank()+1)
				}
				return Recv(ctx, g, dst, g.Rank()-1)
			},
			func(ctx context.Context, g *Group, dst, src []int32) *Work {
				if g.Rank()%2 == 0 {
					return SendAsync(ctx, g, src[:1], g.Rank()+1)
				}
				return RecvAsync(ctx, g, dst, g.Rank()-1)
			}},
	}
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			src := make([]int32, g.Size())
			for i := range src {
				src[i] = int32(10*g.Rank() + i + 1)
			}
			for _, c := range calls {
				want, got := make([]int32, c.length(g.Size())), make([]int32, c.length(g.Size()))
				if err := errors.Join(c.direct(ctx, g, want, src), c.started(ctx, g, got, src).Wait(ctx)); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				if !slices.Equal(got, want) || g.Rank() == 1 && !slices.ContainsFunc(got, func(v int32) bool { return v != 0 }) {
					return fmt.Errorf("%s: %v, the direct one gave %v", c.name, got, want)
				}
			}
			return nil
		})
	})
}

func one(int) int     { return 1 }
func every(n int) int { return n }

func TestStartedCallsKeepOrder(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		const calls = 200
		all(t, groups, func(g *Group) error {
			bufs, works := make([][]int64, calls), make([]*Work, calls)
			for i := range bufs {
				bufs[i] = slices.Repeat([]int64{int64(i * (g.Rank() + 1))}, 1+i*i%3000)
				works[i] = AllReduceAsync(ctx, g, bufs[i], bufs[i], Sum)
			}
			// A blocking call comes after all of them.
			x := []int64{1}
			if err := AllReduce(ctx, g, x, x, Sum); err != nil {
				return err
			}
			for i := calls - 1; i >= 0; i-- {
				select {
				case <-works[i].Done():
				default:
					return fmt.Errorf("call %d is not done though a later one is", i)
				}
				if err := works[i].Wait(ctx); err != nil {
					return err
				}
				for _, v := range bufs[i] {
					if v != int64(10*i) {
						return fmt.Errorf("call %d gave %d, want %d", i, v, 10*i)
					}
				}
			}
			return nil
		})
	})
}

func TestBarrierSeparates(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		var came atomic.Int64
		all(t, groups, func(g *Group) error {
			for round := range int64(50) {
				came.Add(1)
				if err := g.Barrier(ctx); err != nil {
					return err
				}
				if n := came.Load(); n < 4*(round+1) {
					return fmt.Errorf("round %d: %d have come", round, n)
				}
			}
			return nil
		})
	})
}

func TestSends(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			// Every pair, empty and then not, both ways, large ones crossing.
			for a := range 4 {
				for b := range 4 {
					me, other := g.Rank(), b
					if me == b {
						other = a
					} else if me != a {
						continue
					}
					for _, n := range []int{0, 5, 300000} {
						out, in := make([]int32, n), make([]int32, n)
						for i := range out {
							out[i] = int32(me<<20 + i)
						}
						if a == b {
							if err := errors.Join(Send(ctx, g, out, me), Recv(ctx, g, in, me)); err != nil {
								return err
							}
						} else if err := SendRecv(ctx, g, out, other, in, other); err != nil {
							return err
						}
						for i := range in {
							if in[i] != int32(other<<20+i) {
								return fmt.Errorf("from %d: element %d is %d", other, i, in[i])
							}
						}
					}
				}
			}
			return nil
		})
	})
}

func TestManyIsOneByOne(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			var many, single [][]float32
			for i := range 100 {
				x := input[float32](Sum, i*i*7%3000+i%20/19*70000, g.Rank())
				many, single = append(many, x), append(single, slices.Clone(x))
			}
			if err := AllReduceMany(ctx, g, Mean, many...); err != nil {
				return err
			}
			for i, x := range single {
				if err := AllReduce(ctx, g, x, x, Mean); err != nil {
					return err
				}
				if err := compare(many[i], x, nil); err != nil {
					return fmt.Errorf("buffer %d: %w", i, err)
				}
			}
			return AllReduceMany[float32](ctx, g, Sum)
		})
	})
}

// TestSpecialValues: what min, max and rounding do at the edges.
func TestSpecialValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	negZero := float32(math.Copysign(0, -1))
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			mine := [][]float32{{1, nan, negZero, -inf}, {2, 1, 0, inf}, {nan, 0, 0, 1}, {0, 5, negZero, 0}}[g.Rank()]
			least, most := make([]float32, 4), make([]float32, 4)
			if err := errors.Join(AllReduce(ctx, g, least, mine, Min), AllReduce(ctx, g, most, mine, Max)); err != nil {
				return err
			}
			if least[0] == least[0] || least[1] == least[1] || !math.Signbit(float64(least[2])) || least[3] != -inf {
				return fmt.Errorf("min %v", least)
			}
			if most[0] == most[0] || most[1] == most[1] || math.Signbit(float64(most[2])) || most[3] != inf {
				return fmt.Errorf("max %v", most)
			}
			// 65504 is the largest Float16; the sum of four passes it in float32 and
			// comes back by the mean.
			h := []Float16{ToFloat16(65504)}
			if err := AllReduce(ctx, g, h, h, Mean); err != nil {
				return err
			}
			if got := h[0].Float32(); got != 65504 {
				return fmt.Errorf("mean of the largest f16: %v", got)
			}
			if err := AllReduce(ctx, g, h, h, Sum); err != nil {
				return err
			}
			if got := h[0].Float32(); got != inf {
				return fmt.Errorf("sum of the largest f16: %v", got)
			}
			u := []uint8{200}
			if err := AllReduce(ctx, g, u, u, Sum); err != nil || u[0] != 800%256 {
				return fmt.Errorf("4*200 as uint8: %d, %w", u[0], err)
			}
			return nil
		})
	})
}

func TestClosed(t *testing.T) {
	groups, err := Local(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	closeAll(t, groups)
	closeAll(t, groups) // again
	x := []float32{1}
	if err := AllReduce(t.Context(), groups[0], x, x, Sum); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "all-reduce #1") {
		t.Errorf("a call on a closed group: %v", err)
	}
	if s, err := groups[0].Shrink(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("shrink of a closed group: %v, %v", s, err)
	}
	for _, n := range []int{0, -1} {
		if _, err := Local(n, nil); !errors.Is(err, ErrRank) {
			t.Errorf("a group of %d: %v", n, err)
		}
	}
}
