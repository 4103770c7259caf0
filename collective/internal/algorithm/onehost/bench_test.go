package onehost

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/shm"
)

var flat = flag.Int("host.flat", 0, "Options.Flat of benchmarks")

// roles by name.
var roles = map[string]func(c *Comm, r role) error{
	"bench": benchRole,
	"works": worksRole,
	"loop":  loopRole,
}

// benchRole times all-reduces of f32 and prints, on rank 0, the nanoseconds of one: the
// median of rounds. Dirty: every rank rewrites its input before each call, which is not
// timed.
func benchRole(c *Comm, r role) error {
	buf := make([]byte, r.Bytes)
	switch {
	case r.Shown && r.Bytes > 0:
		a, err := shm.NewArena(&shm.ArenaOptions{Segment: shm.Options{Backing: shm.Memfd, PeersRead: true, Prefault: true}})
		if err != nil {
			return err
		}
		defer a.Close()
		b, err := a.Alloc(r.Bytes)
		if err != nil {
			return err
		}
		if err := c.Show(a.Segments()[0]); err != nil {
			return err
		}
		buf = b.Bytes()[:r.Bytes]
	case !r.Staged && r.Bytes > 0:
		var err error
		if buf, err = c.Alloc(r.Bytes); err != nil {
			return err
		}
	}
	call := protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: int64(r.Bytes / 4)}
	if r.Bytes == 0 {
		call.Kind = protocol.Barrier
	}
	var all []byte
	counts := make([]int, r.Size)
	for p := range counts {
		counts[p] = r.Bytes
	}
	if r.Gather {
		call.Kind, all = protocol.AllGather, make([]byte, r.Size*r.Bytes)
	}
	one := func() error {
		call.Seq++
		switch {
		case r.Bytes == 0:
			return c.Barrier(ctx, call)
		case r.Gather:
			return c.AllGather(ctx, call, all, buf, counts)
		}
		return c.AllReduce(ctx, call, 1, buf, buf)
	}
	inner := max(3, min(20000, 2<<20/max(r.Bytes, 64)))
	var rounds []float64
	for range 15 {
		var spent time.Duration
		if r.Dirty {
			for range min(inner, 200) {
				for i := 0; i+4 <= len(buf); i += 4 {
					binary.LittleEndian.PutUint32(buf[i:], math.Float32bits(1))
				}
				call.Seq++
				if err := c.Barrier(ctx, protocol.Call{Seq: call.Seq, Kind: protocol.Barrier}); err != nil {
					return err
				}
				start := time.Now()
				if err := one(); err != nil {
					return err
				}
				spent += time.Since(start)
			}
			rounds = append(rounds, float64(spent)/float64(min(inner, 200)))
			continue
		}
		start := time.Now()
		for range inner {
			if err := one(); err != nil {
				return err
			}
		}
		rounds = append(rounds, float64(time.Since(start))/float64(inner))
	}
	slices.Sort(rounds)
	if c.rank == 0 {
		fmt.Printf("%.1f %.1f\n", rounds[len(rounds)/2], rounds[0])
	}
	return nil
}

// BenchmarkProcesses times all-reduces among processes.
func BenchmarkProcesses(b *testing.B) {
	for _, ranks := range []int{2, 4} {
		for _, w := range []where{registered, staged, displayed} {
			for _, size := range []int{0, 4, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20} {
				for _, dirty := range []bool{false, true} {
					if dirty && size < 1<<10 {
						continue
					}
					name := fmt.Sprintf("ranks=%d/%v/bytes=%d/dirty=%v", ranks, w, size, dirty)
					b.Run(name, func(b *testing.B) {
						timeRanks(b, ranks, role{What: "bench", Bytes: size, Staged: w == staged, Shown: w == displayed, Dirty: dirty, Flat: *flat})
					})
				}
			}
		}
	}
}

// BenchmarkGathers times all-gathers among two processes, each of which rewrites what it
// gives before.
func BenchmarkGathers(b *testing.B) {
	for _, w := range []where{registered, staged, displayed} {
		for _, size := range []int{16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20} {
			b.Run(fmt.Sprintf("%v/bytes=%d", w, size), func(b *testing.B) {
				timeRanks(b, 2, role{What: "bench", Bytes: size, Staged: w == staged, Shown: w == displayed, Dirty: true, Gather: true})
			})
		}
	}
}

// timeRanks reports what rank 0 of a benchmark prints.
func timeRanks(b *testing.B, ranks int, r role) {
	ps := start(b, ranks, r)
	for _, p := range ps {
		if err := <-p.done; err != nil {
			b.Fatal(err)
		}
	}
	var median, least float64
	if _, err := fmt.Sscan(strings.TrimSpace(<-ps[0].lines), &median, &least); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(median, "ns/call")
	b.ReportMetric(least, "least-ns/call")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAlone times calls of a single rank: what they cost beside the waiting.
func BenchmarkAlone(b *testing.B) {
	c := comms(b, pipes(b, 1), nil)[0]
	buf := make([]byte, 1024)
	call := protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 1}
	b.Run("barrier", func(b *testing.B) {
		for b.Loop() {
			call.Seq++
			if err := c.Barrier(ctx, call); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{4, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				call.Seq++
				if err := c.AllReduce(ctx, call, 1, buf[:n], buf[:n]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
