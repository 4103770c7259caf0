package memory_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
)

// latency prints how long hand-overs and uploads take over a library, for the report of
// a machine with a GPU. args are the library and how many hand-overs.
func latency(ctx context.Context, args []string) error {
	handOvers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "latency")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := listener(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	cmd := exec.Command(os.Args[0], "export-timed", args[0], l.Addr(), strconv.Itoa(int(memory.Handles)), args[1])
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	i, err := newImporter(ctx, args[0], l, nil)
	if err != nil {
		return err
	}
	for range handOvers {
		h, _, err := i.next(ctx)
		if err != nil {
			return err
		}
		if _, err := i.imports.Resolve(peerOwner, h); err != nil {
			return err
		}
		if err := i.done(ctx, h); err != nil {
			return err
		}
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	if err := uploads(i.side); err != nil {
		return err
	}
	return i.close()
}

// exportTimed hands one tensor after another to a process that gives each back, and
// prints the median of half the round trip. args are those of newExporter and how many.
func exportTimed(ctx context.Context, args []string) error {
	handOvers, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	e, err := newExporter(ctx, args, nil)
	if err != nil {
		return err
	}
	times := make([]time.Duration, handOvers)
	for n := range times {
		b, err := e.fill(1<<20, 1)
		if err != nil {
			return err
		}
		if err := e.stream.Sync(); err != nil {
			return err
		}
		begin := time.Now()
		if err := e.hand(ctx, b, 1); err != nil {
			return err
		}
		if err := e.done(ctx); err != nil {
			return err
		}
		times[n] = time.Since(begin) / 2
		b.Release()
	}
	slices.Sort(times)
	fmt.Printf("hand-off p50 %.2f us, p99 %.2f us\n", micros(times[handOvers/2]), micros(times[handOvers*99/100]))
	return e.close()
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// uploads prints the speed of uploads from registered memory and through slots.
func uploads(s *side) error {
	const n = 64 * mib
	host, err := shm.NewArena(&shm.ArenaOptions{First: 2 * n, OnSegment: func(seg *shm.Segment) {
		if err := s.dev.Register(seg); err != nil {
			fmt.Println("registration:", err)
		}
	}, FreeSegment: func(seg *shm.Segment) {
		if err := s.dev.Unregister(seg); err != nil {
			fmt.Println("registration:", err)
		}
	}})
	if err != nil {
		return err
	}
	pool, err := s.dev.NewPool(memory.Handles)
	if err != nil {
		return err
	}
	from, err := host.Alloc(n)
	if err != nil {
		return err
	}
	to, err := pool.Alloc(n)
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name   string
		upload func() error
	}{
		{"registered", func() error { from.Retain(); return s.stream.Upload(pool.Address(to), from, n) }},
		{"staged", func() error { return s.stream.Write(pool.Address(to), from.Bytes()) }},
	} {
		best := time.Duration(1 << 62)
		for range 10 {
			begin := time.Now()
			if err := way.upload(); err != nil {
				return err
			}
			if err := s.stream.Sync(); err != nil {
				return err
			}
			best = min(best, time.Since(begin))
		}
		fmt.Printf("upload %s %.2f GB/s\n", way.name, n/best.Seconds()/1e9)
	}
	from.Release()
	to.Release()
	if err := pool.Close(); err != nil {
		return err
	}
	return host.Close()
}
