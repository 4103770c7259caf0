package ipc

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithDefaults(t *testing.T) {
	o, err := (*Options)(nil).WithDefaults()
	if err != nil || o.RingBytes != DefaultRingBytes || o.HandshakeTimeout != DefaultHandshakeTimeout || o.Logger == nil {
		t.Errorf("defaults are %+v, %v", o, err)
	}
	o.Logger.Error("goes nowhere")
	given := &Options{RingBytes: 1 << 16, HandshakeTimeout: time.Second, Secret: []byte("secret"), AllowGID: 5}
	if o, err = given.WithDefaults(); err != nil || o.RingBytes != 1<<16 || o.HandshakeTimeout != time.Second || o.AllowGID != 5 {
		t.Errorf("options became %+v, %v", o, err)
	}
	given.Secret[0] = 'x'
	if string(o.Secret) != "secret" {
		t.Error("the secret was not copied")
	}
	for _, n := range []int{-1, 1, 5000, MinRingBytes - 1, MaxRingBytes + 1, MaxRingBytes * 2} {
		if err := CheckRingBytes(n); !errors.Is(err, ErrBadOption) {
			t.Errorf("RingBytes %d: %v", n, err)
		}
	}
}

func TestContextError(t *testing.T) {
	if err := ContextError(context.Background()); err != nil {
		t.Errorf("a living context: %v", err)
	}
	why := errors.New("the reason")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if err := ContextError(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, why) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
	ctx, stop := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer stop()
	if err := ContextError(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
}

func TestPeerError(t *testing.T) {
	err := error(&PeerError{Peer: Peer{Role: RoleWorker, Name: "w0", PID: 7, Addr: "/run/x"}, Err: ErrPeerGone})
	if !errors.Is(err, ErrPeerGone) {
		t.Error("does not unwrap")
	}
	for _, part := range []string{"worker", "w0", "7", "/run/x", "gone"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	seen := map[string]bool{}
	for r := RoleUnknown; r <= RoleRank; r++ {
		if seen[r.String()] {
			t.Errorf("two roles are %q", r)
		}
		seen[r.String()] = true
	}
}

// TestWaiter: a Wake before Wait is not lost, and a waiter without news sleeps (the
// bubble's clock moves only when all goroutines sleep).
func TestWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWaiter()
		w.Wake()
		w.Wake()
		calls := 0
		if err := w.Wait(context.Background(), func() bool { calls++; return calls == 2 }); err != nil || calls != 2 {
			t.Errorf("%d calls, %v", calls, err)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := w.Wait(ctx, func() bool { return false }); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
		if d := time.Since(begin); d != time.Hour {
			t.Errorf("waited %v", d)
		}
		var news atomic.Bool
		time.AfterFunc(time.Minute, func() { news.Store(true); w.Wake() })
		if err := w.Wait(context.Background(), news.Load); err != nil {
			t.Error(err)
		}
	})
}
