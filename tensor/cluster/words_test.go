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
	const open = 4 // the part's own page, and those of three clients
	pages := map[string][]uint64{}
	for _, part := range c.Parts() {
		pages[string(part.Role)] = sharedBells(t, part.PID)
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
		stored := 0
		for _, page := range mapped {
			for _, off := range words {
				v := r.Uint32() >> r.IntN(32)
				if !store(t, mem, page, off, v) {
					break
				}
				stored++
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
		if stored < open*len(words) {
			t.Errorf("%d words of pages shared with the %s, expected at least %d", stored, role, open*len(words))
		}
	}
}

// sharedBells returns the inodes of the pages of bells that both this process and the
// process pid have mapped.
func sharedBells(t *testing.T, pid int) (inodes []uint64) {
	t.Helper()
	theirs, err := local.Inspect(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range theirs {
		if m.Kind == local.MappedBells && len(mapped(t, m.Inode)) > 0 {
			inodes = append(inodes, m.Inode)
		}
	}
	slices.Sort(inodes)
	return slices.Compact(inodes)
}

// mapped returns the addresses at which this process has mapped an inode now. Those of
// connections that are closed may go at any time.
func mapped(t *testing.T, inode uint64) (addresses []uint64) {
	t.Helper()
	ours, err := local.Inspect(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ours {
		if m.Inode == inode {
			addresses = append(addresses, m.Address)
		}
	}
	return addresses
}

// store stores v in a page, or returns false if this process has it mapped no more.
func store(t *testing.T, mem *os.File, inode, off uint64, v uint32) bool {
	t.Helper()
	for _, address := range mapped(t, inode) {
		if _, err := mem.WriteAt(binary.NativeEndian.AppendUint32(nil, v), int64(address+off)); err == nil {
			return true
		}
	}
	return false
}
