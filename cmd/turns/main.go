// Command turns compares the benchmarks of the tree in the current folder with those of
// an earlier revision. Run it by make turns.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ringside-go/ringside/bench"
	"github.com/ringside-go/ringside/bench/revision"
	"github.com/ringside-go/ringside/bench/turns"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: turns -base REVISION [-turns 5] [-limit 1.03] 'ARGUMENTS OF ringside bench'...")
		flag.PrintDefaults()
	}
	base := flag.String("base", "", "the git revision that is compared with")
	n := flag.Int("turns", 5, "how often each side runs")
	limit := flag.Float64("limit", 1.03, "the largest ratio that is not called missed")
	flag.Parse()
	if *base == "" || flag.NArg() == 0 || *n < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *base, *n, *limit, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "turns:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, base string, n int, limit float64, scenarios []string) error {
	bin, err := os.MkdirTemp("", "ringside-turns-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	tree, err := revision.Checkout(base)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	sides := []*turns.Side{
		{Name: base, Tree: tree, Bin: filepath.Join(bin, "before")},
		{Name: "this tree", Tree: ".", Bin: filepath.Join(bin, "now")},
	}
	for turn := range n {
		fmt.Fprintf(os.Stderr, "building programs %d of %d\n", turn+1, n)
		for _, s := range sides {
			if err := s.Build(ctx, turn+1); err != nil {
				return err
			}
		}
	}
	var table turns.Table
	begin := time.Now()
	for turn := range n {
		for _, args := range scenarios {
			fmt.Fprintf(os.Stderr, "%4.0f s: turn %d of %d, bench %s\n", time.Since(begin).Seconds(), turn+1, n, args)
			var got [2][]bench.Measurement
			for i := range sides {
				side := (i + turn) % 2 // the other side begins every other turn
				if got[side], err = sides[side].Run(ctx, turn+1, strings.Fields(args)); err != nil {
					return err
				}
			}
			table.Add(got[0], got[1])
		}
	}
	_, err = table.Write(os.Stdout, limit)
	return err
}
