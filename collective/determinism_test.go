package collective

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
)

// TestSameBits: all transports and 20 runs with random delays give the same bits, for
// every float type, and for all ranks.
func TestSameBits(t *testing.T) {
	s := seed(t)
	hostOf := []int{0, 1, 0, 1}
	runs := 20
	if testsize.Sampled() {
		runs = 5
	}
	inputs := make([]map[string]any, len(hostOf))
	for r := range inputs {
		inputs[r] = map[string]any{}
		for _, count := range sameBitsCounts {
			keep[float64](inputs[r], count, r)
			keep[float32](inputs[r], count, r)
			keep[Float16](inputs[r], count, r)
			keep[BFloat16](inputs[r], count, r)
		}
	}
	want := map[string][]byte{}
	for _, transport := range append([]string{"memory"}, transports...) {
		groups, err := openWorld(transport, hostOf, nil)
		if err != nil {
			t.Fatal(err)
		}
		for run := range runs {
			if transport == "memory" && run > 0 {
				break
			}
			got := make([]map[string][]byte, len(groups))
			all(t, groups, func(g *Group) error {
				rng := rand.New(rand.NewPCG(s+uint64(run), uint64(g.Rank())))
				got[g.Rank()] = map[string][]byte{}
				for _, count := range sameBitsCounts {
					if rng.IntN(2) == 0 {
						<-time.After(time.Duration(rng.IntN(1500)) * time.Microsecond)
					}
					for _, f := range []func() (string, []byte, error){
						func() (string, []byte, error) { return keptReduction[float64](g, rng, inputs[g.Rank()], count) },
						func() (string, []byte, error) { return keptReduction[float32](g, rng, inputs[g.Rank()], count) },
						func() (string, []byte, error) { return keptReduction[Float16](g, rng, inputs[g.Rank()], count) },
						func() (string, []byte, error) { return keptReduction[BFloat16](g, rng, inputs[g.Rank()], count) },
					} {
						name, b, err := f()
						if err != nil {
							return err
						}
						got[g.Rank()][name] = b
					}
				}
				return nil
			})
			if len(want) == 0 {
				want = got[0]
			}
			for r, results := range got {
				for name, b := range results {
					if !slices.Equal(b, want[name]) {
						t.Errorf("%s, run %d, rank %d: %s has other bits", transport, run, r, name)
					}
				}
			}
		}
		closeAll(t, groups)
	}
}

// sameBitsCounts has one of every way that a call can take.
var sameBitsCounts = []int{1, 7, 1000, 4099, 50_003}

func keep[T Element](inputs map[string]any, count, rank int) {
	inputs[bitsName[T](count)] = input[T](Sum, count, rank)
}

func bitsName[T Element](count int) string { return fmt.Sprintf("%v x %d", dtypeOf[T](), count) }

// oneReduction is a mean of this rank's input.
func oneReduction[T Element](g *Group, rng *rand.Rand, count int) (string, []byte, error) {
	inputs := map[string]any{}
	keep[T](inputs, count, g.Rank())
	return keptReduction[T](g, rng, inputs, count)
}

// keptReduction is a mean in memory of a random kind.
func keptReduction[T Element](g *Group, rng *rand.Rand, inputs map[string]any, count int) (string, []byte, error) {
	name := bitsName[T](count)
	x := slices.Clone(inputs[name].([]T))
	if rng.IntN(2) == 0 {
		shared, err := Alloc[T](g, count)
		if err != nil {
			return "", nil, err
		}
		defer Free(g, shared)
		copy(shared, x)
		x = shared
	}
	err := AllReduce(context.Background(), g, x, x, Mean)
	return name, slices.Clone(bytesOf(x)), err
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestNoLeak opens and closes groups: descriptors and goroutines are as before. Full
// tests make 1,000, under the race detector 200.
func TestNoLeak(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 40
	} else if testsize.Raced {
		n = 200
	}
	worlds := [][]int{{0, 0}, {0, 1}, {0, 0, 1}}
	cycle := func(i int) {
		transport := transports[i%len(transports)]
		groups, err := openWorld(transport, worlds[i/len(transports)%len(worlds)], nil)
		if err != nil {
			t.Fatalf("group %d: %v", i, err)
		}
		all(t, groups, func(g *Group) error {
			x, err := Alloc[int64](g, 5)
			if err != nil {
				return err
			}
			for j := range x {
				x[j] = int64(g.Rank())
			}
			if err := AllReduceAsync(t.Context(), g, x, x, Max).Wait(t.Context()); err != nil {
				return err
			}
			if x[4] != int64(g.Size()-1) {
				return fmt.Errorf("max %d of %d ranks", x[4], g.Size())
			}
			return nil
		})
		closeAll(t, groups)
	}
	for i := range len(worlds) * len(transports) {
		cycle(i) // what is made once and kept
	}
	settle()
	files, routines := descriptors(t), runtime.NumGoroutine()
	for i := range n {
		cycle(i)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		settle()
		f, r := descriptors(t), runtime.NumGoroutine()
		if f <= files && r <= routines {
			t.Logf("%d groups; %d descriptors and %d goroutines before, %d and %d after", n, files, routines, f, r)
			return
		}
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d descriptors and %d goroutines before, %d and %d after\n%s", files, routines, f, r, buf[:runtime.Stack(buf, true)])
		}
	}
}

// settle lets what is unreachable be found, and goroutines that are ending end.
func settle() {
	for range 3 {
		runtime.GC()
		<-time.After(10 * time.Millisecond)
	}
}
