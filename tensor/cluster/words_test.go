package cluster_test

import (
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestStoredWords has a client store random values in the words of the bells that it
// shares with the dispatcher and with the worker, where its session has a connection of
// its own. A second client trains on with the same losses as undisturbed, and new
// sessions are opened, with connections of their own.
func TestStoredWords(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ctx := testContext(t)
	c, err := cluster.Start(ctx, &cluster.Options{Dir: socketDir(t), Workers: 1, Args: childArgs("")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var log ipctest.Log // that a session has no connection of its own
	dial := func() *client.Engine {
		e, err := client.Dial(ctx, c.Addr(), &client.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	losses := func(m *model) []float64 {
		got, err := m.train(2)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := dial()
	defer first.Close()
	undisturbed := newModel(tensor.NewSession(first, nil))
	attacker, other := dial(), dial()
	defer attacker.Close()
	defer other.Close()
	second := newModel(tensor.NewSession(other, nil))
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	// All of them now: a client that has closed may unmap its own at any time.
	pages := map[string][]local.Mapping{}
	for _, part := range c.Parts() {
		if pages[string(part.Role)] = sharedBells(t, part.PID); len(pages[string(part.Role)]) < 2 {
			t.Fatalf("%v is shared with the %s, expected its page of bells and the clients'", pages, part.Role)
		}
	}
	// The words that mean anything, and one that does not.
	words := []uint64{0, 4, 8, 12, 16, 20, ring.BellSize + 8, ring.BellSize + 12}
	var want [][]float64
	for _, mapped := range pages {
		for range len(mapped) * len(words) {
			want = append(want, losses(undisturbed))
		}
	}
	round := 0
	for role, mapped := range pages {
		for _, page := range mapped {
			for _, off := range words {
				v := r.Uint32() >> r.IntN(32)
				if _, err := mem.WriteAt(binary.NativeEndian.AppendUint32(nil, v), int64(page.Address+off)); err != nil {
					t.Fatal(err)
				}
				third := dial()
				if got := losses(second); !slices.Equal(got, want[round]) {
					t.Errorf("the second client's losses are %v, expected %v", got, want[round])
				}
				if got := losses(newModel(tensor.NewSession(third, nil))); !slices.Equal(got, want[0]) {
					t.Errorf("a new client's losses are %v, expected %v", got, want[0])
				}
				third.Close()
				round++
				if odd := log.Take(); odd != "" || t.Failed() {
					t.Fatalf("page of the %s, offset %d, value %#x: %s", role, off, v, odd)
				}
			}
		}
	}
}

// sharedBells returns this process's mappings of the pages of bells that the process pid
// has mapped as well.
func sharedBells(t *testing.T, pid int) (pages []local.Mapping) {
	t.Helper()
	theirs, err := local.Inspect(pid)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := local.Inspect(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ours {
		if m.Kind == local.MappedBells && slices.ContainsFunc(theirs, func(o local.Mapping) bool { return o.Inode == m.Inode }) {
			pages = append(pages, m)
		}
	}
	return pages
}
