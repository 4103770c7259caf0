package bench

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/tensor/cpu"
)

// sgemm is a matrix product that is repeated by as many goroutines as it is told, each of
// which computes its own rectangle of the result.
type sgemm struct {
	product *cpu.Product
	threads int

	// Of each helper: how many products come next. Between runs it waits here, and leaves
	// its core to the other side.
	runs  []chan int
	ready atomic.Int64 // helpers that wait for the first product of a run
	// Number of the product under way; within a run helpers look for the next.
	turn atomic.Uint64
	done atomic.Int64 // helpers that have done their part of all so far
}

// newSgemm makes operands, transposed as mode says: bit 0 a, bit 1 b.
func newSgemm(m, n, k, mode, threads int) *sgemm {
	g := &sgemm{product: cpu.NewProduct(m, n, k, mode&1 != 0, mode>>1 != 0, threads), threads: threads}
	for i := 1; i < threads; i++ {
		run := make(chan int)
		g.runs = append(g.runs, run)
		go g.help(i, run)
	}
	return g
}

// help does part i of every product.
func (g *sgemm) help(i int, runs <-chan int) {
	next := uint64(0)
	for n := range runs {
		g.ready.Add(1)
		for range n {
			next++
			for tries := 1; g.turn.Load() < next; tries++ {
				relent(tries)
			}
			g.product.Compute(i)
			g.done.Add(1)
		}
	}
}

// time computes the product n times. The clock starts when all helpers are awake.
func (g *sgemm) time(n int) time.Duration {
	helpers := int64(g.threads - 1)
	g.ready.Store(0)
	for _, run := range g.runs {
		run <- n
	}
	for tries := 1; g.ready.Load() < helpers; tries++ {
		relent(tries)
	}
	start := time.Now()
	for range n {
		turn := g.turn.Add(1)
		g.product.Compute(0)
		for tries := 1; g.done.Load() < int64(turn)*helpers; tries++ {
			relent(tries)
		}
	}
	return time.Since(start)
}

// relent yields now and then: there may be fewer cores than goroutines that look for each
// other.
func relent(tries int) {
	if tries%10000 == 0 {
		runtime.Gosched()
	}
}

func (g *sgemm) close() {
	for _, run := range g.runs {
		close(run)
	}
}
