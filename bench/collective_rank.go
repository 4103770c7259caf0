package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/rendezvous"
	"github.com/ringside-go/ringside/net/nettest"
)

// playCollective has processes of this binary measure the cases, as persistent calls or
// as plain ones, on these hosts if there are any.
func playCollective(r *run, ranks int, cases []collectiveCase, persistent bool, hosts []*nettest.Host) []outcome {
	roles := make([]role, ranks)
	socket := r.socket()
	for rank := range roles {
		at := role{Part: "collective", Addr: socket, Count: r.work(budgetMS), Core: -1, Measures: rank == 0,
			Rank: rank, Ranks: ranks, Cases: caseArgs(cases), Persistent: persistent}
		if ranks <= runtime.NumCPU() {
			at.Core = rank
		}
		if hosts != nil {
			at.Host, at.Addr = hostOf(hosts, rank, ranks), hosts[0].Addr
			at.Kind = at.Host.Addr
		}
		roles[rank] = at
	}
	x := play(r.ctx, r.Options, roles...)
	if len(x) != 3*len(cases) {
		check(fmt.Errorf("%d figures for %d cases, expected three for each", len(x), len(cases)))
	}
	all := make([]outcome, len(cases))
	for i := range all {
		all[i] = outcome{x[3*i], x[3*i+1], int(x[3*i+2])}
	}
	return all
}

// collectiveRank is one rank.
func collectiveRank(a *actor) {
	ctx := context.Background()
	a.start()
	world := &rendezvous.Overrides{Rank: a.Rank, Size: a.Ranks, Socket: a.Addr}
	if a.Kind != "" {
		world.Socket, world.MasterAddr, world.MasterPort = "", a.Addr, rendezvous.DefaultPort
	}
	g := must(collective.Init(ctx, &collective.Options{World: world, Bind: a.Kind}))
	perTick := nsPerTick() * 1e-9
	for _, arg := range a.Cases {
		var c collectiveCase
		var memory string
		within(arg, func() {
			must(fmt.Sscan(strings.ReplaceAll(arg, ":", " "), &c.op, &c.dtype, &c.bytes, &memory))
			c.private = memory == "private"
			var got outcome
			switch budget := float64(a.Count) * 1e-3; c.dtype {
			case "f16":
				got = measureCollective(ctx, g, c, a.Persistent, budget, perTick, collective.ToFloat16)
			case "bf16":
				got = measureCollective(ctx, g, c, a.Persistent, budget, perTick, collective.ToBFloat16)
			default:
				got = measureCollective(ctx, g, c, a.Persistent, budget, perTick, func(x float32) float32 { return x })
			}
			if g.Rank() == 0 {
				a.measured(float32(got.micros), float32(got.wrong), float32(got.calls))
			}
		})
	}
	check(g.Close())
}

// smallTimed is the bytes up to which the writing of the input is timed with the call,
// and ranks do not meet before it.
const smallTimed = 8192

// measureCollective is the loop of floor/collective.c.
func measureCollective[T collective.Element](ctx context.Context, g *collective.Group, c collectiveCase, persistent bool, budget, perTick float64,
	from func(float32) T) outcome {
	n := max(c.bytes/elementSize[T](), g.Size())
	in, out, free := collectiveBuffers[T](g, c, n, n/g.Size())
	defer free()
	call := must(collectiveCall(ctx, g, c.op, in, out, persistent))
	worst := func(x float64) float64 {
		all := []float64{x}
		check(collective.AllReduce(ctx, g, all, all, collective.Max))
		return all[0]
	}
	bad := wrongElements(ctx, g, c.op, in, out, call, from)
	got := outcome{calls: 3, wrong: worst(float64(bad))}
	together := c.bytes <= smallTimed && c.op != "broadcast"
	dirty := in
	if c.op == "barrier" || c.op == "broadcast" && g.Rank() > 0 {
		dirty = nil
	}
	for pass := range 2 { // the first finds out how many calls fit
		var took uint64
		check(g.Barrier(ctx))
		start := ticks()
		for range got.calls {
			rewrite(dirty)
			if together {
				check(call())
				continue
			}
			check(g.Barrier(ctx))
			t := ticks()
			check(call())
			took += ticks() - t
		}
		if together {
			took = ticks() - start
		}
		seconds := worst(float64(took) * perTick / float64(got.calls))
		got.micros = seconds * 1e6
		if pass == 0 {
			got.calls = min(max(int(budget/seconds), 3), 50000)
			for range got.calls / 10 {
				if got.calls <= 100 {
					break
				}
				check(call())
			}
		}
	}
	return got
}

// collectiveCall is the call that is timed: out has a rank's part of in.
func collectiveCall[T collective.Element](ctx context.Context, g *collective.Group, op string, in, out []T, persistent bool) (func() error, error) {
	each := len(out)
	all, mine := in[:each*g.Size()], in[each*g.Rank():each*(g.Rank()+1)]
	if persistent {
		p, err := g.BarrierInit(), error(nil)
		switch op {
		case "allreduce":
			p, err = collective.AllReduceInit(g, in, in, collective.Sum)
		case "reducescatter":
			p, err = collective.ReduceScatterInit(g, out, all, collective.Sum)
		case "allgather":
			p, err = collective.AllGatherInit(g, all, mine)
		case "broadcast":
			p, err = collective.BroadcastInit(g, in, 0)
		}
		return func() error { return p.Run(ctx) }, err
	}
	switch op {
	case "allreduce":
		return func() error { return collective.AllReduce(ctx, g, in, in, collective.Sum) }, nil
	case "reducescatter":
		return func() error { return collective.ReduceScatter(ctx, g, out, all, collective.Sum) }, nil
	case "allgather":
		return func() error { return collective.AllGather(ctx, g, all, mine) }, nil
	case "broadcast":
		return func() error { return collective.Broadcast(ctx, g, in, 0) }, nil
	}
	return func() error { return g.Barrier(ctx) }, nil
}

func elementSize[T collective.Element]() int {
	switch any(*new(T)).(type) {
	case collective.Float16, collective.BFloat16:
		return 2
	}
	return 4
}

// collectiveBuffers are the input and, where the call does not work in place, the output.
func collectiveBuffers[T collective.Element](g *collective.Group, c collectiveCase, n, each int) (in, out []T, free func()) {
	if c.private {
		return make([]T, n), make([]T, each), func() {}
	}
	in, out = must(collective.Alloc[T](g, n)), must(collective.Alloc[T](g, each))
	return in, out, func() { _ = errors.Join(collective.Free(g, in), collective.Free(g, out)) }
}

// rewrite writes all of b by ordinary stores of vectors, as the floor does. In pieces of
// less than 2 KiB, because the runtime clears what is longer by the string instruction,
// which leaves the lines elsewhere.
func rewrite[T collective.Element](b []T) {
	const piece = 256
	// An element at a time, as they are read: what the runtime clears in bytes would have
	// to reach the cache before.
	if len(b) <= 16 {
		var zero T
		for i := 0; i < len(b); i++ {
			b[i] = zero
		}
		return
	}
	for len(b) > piece {
		clear(b[:piece])
		b = b[piece:]
	}
	clear(b)
}

// wrongElements calls once and counts the elements of this rank that are not what they
// should be.
func wrongElements[T collective.Element](ctx context.Context, g *collective.Group, op string, in, out []T, call func() error,
	from func(float32) T) (bad int) {
	rank, ranks := g.Rank(), g.Size()
	each := len(in) / ranks
	value := func(i, r int) int { return i%29 + r }
	number := make([]T, 1+(29+ranks)*ranks) // by value; the last is nowhere the right one
	for i := range number {
		number[i] = from(float32(i))
	}
	for i := range in {
		mine := true
		switch op {
		case "allgather":
			mine = i/each == rank
		case "broadcast":
			mine = rank == 0
		}
		in[i] = number[len(number)-1]
		if mine {
			in[i] = number[value(i, rank)]
		}
	}
	check(errors.Join(g.Barrier(ctx), call()))
	if op == "barrier" {
		return 0
	}
	got, first := in, 0
	switch op {
	case "reducescatter":
		got, first = out, each*rank
	case "allgather":
		got = in[:each*ranks]
	}
	for i, x := range got {
		var want int
		switch op {
		case "allgather":
			want = value(i, i/each)
		case "broadcast":
			want = value(i, 0)
		default:
			for r := range ranks {
				want += value(first+i, r)
			}
		}
		if x != number[want] {
			bad++
		}
	}
	check(g.Barrier(ctx))
	return bad
}
