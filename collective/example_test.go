package collective_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective"
)

// ranks runs f on every rank of a group of n in this process.
func ranks(n int, f func(g *collective.Group) error) {
	groups, err := collective.Local(n, nil)
	if err != nil {
		log.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() {
			if err := f(g); err != nil {
				log.Fatal(err)
			}
			g.Close()
		})
	}
	wg.Wait()
}

func ExampleAllReduce() {
	ranks(3, func(g *collective.Group) error {
		x := []float32{float32(g.Rank()), 10}
		err := collective.AllReduce(context.Background(), g, x, x, collective.Sum)
		if g.Rank() == 0 {
			fmt.Println(x)
		}
		return err
	})
	// Output: [3 30]
}

func ExampleAllReduceAsync() {
	ranks(2, func(g *collective.Group) error {
		ctx := context.Background()
		// which the other rank reads in place
		grad, err := collective.Alloc[float32](g, 1024)
		if err != nil {
			return err
		}
		for i := range grad {
			grad[i] = float32(g.Rank() + i)
		}
		work := collective.AllReduceAsync(ctx, g, grad, grad, collective.Mean)
		// ... compute something else ...
		if err := work.Wait(ctx); err != nil {
			return err
		}
		if g.Rank() == 1 {
			fmt.Println(grad[0], grad[1], grad[1023])
		}
		return nil
	})
	// Output: 0.5 1.5 1023.5
}

func ExampleAllGatherV() {
	ranks(3, func(g *collective.Group) error {
		counts := []int{2, 0, 1}
		mine := make([]int32, counts[g.Rank()])
		for i := range mine {
			mine[i] = int32(10*g.Rank() + i)
		}
		all := make([]int32, 3)
		err := collective.AllGatherV(context.Background(), g, all, mine, counts)
		if g.Rank() == 1 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [0 1 20]
}

func ExampleAllReduceObject() {
	ranks(2, func(g *collective.Group) error {
		longest, err := collective.AllReduceObject(context.Background(), g, fmt.Sprint("rank ", g.Rank()*100),
			func(a, b string) (string, error) {
				if len(b) > len(a) {
					return b, nil
				}
				return a, nil
			})
		if g.Rank() == 0 {
			fmt.Println(longest)
		}
		return err
	})
	// Output: rank 100
}

func ExampleGroup_Split() {
	ranks(4, func(g *collective.Group) error {
		ctx := context.Background()
		pair, err := g.Split(ctx, g.Rank()%2, 0) // even and odd ranks
		if err != nil {
			return err
		}
		x := []int64{int64(g.Rank())}
		if err := collective.AllReduce(ctx, pair, x, x, collective.Max); err != nil {
			return err
		}
		if g.Rank() == 1 {
			fmt.Println(pair.Rank(), "of", pair.Size(), x)
		}
		return pair.Close()
	})
	// Output: 0 of 2 [3]
}

func ExampleGroup_Shrink() {
	ctx := context.Background()
	ranks(3, func(g *collective.Group) error {
		if g.Rank() == 1 {
			return nil // leaves
		}
		x := []float64{1}
		for g.Err() == nil {
			if err := collective.AllReduce(ctx, g, x, x, collective.Sum); err == nil {
				return fmt.Errorf("nobody left")
			}
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		rest, err := g.Shrink(ctx)
		if err != nil {
			return err
		}
		x[0] = 1
		if err := collective.AllReduce(ctx, rest, x, x, collective.Sum); err != nil {
			return err
		}
		if rest.Rank() == 0 {
			fmt.Println(rest.Size(), "ranks:", x[0])
		}
		return rest.Close()
	})
	// Output: 2 ranks: 2
}
