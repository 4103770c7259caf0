package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/net/route"
)

// playCollective has processes of this binary measure the cases, as persistent calls or
// as plain ones. host, if not nil, is where rank r runs.
func playCollective(ctx context.Context, o *Options, ranks int, cases []collectiveCase, persistent bool,
	host func(r int) *nettest.Host) ([]outcome, error) {
	dir, err := os.MkdirTemp("", "ringside-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	roles := make([]role, ranks)
	for r := range roles {
		roles[r] = role{Part: "collective", Addr: dir, Count: o.work(budgetMS), Rank: r, Ranks: ranks, Cases: caseArgs(cases), Core: -1, Measures: r == 0, Persistent: persistent}
		if ranks <= runtime.NumCPU() {
			roles[r].Core = r
		}
		if host != nil {
			roles[r].Host, roles[r].Kind = host(r), host(r).Addr
		}
	}
	x, err := play(ctx, o, roles...)
	if err != nil {
		return nil, err
	}
	if len(x) != 3*len(cases) {
		return nil, fmt.Errorf("%d figures for %d cases, expected three for each", len(x), len(cases))
	}
	all := make([]outcome, len(cases))
	for i := range all {
		all[i] = outcome{x[3*i], x[3*i+1], int(x[3*i+2])}
	}
	return all, nil
}

// collectiveRank is one rank.
func collectiveRank(a *actor) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := a.start(); err != nil {
		return err
	}
	g, err := joinGroup(ctx, a)
	if err != nil {
		return err
	}
	defer g.Close()
	perTick := nsPerTick() * 1e-9
	for _, arg := range a.Cases {
		var c collectiveCase
		var memory string
		if _, err := fmt.Sscan(strings.ReplaceAll(arg, ":", " "), &c.op, &c.dtype, &c.bytes, &memory); err != nil {
			return fmt.Errorf("case %q: %w", arg, err)
		}
		c.private = memory == "private"
		var got outcome
		switch budget := float64(a.Count) * 1e-3; c.dtype {
		case "f16":
			got, err = measureCollective(ctx, g, c, a.Persistent, budget, perTick, collective.ToFloat16)
		case "bf16":
			got, err = measureCollective(ctx, g, c, a.Persistent, budget, perTick, collective.ToBFloat16)
		default:
			got, err = measureCollective(ctx, g, c, a.Persistent, budget, perTick, func(x float32) float32 { return x })
		}
		if err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
		if g.Rank() == 0 {
			if err := a.measured(float32(got.micros), float32(got.wrong), float32(got.calls)); err != nil {
				return err
			}
		}
	}
	return nil
}

// joinGroup makes the group of all ranks, which find each other by files in a folder.
func joinGroup(ctx context.Context, a *actor) (*collective.Group, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	w, err := local.NewWaiter()
	if err != nil {
		return nil, err
	}
	round := 0
	members, err := route.Mesh(ctx, route.MeshOptions{
		Rank: a.Rank, Size: a.Ranks, Secret: []byte(a.Addr), Waiter: w, Bind: a.Kind,
		Exchange: func(ctx context.Context, mine []byte) ([][]byte, error) {
			round++
			return exchangeFiles(ctx, filepath.Join(a.Addr, fmt.Sprint("round", round, "rank")), a.Rank, a.Ranks, mine)
		},
	})
	if err != nil {
		return nil, err
	}
	return collective.New(ctx, a.Rank, members, &collective.Options{Waiter: w})
}

// exchangeFiles writes this rank's value to a file and waits for those of the others.
func exchangeFiles(ctx context.Context, prefix string, rank, ranks int, mine []byte) ([][]byte, error) {
	path := func(r int) string { return fmt.Sprint(prefix, r) }
	if err := os.WriteFile(path(rank)+".new", mine, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(path(rank)+".new", path(rank)); err != nil {
		return nil, err
	}
	all := make([][]byte, ranks)
	for r := range all {
		for {
			b, err := os.ReadFile(path(r))
			if err == nil {
				all[r] = b
				break
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("rank %d: %w", r, context.Cause(ctx))
			case <-time.After(time.Millisecond):
			}
		}
	}
	return all, nil
}

// smallTimed is the bytes up to which the writing of the input is timed with the call,
// and ranks do not meet before it.
const smallTimed = 8192

// measureCollective is the loop of floor/collective.c.
func measureCollective[T collective.Element](ctx context.Context, g *collective.Group, c collectiveCase, persistent bool, budget, perTick float64,
	from func(float32) T) (outcome, error) {
	n := max(c.bytes/elementSize[T](), g.Size())
	each := n / g.Size()
	in, out, free, err := collectiveBuffers[T](g, c, n, each)
	if err != nil {
		return outcome{}, err
	}
	defer free()
	call, err := collectiveCall(ctx, g, c.op, in, out, persistent)
	if err != nil {
		return outcome{}, err
	}
	worst := func(x float64) (float64, error) {
		all := []float64{x}
		err := collective.AllReduce(ctx, g, all, all, collective.Max)
		return all[0], err
	}
	bad, err := wrongElements(ctx, g, c.op, in, out, call, from)
	if err != nil {
		return outcome{}, err
	}
	got := outcome{calls: 3}
	if got.wrong, err = worst(float64(bad)); err != nil {
		return got, err
	}
	within := c.bytes <= smallTimed && c.op != "broadcast"
	dirty := in
	if c.op == "barrier" || c.op == "broadcast" && g.Rank() > 0 {
		dirty = nil
	}
	for pass := range 2 { // the first finds out how many calls fit
		var took uint64
		if err := g.Barrier(ctx); err != nil {
			return got, err
		}
		start := ticks()
		for range got.calls {
			rewrite(dirty)
			if within {
				if err := call(); err != nil {
					return got, err
				}
				continue
			}
			if err := g.Barrier(ctx); err != nil {
				return got, err
			}
			t := ticks()
			if err := call(); err != nil {
				return got, err
			}
			took += ticks() - t
		}
		if within {
			took = ticks() - start
		}
		seconds, err := worst(float64(took) * perTick / float64(got.calls))
		if err != nil {
			return got, err
		}
		got.micros = seconds * 1e6
		if pass == 0 {
			got.calls = min(max(int(budget/seconds), 3), 50000)
			for range got.calls / 10 {
				if got.calls <= 100 {
					break
				}
				if err := call(); err != nil {
					return got, err
				}
			}
		}
	}
	return got, nil
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
func collectiveBuffers[T collective.Element](g *collective.Group, c collectiveCase, n, each int) (in, out []T, free func(), err error) {
	if c.private {
		return make([]T, n), make([]T, each), func() {}, nil
	}
	if in, err = collective.Alloc[T](g, n); err != nil {
		return nil, nil, nil, err
	}
	if out, err = collective.Alloc[T](g, each); err != nil {
		return nil, nil, nil, err
	}
	return in, out, func() {
		_ = collective.Free(g, in)
		_ = collective.Free(g, out)
	}, nil
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
	from func(float32) T) (bad int, err error) {
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
	if err := errors.Join(g.Barrier(ctx), call()); err != nil || op == "barrier" {
		return 0, err
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
	return bad, g.Barrier(ctx)
}
