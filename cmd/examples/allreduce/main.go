// Command allreduce is the smallest program of ranks: each gives its number plus one, and
// all get the sum. It says nothing about how it is launched, and runs unchanged under
//
//	ringside run -n 4 -- ./allreduce
//	mpirun -n 4 ./allreduce
//	torchrun --no_python --nproc_per_node 4 ./allreduce
//	srun -n 4 ./allreduce
//
// as a Kubernetes indexed job, and alone. See docs/launch.md.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringside-go/ringside/collective"
)

// elements of the large sum: 4 MB.
const elements = 1 << 20

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "allreduce:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	// The log tells of ranks that are refused, and of failures.
	g, err := collective.Init(ctx, &collective.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer g.Close()

	// A slice from Alloc is shared with the other ranks of this host, which read it where
	// it lies.
	x, err := collective.Alloc[float32](g, elements)
	if err != nil {
		return err
	}
	for i := range x {
		x[i] = float32(g.Rank() + 1)
	}
	if err := collective.AllReduce(ctx, g, x, x, collective.Sum); err != nil {
		return err
	}
	want := float32(g.Size() * (g.Size() + 1) / 2)
	for i, v := range x {
		if v != want {
			return fmt.Errorf("rank %d: element %d is %v, expected %v", g.Rank(), i, v, want)
		}
	}
	hosts := "1 host"
	if n := len(g.Hosts()); n > 1 {
		hosts = fmt.Sprint(n, " hosts")
	}
	_, err = fmt.Fprintf(os.Stdout, "rank %d of %d on %s: the sum is %v\n", g.Rank(), g.Size(), hosts, x[0])
	return err
}
