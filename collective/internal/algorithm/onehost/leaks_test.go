package onehost

import (
	"os"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// TestLeaks makes and closes comms and looks for what stays.
func TestLeaks(t *testing.T) {
	count := func(dir string) int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	maps := func() int {
		b, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "memfd:")
	}
	rounds := 50
	if testing.Short() {
		rounds = 20
	}
	var files, mapped int
	for i := range rounds {
		if i == 1 {
			files, mapped = count("/proc/self/fd"), maps()
		}
		cs := comms(t, pipes(t, 3), &Options{Chunk: 4 << 10})
		each(t, cs, func(c *Comm) error {
			b, err := c.Alloc(1 << 16)
			if err == nil {
				err = c.AllReduce(ctx, protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 1 << 14}, 1, b, b)
			}
			if err == nil {
				err = c.Send(ctx, protocol.Call{Seq: 1, Kind: protocol.Send}, (c.rank+1)%c.n, b)
			}
			return err
		})
		each(t, cs, func(c *Comm) error { return c.Close() })
	}
	if f, m := count("/proc/self/fd"), maps(); f > files || m > mapped {
		t.Errorf("%d files and %d mappings, before %d rounds it was %d and %d", f, m, rounds-1, files, mapped)
	}
}

// TestAllocations: a call in a loop leaves the garbage collector nothing to do.
func TestAllocations(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	const runs = 20
	bufs := [2][]byte{}
	for r, c := range cs {
		b, err := c.Alloc(1 << 18)
		if err != nil {
			t.Fatal(err)
		}
		bufs[r] = b
	}
	private := [2][]byte{make([]byte, 1<<18), make([]byte, 1<<18)}
	half := []int{1 << 16, 1 << 16}
	for name, one := range map[string]func(c *Comm, b []byte, seq uint64) error{
		"all-reduce": func(c *Comm, b []byte, seq uint64) error {
			return c.AllReduce(ctx, protocol.Call{Seq: seq, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32}, 1, b, b)
		},
		"small all-reduce": func(c *Comm, b []byte, seq uint64) error {
			return c.AllReduce(ctx, protocol.Call{Seq: seq, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32}, 1, b[:40], b[:40])
		},
		"reduce-scatter": func(c *Comm, b []byte, seq uint64) error {
			call := protocol.Call{Seq: seq, Kind: protocol.ReduceScatter, Op: element.Sum, DType: element.F32}
			return c.ReduceScatter(ctx, call, 1, b[1<<17:][:1<<16], b[:1<<17], half)
		},
		"all-gather": func(c *Comm, b []byte, seq uint64) error {
			return c.AllGather(ctx, protocol.Call{Seq: seq, Kind: protocol.AllGather}, b[:1<<17], b[1<<17:][:1<<16], half)
		},
		"all-to-all": func(c *Comm, b []byte, seq uint64) error {
			return c.AllToAll(ctx, protocol.Call{Seq: seq, Kind: protocol.AllToAll}, b[:1<<17], b[1<<17:], half, half)
		},
		"barrier": func(c *Comm, _ []byte, seq uint64) error {
			return c.Barrier(ctx, protocol.Call{Seq: seq, Kind: protocol.Barrier})
		},
	} {
		for _, memory := range [][2][]byte{bufs, private} {
			measure := func() float64 {
				done := make(chan error)
				go func() {
					var err error
					for seq := uint64(1); err == nil && seq <= runs+1; seq++ {
						err = one(cs[1], memory[1], seq)
					}
					done <- err
				}()
				seq := uint64(0)
				n := testing.AllocsPerRun(runs, func() {
					seq++
					if err := one(cs[0], memory[0], seq); err != nil {
						t.Error(err)
					}
				})
				if err := <-done; err != nil {
					t.Error(err)
				}
				return n
			}
			// Allocations of the whole process are counted: those by what earlier tests
			// left running come once, those of a call each time.
			n := measure()
			for tries := 1; n > 0 && tries < 3; tries++ {
				n = measure()
			}
			if n > 0 {
				t.Errorf("%s: %v allocations a call", name, n)
			}
		}
	}
}
