package tcp_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/tcp"
)

// heap is what of the heap is in use.
func heap() int {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // what the first collection's cleanups let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestHeap: what listeners and conns hold of the heap while they are idle, also after
// large messages and transfers.
func TestHeap(t *testing.T) {
	if testsize.Raced {
		t.Skip("the race detector keeps memory of its own in the heap")
	}
	const listeners = 100
	before := heap()
	var all []ipc.Listener
	for range listeners {
		l, err := tcp.New().Listen("127.0.0.1:0", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l)
	}
	each := (heap() - before) / listeners
	runtime.KeepAlive(all)
	t.Logf("a listener holds %d bytes", each)
	if each > 8<<10 {
		t.Errorf("a listener holds %d bytes of the heap, expected at most %d", each, 8<<10)
	}
	t.Run("plain", func(t *testing.T) { heapOfConns(t, nil, 32<<10) })
	t.Run("TLS", func(t *testing.T) { heapOfConns(t, &ipc.TLS{}, 128<<10) })
}

// heapOfConns measures ends of conns, before and after they were used.
func heapOfConns(t *testing.T, tls *ipc.TLS, most int) {
	const conns, messages, bytes = 16, 10, 1 << 20
	ctx := testContext(t)
	from, to := make([]byte, bytes), make([]byte, bytes)
	pairOver(t, ctx, waiters["sleeping"], tls) // what the first one makes for all
	before := heap()
	var ends [][2]end
	for range conns {
		a, b := pairOver(t, ctx, waiters["sleeping"], tls)
		ends = append(ends, [2]end{a, b})
	}
	fresh := (heap() - before) / (2 * conns)
	for i := range ends {
		for k := range 2 {
			a, b := ends[i][k], ends[i][1-k]
			if errA, errB := both(t, func() error {
				for range messages {
					if _, err := a.Reserve(ctx, 1, ipc.MessageLimit(ipc.DefaultRingBytes)); err != nil {
						return err
					}
					if err := a.Commit(); err != nil {
						return err
					}
				}
				return a.exchange(ctx, 1, [][]byte{from}, nil)
			}, func() error {
				for range messages {
					if _, err := b.Recv(ctx); err != nil {
						return err
					}
					b.Release()
				}
				return b.exchange(ctx, 1, nil, [][]byte{to})
			}); errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
		}
	}
	// A goroutine that reads may give its buffers back only after the last message was
	// taken.
	used := (heap() - before) / (2 * conns)
	for used > most && ctx.Err() == nil {
		runtime.Gosched()
		used = (heap() - before) / (2 * conns)
	}
	t.Logf("an end holds %d bytes, and %d after it was used", fresh, used)
	if used > most {
		t.Errorf("an end holds %d bytes of the heap when it is idle, expected at most %d", used, most)
	}
	runtime.KeepAlive(from)
	runtime.KeepAlive(to)
	for _, e := range ends {
		e[0].Close()
		e[1].Close()
	}
	for _, e := range ends { // so that the next measurement has none of them
		for !tcp.Unmapped(e[0].Conn) || !tcp.Unmapped(e[1].Conn) {
			if ctx.Err() != nil {
				t.Fatal("a conn is not closed")
			}
			runtime.Gosched()
		}
	}
}
