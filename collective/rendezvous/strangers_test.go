package rendezvous

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// TestSilentStrangers: conns that don't join, as many as there may be, keep no rank
// waiting: the oldest gives up its place, and only that one. net/tcp has the same test
// for handshakes.
func TestSilentStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := World{Size: 30, MasterAddr: "rank0", MasterPort: 1, Secret: []byte("secret")}
		s, dial := served(t, w)
		call := func() ipc.Conn {
			c := dial()
			synctest.Wait() // it has its place, and is waited for
			return c
		}
		open := func(c ipc.Conn) bool {
			synctest.Wait()
			_, ok, err := c.TryRecv()
			if ok || err != nil && !errors.Is(err, ipc.ErrPeerGone) {
				t.Fatalf("received %v, %v; expected the end, or nothing", ok, err)
			}
			return err == nil
		}
		var silent []ipc.Conn
		for range maxStrangers + w.Size {
			silent = append(silent, call())
		}
		if !open(silent[0]) {
			t.Error("a stranger was hung up on while there was room")
		}
		begin := time.Now()
		w.Rank = 1
		if _, err := join(t.Context(), call(), w); err != nil {
			t.Errorf("a rank among silent strangers: %v", err)
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("it was kept waiting for %v", d)
		}
		for i, c := range silent {
			if open(c) != (i > 0) {
				t.Errorf("stranger %d of %d: open %v; expected that the oldest one has lost its place", i, len(silent), i == 0)
			}
		}
		w.Rank = 2
		// in the place that rank 1 left
		if _, err := join(t.Context(), call(), w); err != nil {
			t.Error(err)
		}
		if !open(silent[1]) {
			t.Error("a stranger was hung up on though a place was free")
		}
		<-time.After(joinTimeout) // of the bubble
		for i, c := range silent[1:] {
			if open(c) {
				t.Fatalf("stranger %d is open after the time to join", 1+i)
			}
		}
		s.close(0)
	})
}
