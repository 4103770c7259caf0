// Command collectives makes every kind of call between ranks once, on a few numbers each,
// and prints what rank 0 got.
//
//	go build && ringside run -n 4 -- ./collectives
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringside-go/ringside/collective"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "collectives:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	g, err := collective.Init(ctx, nil)
	if err != nil {
		return err
	}
	defer g.Close()
	for _, call := range []func(context.Context, *collective.Group) error{reductions, copies, exchange, started, again, values} {
		if err := call(ctx, g); err != nil {
			return err
		}
	}
	return g.Barrier(ctx) // no rank leaves before all are here
}

// say prints on rank 0 alone.
func say(g *collective.Group, format string, args ...any) {
	if g.Rank() == 0 {
		fmt.Printf(format+"\n", args...)
	}
}

// numbers are n elements of this rank: 10 * rank + i.
func numbers(g *collective.Group, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(10*g.Rank() + i)
	}
	return x
}

// reductions fold the elements of all ranks: everywhere, on one rank, in pieces.
func reductions(ctx context.Context, g *collective.Group) error {
	n := g.Size()
	all, one, piece := make([]float32, 2), make([]float32, 2), make([]float32, 1)
	if err := collective.AllReduce(ctx, g, all, numbers(g, 2), collective.Sum); err != nil {
		return err
	}
	if err := collective.Reduce(ctx, g, one, numbers(g, 2), collective.Max, 0); err != nil {
		return err
	}
	if err := collective.ReduceScatter(ctx, g, piece, numbers(g, n), collective.Mean); err != nil {
		return err
	}
	say(g, "all-reduce: sum %v; reduce: maximum %v; reduce-scatter: mean %v", all, one, piece)
	return nil
}

// copies have one rank's elements, or all ranks', elsewhere.
func copies(ctx context.Context, g *collective.Group) error {
	n, last := g.Size(), g.Size()-1
	buf, all, root, piece := numbers(g, 2), make([]float32, n), make([]float32, n), make([]float32, 1)
	if err := collective.Broadcast(ctx, g, buf, last); err != nil {
		return err
	}
	if err := collective.AllGather(ctx, g, all, numbers(g, 1)); err != nil {
		return err
	}
	if err := collective.Gather(ctx, g, root, numbers(g, 1), 0); err != nil {
		return err
	}
	if err := collective.Scatter(ctx, g, piece, numbers(g, n), last); err != nil {
		return err
	}
	say(g, "broadcast from rank %d: %v; all-gather: %v; gather: %v; scatter: %v", last, buf, all, root, piece)
	return nil
}

// exchange has every rank send to others.
func exchange(ctx context.Context, g *collective.Group) error {
	n := g.Size()
	got := make([]float32, n)
	if err := collective.AllToAll(ctx, g, got, numbers(g, n)); err != nil {
		return err
	}
	say(g, "all-to-all: %v", got)
	left := make([]float32, 1)
	if err := collective.SendRecv(ctx, g, numbers(g, 1), (g.Rank()+1)%n, left, (g.Rank()+n-1)%n); err != nil {
		return err
	}
	say(g, "from the rank before: %v", left)
	return nil
}

// started goes on while the ranks communicate.
func started(ctx context.Context, g *collective.Group) error {
	sum := make([]float32, 1)
	work := collective.AllReduceAsync(ctx, g, sum, numbers(g, 1), collective.Sum)
	here := 0
	for i := range 1000 {
		here += i
	}
	if err := work.Wait(ctx); err != nil {
		return err
	}
	say(g, "started: sum %v, and %d meanwhile", sum, here)
	return nil
}

// again makes a call that is repeated once, in memory that the ranks share.
func again(ctx context.Context, g *collective.Group) error {
	x, err := collective.Alloc[float32](g, 2)
	if err != nil {
		return err
	}
	copy(x, numbers(g, 2))
	call, err := collective.AllReduceInit(g, x, x, collective.Mean)
	if err != nil {
		return err
	}
	for range 3 { // the mean of means
		if err := call.Run(ctx); err != nil {
			return err
		}
	}
	say(g, "three times: mean %v", x)
	return nil
}

// values are anything that encodes.
func values(ctx context.Context, g *collective.Group) error {
	names, err := collective.AllGatherObject(ctx, g, fmt.Sprint("rank ", g.Rank()))
	if err != nil {
		return err
	}
	say(g, "values: %q", names)
	return nil
}
