package breaker_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// scribblePause is the time between two words that childScribble stores: it leaves
// processors to others.
const scribblePause = 100 * time.Microsecond

// childScribble opens sessions and stores random values in words of the memory that it
// shares: the pages of bells of the dispatcher and of workers, and the rings of its own
// connections. Half of them go to the first words of a page, which mean something.
func childScribble(ctx context.Context, args []string) error { // ADDR SEED
	var seed uint64
	if _, err := fmt.Sscan(args[1], &seed); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 0))
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	for opened := false; ctx.Err() == nil; {
		// the last session's end may have left this process's own memory in any state
		dialing, cancel := context.WithTimeout(ctx, time.Second)
		e, err := client.Dial(dialing, args[0], &client.Options{Name: "attacker"})
		cancel()
		if err != nil {
			continue
		}
		if !opened {
			opened = true
			fmt.Println("a session is open")
		}
		all, err := local.Inspect(os.Getpid())
		if err != nil {
			return err
		}
		for range 500 {
			m := all[r.IntN(len(all))]
			off := r.Uint64N(m.Bytes) &^ 3
			if r.IntN(2) == 0 {
				off %= 256
			}
			if m.Kind == local.MappedRings || m.Kind == local.MappedBells {
				// memory of a connection that has ended is gone
				_, _ = mem.WriteAt(binary.NativeEndian.AppendUint32(nil, r.Uint32()>>r.IntN(32)), int64(m.Address+off))
			}
			select {
			case <-time.After(scribblePause):
			case <-ctx.Done():
			}
		}
		e.Close()
	}
	return nil
}

// TestWords has a client store random values in all memory that it shares with the
// dispatcher and the workers. Sessions go on, and new ones open.
func TestWords(t *testing.T) {
	rounds := 500
	if testing.Short() {
		rounds = 20
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := start(t, cluster.Options{Workers: 2})
	one, two := newHonest(t, dial(t, c, 1)), newHonest(t, dial(t, c, 2))
	attack(t, "scribble", c.Addr(), fmt.Sprint(seed))
	for range rounds {
		one.round()
		two.round()
		e := dial(t, c, 1)
		if x, err := tensor.Ones(tensor.NewSession(e, nil), tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
			t.Fatalf("a new client got %v, %v; expected 100", x, err)
		}
		e.Close()
	}
	one.report("random values in shared words", maxStallFull)
	two.report("random values in shared words, two workers", maxStallFull)
}
