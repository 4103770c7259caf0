package rendezvous

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestSilentStrangers: callers that say nothing, as many as may be in the handshake, keep no rank waiting: the oldest gives up its place,
// and only that one.
func TestSilentStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := World{Size: 30, MasterAddr: "rank0", MasterPort: 1, Secret: []byte("secret")}
		s := newServer(w, nil, slog.New(slog.DiscardHandler))
		call := func() net.Conn {
			ours, theirs := net.Pipe()
			s.wg.Go(func() { s.serve(theirs) })
			synctest.Wait() // it has its place, and is waited for
			return ours
		}
		open := func(c net.Conn) bool {
			c.SetReadDeadline(time.Now())
			_, err := c.Read(make([]byte, 1))
			if err == nil || errors.Is(err, io.EOF) == isTimeout(err) {
				t.Fatalf("%v; expected the end, or nothing", err)
			}
			return isTimeout(err)
		}
		var silent []net.Conn
		for range maxStrangers + w.Size {
			silent = append(silent, call())
		}
		if !open(silent[0]) {
			t.Error("a stranger was hung up on while there was room")
		}
		begin := time.Now()
		w.Rank = 1
		rank := call()
		if _, _, err := greet(rank, w); err != nil {
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
		if _, _, err := greet(call(), w); err != nil { // in the place that rank 1 left
			t.Error(err)
		}
		if !open(silent[1]) {
			t.Error("a stranger was hung up on though a place was free")
		}
		s.close(0)
	})
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}
